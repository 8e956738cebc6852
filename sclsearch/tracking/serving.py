"""Loader of a winner that MLflow has as a model: `mlflow.pyfunc` imports this module by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.exports.predictor import ExportRecord, load

if TYPE_CHECKING:
    from pandas import DataFrame

LABEL = "label"


def text_columns(record: ExportRecord) -> tuple[str, ...]:
    """Return the names of the model's text columns: those of the user's own file, else `text`."""
    return record.columns or (("text", "text_pair") if record.pair else ("text",))


def score_columns(record: ExportRecord) -> tuple[str, ...]:
    """Return the names of the output columns with the score of each class."""
    return tuple(f"score.{label}" for label in record.labels)


class Classifier:
    """An exported winner that reads and returns tables."""

    def __init__(self, folder: Path) -> None:
        self._predictor = load(folder)

    def predict(self, table: "DataFrame", params: Mapping[str, Any] | None = None) -> "DataFrame":
        """Return the label of each row, and the score of each class, with the table's index.

        The table has one column per text, named as in the model's signature; `params` is ignored.
        """
        from pandas import DataFrame

        del params
        record = self._predictor.record
        rows = table[list(text_columns(record))].itertuples(index=False, name=None)
        found = self._predictor.predict(list(rows))
        columns = [LABEL, *score_columns(record)]
        cells = [[one.label, *one.scores.values()] for one in found]
        return DataFrame(cells, columns=columns, index=table.index)


def _load_pyfunc(path: str) -> Classifier:
    return Classifier(Path(path))
