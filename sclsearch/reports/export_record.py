"""Description of an exported classifier: the file `sclsearch.json` of its folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError

Format = Literal["transformers", "sentence-transformers", "sclsearch"]
"""The library that loads the whole classifier without sclsearch; `sclsearch` if there is none."""


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """Description of an exported classifier, stored as `sclsearch.json` in its folder.

    An ensemble has the record of its best seed, with the members' folders and the mean scores.

    Attributes:
        base: Name of the encoder that was fine-tuned.
        method: The method's name.
        task: The task's name.
        size: Training set size; None for all training examples.
        protocol: The protocol's name.
        study: Name of the study that the winner belongs to.
        rule: Selection rule that chose the winner.
        key: Key of the exported seed run in the run store.
        replicate: Number of the exported replicate: the best reported one by validation score.
        seeds: Number of replicates of the study.
        metric: Name of the metric.
        validation: Validation score of the exported seed run; of an ensemble, the members' mean.
        test: Test score of the exported seed run; of an ensemble, the members' mean.
        fields: Every hyperparameter of method and training.
        place: Name of the method, or `FILE.py:CLASS` for a custom method.
        method_digest: SHA-256 of that file; empty for a method of sclsearch.
        labels: Names of the classes, in the order of the scores; empty for regression.
        pair: True if the classifier reads text pairs.
        columns: Text columns of the user's own file; empty for other tasks.
        mean_test: Mean test score over all seeds of the winner that did not fail.
        format: Library that loads the classifier, besides sclsearch.
        members: Folders of an ensemble's members, relative to its own; empty for one seed.
        numerics: Device and precision of the training, `cpu-fp32` or `cuda-bf16`.
        data: SHA-256 of the task's texts and labels.
        test_rows: SHA-256 of the test rows.
        evaluation: Stored evaluation on the test rows: confusion matrix, or correlations.
        origin: How the seed run can be trained again: task, protocol, size, paths of the data.
    """

    base: str
    method: str
    task: str
    size: str | None
    protocol: str
    study: str
    rule: str
    key: str
    replicate: int
    seeds: int
    metric: str
    validation: float | None
    test: float | None
    fields: Mapping[str, Any]
    place: str = ""
    method_digest: str = ""
    labels: tuple[str, ...] = ()
    pair: bool = False
    columns: tuple[str, ...] = ()
    mean_test: float | None = None
    format: Format = "sclsearch"
    members: tuple[str, ...] = ()
    numerics: str = ""
    data: str = ""
    test_rows: str = ""
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the record to a folder."""
        write_json(folder / CARD, asdict(self))


def read_record(folder: Path) -> ExportRecord:
    """Return the record of an exported folder, from its `sclsearch.json`.

    Raises:
        SclsearchError: The folder has no valid record, or one of an old version without classes.
    """
    from pydantic import TypeAdapter, ValidationError

    file = folder / CARD
    try:
        record = TypeAdapter(ExportRecord).validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        fault = str(error)
        if isinstance(error, ValidationError):
            faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            fault = "; ".join(faults)
        raise SclsearchError(
            f"{file}: not a file of `sclsearch export`: {fault}. Export the study again."
        ) from error
    if not record.place:
        raise SclsearchError(
            f"{file}: has no classes, because an older version wrote it. Export the study again."
        )
    return record


def write_json(path: Path, value: Any) -> None:
    """Write a value to a file as indented JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
