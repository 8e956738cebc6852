"""Second evaluation of an export on the test rows of its study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods import find_recorded_method
from sclsearch.reports.export_record import ExportRecord, changed_files, read_record
from sclsearch.reports.predictor import BATCH_SIZE, Predictor, load
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import restore_data_dir, restore_spec_as_before
from sclsearch.study.spec import RunOptions
from sclsearch.tasks.base import Labels, Task, Texts
from sclsearch.tasks.metrics import evaluate, value

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

CPU = "cpu"
CLOSE = 1e-6
"""Difference of scores that rounding explains."""
CLOSE_SCORES = 1e-3
"""Difference of two libraries' predicted scores that rounding explains."""


@dataclass(frozen=True, slots=True)
class MemberCheck:
    """Recorded and new test score of one exported seed run.

    Attributes:
        rows: Number of test rows.
        recorded: Test score in the export's record.
        found: Test score of the second evaluation.
        agreeing: Number of test rows for which transformers alone gives the same prediction; None
            if it cannot load the classifier.
    """

    replicate: int
    rows: int
    recorded: float
    found: float
    agreeing: int | None


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of evaluating an export again.

    Attributes:
        members: The exported seed run, or those of an ensemble; empty for a refit.
        ensemble: Test score of an ensemble whose members share their test rows; else None.
        tolerance: Accepted difference of a score.
        changed: Files that are missing or differ from `SHA256SUMS`; None if an older version wrote
            the export, without that file.
    """

    metric: str
    members: tuple[MemberCheck, ...]
    ensemble: float | None
    tolerance: float
    changed: tuple[str, ...] | None

    @property
    def verified(self) -> bool:
        """True if no file changed, scores are as recorded and transformers agrees on every row."""
        return not self.changed and all(
            abs(one.found - one.recorded) <= self.tolerance + CLOSE
            and one.agreeing in {None, one.rows}
            for one in self.members
        )


@dataclass(frozen=True, slots=True)
class _TestRows:
    task: Task
    texts: Sequence[Texts]
    y: Labels


def verify(
    folder: Path,
    data_dir: Path | None = None,
    custom_method: "str | type[Method] | None" = None,
    tolerance: float = 0.0,
) -> Verification:
    """Evaluate an export on the test rows of its study and compare with the recorded score.

    A model that was trained after the search, or without test rows, has no recorded test score:
    only its files are checked.
    If transformers can load the classifier, its predictions are compared row by row too. If a file
    has changed so that the export cannot be evaluated, the result has no members.

    Args:
        folder: Folder written by `export`.
        data_dir: Folder of the task's files. None uses the current folder for the user's own
            files; for others SCLSEARCH_DATA, then the Hugging Face hub.
        custom_method: `FILE.py:CLASS` or the class, for an export of a custom method.
        tolerance: Accepted difference of the score, for another device than in training.

    Raises:
        SclsearchError: The folder is no export, or one of an older version that does not name its
            test rows, or the data has changed.
    """
    record, changed = read_record(folder), changed_files(folder)
    try:
        members, ensemble = _evaluated(folder, record, data_dir, custom_method)
    except SclsearchError:
        if set(changed or ()) <= {CARD}:  # the error is about the record
            raise
        members, ensemble = (), None
    return Verification(record.metric, members, ensemble, tolerance, changed)


def _evaluated(
    folder: Path,
    record: ExportRecord,
    data_dir: Path | None,
    custom_method: "str | type[Method] | None",
) -> tuple[tuple[MemberCheck, ...], float | None]:
    """Return the check of each exported seed run, and the test score of an ensemble, if any."""
    if record.refit or record.test is None:
        load(folder, custom_method, CPU)  # raises if the export is incomplete
        return (), None
    checks: list[MemberCheck] = []
    known: dict[str, _TestRows] = {}
    for name in record.members or ("",):
        own = read_record(folder / name)
        if own.test_rows not in known:
            known[own.test_rows] = _test_rows(folder / name, own, data_dir, custom_method)
        checks.append(_check(folder / name, own, known[own.test_rows], custom_method))
    ensemble = None
    if record.members and len(known) == 1:
        (rows,) = known.values()
        predictions = _predictions(load(folder, custom_method, _device(record)), rows)
        ensemble = value(record.metric, evaluate(rows.task, rows.y, predictions))
    return tuple(checks), ensemble


def _check(
    folder: Path, record: ExportRecord, rows: _TestRows, custom_method: "str | type[Method] | None"
) -> MemberCheck:
    predictions = _predictions(load(folder, custom_method, _device(record)), rows)
    agreeing = None
    if record.format != "sclsearch":
        theirs = _by_transformers(folder, record, rows.texts)
        ours = predictions
        if record.numerics != "cpu-fp32":  # transformers computes in float32, on the CPU here
            same = load(folder, custom_method, CPU, full_precision=True)
            ours = _predictions(same, rows)
        agreeing = int((np.abs(theirs - ours) <= CLOSE_SCORES).sum())
    return MemberCheck(
        replicate=record.replicate,
        rows=len(rows.texts),
        recorded=value(record.metric, record.evaluation),
        found=value(record.metric, evaluate(rows.task, rows.y, predictions)),
        agreeing=agreeing,
    )


def _device(record: ExportRecord) -> str | None:
    """Return the device of the training; None if that was a GPU, which need not be here."""
    return CPU if record.numerics.startswith(CPU) else None


def _test_rows(
    folder: Path,
    record: ExportRecord,
    data_dir: Path | None,
    custom_method: "str | type[Method] | None",
) -> _TestRows:
    """Return the test rows of an exported seed run, after checking that they are the same."""
    where = folder / CARD
    if not (record.test_rows and record.origin):
        raise SclsearchError(
            f"{where}: names no test rows, because an older version wrote it. Export the study "
            "again."
        )
    found = find_recorded_method(record.place, record.method_digest, custom_method, str(where))
    # Splits do not depend on the encoder, and the original one need not be on this machine.
    origin = {**_with_files(record.origin, data_dir, where), "model": str(folder)}
    origin["precision"] = "auto"  # splits do not depend on it either, and tf32 needs a GPU
    spec = restore_spec_as_before(origin, record.fields, found.kind if found.digest else None)
    shared = restore_data_dir(origin, data_dir) if isinstance(spec.task, str) else None
    options = RunOptions(data_dir=shared, gpus_per_trial=0)
    study = resolve(spec, options)
    test = study.splits(record.replicate).test
    if (study.data.digest, test.digest) != (record.data, record.test_rows):
        raise SclsearchError(
            f"{where}: the test rows of {record.task} must be those of the study, but "
            f"{study.data.source} has others. Pass --data-dir, or restore the files."
        )
    labels = tuple(study.data.task.labels)
    if labels != record.labels:
        raise SclsearchError(
            f"{where}: labels: must be {', '.join(labels)} as in {record.task}, got "
            f"{', '.join(record.labels)}. Export the study again."
        )
    split = study.data.splits[test.split]
    texts = [split.texts[row] for row in test.index]
    return _TestRows(study.data.task, texts, split.y[test.index])


def _with_files(origin: Mapping[str, Any], folder: Path | None, where: Path) -> dict[str, Any]:
    """Return the origin with the paths of its data files: an export has only their names."""
    task = origin["task"]

    def path(name: str | None) -> str | None:
        if not name:
            return None
        places = [folder / Path(name).name if folder else Path(name)]
        if isinstance(task, str):  # paraphrases need not be in the folder of a published task
            places.append(Path(name))
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise SclsearchError(
                f"{where}: names the data file {name}, which is not in "
                f"{folder or 'the current folder'}. Pass --data-dir with the folder of the file."
            )
        return str(found)

    if not isinstance(task, str):
        task = {**task, **{kind: path(task[kind]) for kind in ("path", "validation", "test")}}
    return {**origin, "task": task, "paraphrases": path(origin.get("paraphrases"))}


def _predictions(predictor: Predictor, rows: _TestRows) -> npt.NDArray[np.float64]:
    """Return the number of the predicted class of each row, or the predicted score, `[rows]`."""
    number = {label: position for position, label in enumerate(predictor.labels)}
    found = predictor.predict(rows.texts)
    return np.array([number.get(str(one.label), one.label) for one in found], np.float64)


def _by_transformers(
    folder: Path, record: ExportRecord, texts: Sequence[Texts]
) -> npt.NDArray[np.float64]:
    """Return the predictions of transformers' own classifier, `[rows]`."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from sclsearch.encoders.load import quiet_transformers
    from sclsearch.reports.pooled_classifier import PooledClassifier

    with quiet_transformers():
        # Code of the folder must not run, not even after a question on the terminal. It should be a
        # copy of the module of PooledClassifier.
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        kind: Any = AutoModelForSequenceClassification
        if record.format == "transformers-code":
            kind = PooledClassifier
        try:
            model = kind.from_pretrained(
                folder, trust_remote_code=False, use_safetensors=True
            ).eval()
        except (OSError, ValueError) as error:
            raise SclsearchError(
                f"{folder}: transformers cannot load it: {first_line(error)}. Export again."
            ) from error
    found: list[float] = []
    for start in range(0, len(texts), BATCH_SIZE):
        columns = [list(column) for column in zip(*texts[start : start + BATCH_SIZE], strict=True)]
        batch = tokenizer(*columns, truncation=True, padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**batch).logits
        found += (logits.argmax(1) if record.labels else logits[:, 0]).tolist()
    return np.array(found, np.float64)
