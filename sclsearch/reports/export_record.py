"""Description of an exported classifier: the file `sclsearch.json` of its folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sclsearch.arguments import fault_texts
from sclsearch.canonical import counted, file_digest
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError

CARD_FILE = "README.md"
DIGESTS = "SHA256SUMS"
"""File with the SHA-256 of every file of an export, which `sha256sum --check` reads.

It omits the model card, which the user may edit.
"""
RefitRows = Literal["validation", "all"]
"""Rows of a refit: those for training and validation, or also those for the test."""
Format = Literal["transformers", "transformers-code", "sclsearch"]
"""Way in which transformers loads the whole classifier: by a class of its own, by the code in the
export, or not at all."""


@dataclass(frozen=True, slots=True)
class Refit:
    """Rows and length of a training after the search.

    Attributes:
        rows: Training rows and validation rows of the search that the model was trained on.
        test_rows: Test rows of the search that the model was trained on.
        updates: Updates of the last stage; None for a model without updates.
    """

    rows: int
    test_rows: int
    updates: int | None = None

    def __str__(self) -> str:
        """Return the rows and the updates as a phrase."""
        tested = f" and all {self.test_rows} test rows" if self.test_rows else ""
        updates = "" if self.updates is None else f", for {counted(self.updates, 'update')}"
        return f"{self.rows} training and validation rows{tested}{updates}"


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
        validation: Validation score of the exported seed run; of an ensemble, the members' mean;
            None for a model that was trained after the search.
        test: Test score, likewise.
        fields: Every hyperparameter of method and training.
        place: Name of the method, or `FILE.py:CLASS` for a custom method.
        method_digest: SHA-256 of that file; empty for a method of sclsearch.
        labels: Names of the classes, in the order of the scores; empty for regression.
        pair: True if the classifier reads text pairs.
        columns: Text columns of the user's own file; empty for other tasks.
        mean_test: Mean test score over all seeds of the winner that did not fail, in the search.
        format: How other libraries load the classifier.
        members: Folders of an ensemble's members, relative to its own; empty for one seed.
        numerics: Device and precision of the training, `cpu-fp32` or `cuda-bf16`.
        data: SHA-256 of the task's texts and labels.
        baseline: True for the linear model on the frozen encoder. Its `method` is the linear model,
            its `place` is `ce`, whose head has the same form.
        refit: Rows and length of a training after the search; None for a seed run of the search.
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
    baseline: bool = False
    refit: Refit | None = None

    def write(self, folder: Path) -> None:
        """Write the record to a folder."""
        write_json(folder / CARD, asdict(self))


def read_record(folder: Path) -> ExportRecord:
    """Return the record of an exported folder, from its `sclsearch.json`.

    Raises:
        SclsearchError: The folder has no valid record.
    """
    from pydantic import TypeAdapter, ValidationError

    file = folder / CARD
    try:
        record = TypeAdapter(ExportRecord).validate_json(file.read_bytes())
    except OSError as error:
        raise SclsearchError(
            f"{file}: not a file of `sclsearch export`: {error.strerror}. Name the folder of an "
            "export, or export the study again."
        ) from error
    except ValidationError as error:
        fault = "; ".join(fault_texts(error))
        raise SclsearchError(
            f"{file}: not a file of `sclsearch export`: {fault}. Export the study again."
        ) from error
    return record


def write_digests(folder: Path) -> None:
    """Write the digests of all files of an export, except those of the model card."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {CARD_FILE, DIGESTS}
    )
    lines = [f"{file_digest(folder / name)}  {name}\n" for name in names]
    (folder / DIGESTS).write_text("".join(lines), encoding="utf-8")


def without_folder(text: str) -> str:
    """Return a text, or only the name of its file if it is an absolute path.

    Exports are published, and the folders of the user's machine are private.
    """
    return Path(text).name if Path(text).is_absolute() else text


def write_json(path: Path, value: Any) -> None:
    """Write a value to a file as indented JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
