"""Loader of a winner that MLflow has as a model: `mlflow.pyfunc` imports this module by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.reports.export import Card
from sclsearch.reports.prediction import predict, read_card

if TYPE_CHECKING:
    from pandas import DataFrame

LABEL = "label"


def text_columns(card: Card) -> tuple[str, ...]:
    """Return the names of the model's text columns: those of the user's own file, else `text`."""
    return card.columns or (("text", "text_pair") if card.pair else ("text",))


def score_columns(card: Card) -> tuple[str, ...]:
    """Return the names of the output columns with the score of each class."""
    return tuple(f"score.{label}" for label in card.labels)


class Classifier:
    """An exported winner that reads and returns tables.

    Args:
        folder: Folder written by `export`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._card = read_card(folder)

    def predict(self, table: "DataFrame", params: Mapping[str, Any] | None = None) -> "DataFrame":
        """Return the label of each row, and the score of each class.

        Args:
            table: One column per text, named as in the model's signature.
            params: Ignored; MLflow passes it.
        """
        from pandas import DataFrame

        del params
        rows = table[list(text_columns(self._card))].itertuples(index=False, name=None)
        found = predict(self._folder, [tuple(map(str, row)) for row in rows])
        columns = [LABEL, *score_columns(self._card)]
        return DataFrame([[one.label, *one.scores.values()] for one in found], columns=columns)


def _load_pyfunc(path: str) -> Classifier:
    return Classifier(Path(path))
