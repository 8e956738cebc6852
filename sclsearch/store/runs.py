"""Store of all finished seed runs; the hash of a seed run's specification is its key."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.store.schema import Text, Time
from sclsearch.store.storage import (
    DamagedError,
    Storage,
    StoragePath,
    create,
    discard,
    for_each,
    read,
    read_each,
    storage_path,
    write,
)
from sclsearch.tasks.base import Labels
from sclsearch.tasks.metrics import value

SPLITS = ("validation", "test")
KINDS = ("labels", "probabilities")


@dataclass(frozen=True, slots=True)
class RowResults:
    """Labels and class probabilities of the evaluated rows, at the kept evaluation.

    A seed run without a test score has those of the validation rows alone.
    """

    labels: Mapping[str, Labels]  # true class or score of each row, [rows], by split
    probabilities: Mapping[str, npt.NDArray[np.float32]]  # [rows, C] by split; C is 0 in regression

    def encoded(self) -> bytes:
        arrays = {
            **{f"{split}_labels": found for split, found in self.labels.items()},
            **{f"{split}_probabilities": found for split, found in self.probabilities.items()},
        }
        content = BytesIO()
        np.savez_compressed(content, allow_pickle=False, **arrays)
        return content.getvalue()

    @classmethod
    def decoded(cls, content: bytes) -> Self:
        """Return the results from the bytes of a `.npz` file."""
        with np.load(BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        splits = [split for split in SPLITS if f"{split}_labels" in arrays]
        labels, probabilities = (
            {split: arrays[f"{split}_{kind}"] for split in splits} for kind in KINDS
        )
        return cls(labels, probabilities)


Evaluation = Mapping[str, Any]
BATCH = 500
MIN_PREFIX = 4
"""Minimum length of a key prefix."""
ROWS_DIGITS = 16
"""Hexadecimal digits of the digest in the name of a file of labels and probabilities."""
_REMEDY = "Move it away, then run the command that trained it; it trains the seed run again."


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a seed run has no scores."""

    cause: Text  # raised, non-finite, or a worker failure of `RETRIES`
    message: Text  # one line

    def __str__(self) -> str:
        return f"{self.cause}: {self.message}"


@dataclass(frozen=True, slots=True)
class SeedRun:
    """Stored result of one seed run: one configuration trained on one replicate."""

    key: Text  # SHA-256 of the identity
    identity: Mapping[str, Any]  # all fields that determine the results
    # The study that trained it first, and how to train it again.
    origin: Mapping[str, Any]
    notes: tuple[Text, ...] = ()  # on method and encoder, for readers of the scores
    # Losses of all stages before the last.
    stages: tuple[Evaluation, ...] = ()
    # Validation results and mean losses, by epoch and update.
    evaluations: tuple[Evaluation, ...] = ()
    kept: int = -1  # index of the evaluation that counts
    # Empty if it is still to come.
    test: Evaluation = field(default_factory=dict)
    # By split, at the kept evaluation.
    predictions: Mapping[str, Any] = field(default_factory=dict)
    rows: Text = ""  # digest of the file of labels and probabilities; empty for a failed seed run
    started: Time = 0.0  # Unix seconds
    seconds: Time = 0.0  # wall-clock time of training, validation and test
    # Versions, threads and device.
    environment: Mapping[str, Any] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def validation(self) -> Evaluation | None:
        """Validation results at the kept evaluation; None for a failed seed run."""
        return None if self.failure else self.evaluations[self.kept]["validation"]

    @property
    def counted(self) -> dict[str, Evaluation]:
        """The evaluations that count, by split; empty for a failed seed run."""
        if self.validation is None:
            return {}
        return {"validation": self.validation} | ({"test": self.test} if self.test else {})

    @property
    def untested(self) -> bool:
        """True for a trained seed run without a test score, if it has test rows."""
        has_rows = "test" in self.identity.get("rows", ["test"])
        return self.failure is None and not self.test and has_rows

    @property
    def device(self) -> str:
        """Name of the GPU or CPU that trained it; `cuda` or `cpu` if unknown."""
        kind = "gpu" if str(self.identity.get("numerics", "")).startswith("cuda") else "cpu"
        return str(self.environment.get(kind) or kind.replace("gpu", "cuda"))

    def compact(self) -> "SeedRun":
        """Return the seed run without predictions, curves and origin; it keeps all its scores."""
        counted = () if self.failure else (self.evaluations[self.kept],)
        left_out: dict[str, Any] = {"predictions": {}, "environment": {}, "origin": {}}
        return replace(self, stages=(), evaluations=counted, kept=-1, **left_out)

    def difference(self, again: "SeedRun", metric: str) -> str:
        """Return a warning with both scores if a repetition predicts otherwise; else no text."""
        if self.predictions["validation"] == again.predictions["validation"]:
            return ""
        before, now = self.validated(metric), again.validated(metric)
        return (
            f"seed run {self.key[:12]}: trained again, its validation {metric} is {now:.4f} "
            f"instead of {before:.4f}. Processors round differently."
        )

    def validated(self, metric: str) -> float | None:
        """Return the validation score in a metric; None for a failed seed run."""
        return None if self.validation is None else value(metric, self.validation)

    def tested(self, metric: str) -> float | None:
        """Return the test score in a metric; None for a failed or untested seed run."""
        return value(metric, self.test) if self.test else None

    def check(self, path: str) -> None:
        if not path.rpartition("/")[2].startswith(self.key):
            raise ValueError(f"it holds the seed run {self.key[:12]}")


class RunStore:
    """Seed runs in the folder `runs/`, shared by all studies of a storage."""

    def __init__(self, storage: Storage) -> None:
        self.folder: StoragePath = storage_path(storage) / "runs"

    def get(self, key: str) -> SeedRun | None:
        return read(self._place(key), SeedRun, _REMEDY)

    def get_all(self, keys: Iterable[str]) -> list[SeedRun | None]:
        """Return several seed runs, None for each unfinished one; raise for damaged files."""
        found, damaged = self.get_valid(keys)
        if damaged:
            raise DamagedError("\n".join(damaged.values()))
        return found

    def get_valid(self, keys: Iterable[str]) -> tuple[list[SeedRun | None], dict[str, str]]:
        """Return several seed runs, None for a missing or damaged one, and errors by key."""
        wanted = list(keys)
        read_runs = read_each([self._place(key) for key in wanted], SeedRun, _REMEDY)
        pairs = [*zip(wanted, read_runs, strict=True)]
        damaged = {key: str(run) for key, run in pairs if isinstance(run, DamagedError)}
        return [None if isinstance(run, DamagedError) else run for _, run in pairs], damaged

    def set_aside(self, key: str) -> StoragePath:
        """Move a damaged file to `damaged/`; return its new path."""
        return self._place(key).move_into("damaged", f"{key}-{time.time_ns()}.json")

    def all(self) -> Iterator[SeedRun]:
        """Yield every finished seed run; skip damaged files."""
        keys = self.keys()
        for start in range(0, len(keys), BATCH):
            yield from filter(None, self.get_valid(keys[start : start + BATCH])[0])

    def put(self, run: SeedRun, rows: RowResults | None = None) -> bool:
        """Store a finished seed run unless the store has it; return True if it was stored.

        Scores replace a stored failure, because another study may have stopped its retries earlier.
        If the store has the same evaluations without a test score, the test score is added.

        `rows` are its labels and class probabilities; None for a failed seed run.
        """
        if rows is not None:  # before the record, which marks the seed run as finished
            run = self._with_rows(run, rows)
        if create(self._place(run.key), asdict(run)):
            return True
        there = self.get_valid([run.key])[0][0]
        if there is not None and there.failure is None:
            adds_test = rows is not None and there.untested and there.evaluations == run.evaluations
            if adds_test:
                write(self._place(run.key), asdict(run))
            return adds_test
        if run.failure is not None:
            return False
        self.forget_failure(run.key)
        return create(self._place(run.key), asdict(run))

    def put_test(self, run: SeedRun, rows: RowResults) -> None:
        """Replace a stored seed run without a test score by the tested one, with its rows."""
        write(self._place(run.key), asdict(self._with_rows(run, rows)))

    def forget_failure(self, key: str) -> bool:
        """Move a failed seed run to `retried/` for new training; return True if it was moved."""
        run = self.get(key)
        if run is None or run.failure is None:
            return False
        try:
            moved = self._place(key).move_into("retried", f"{key}-{time.time_ns()}.json")
        except FileNotFoundError:  # another study has moved it
            return False
        stored = read(moved, SeedRun, _REMEDY)
        if stored is None or stored.failure is not None:
            return True
        # Another study has stored scores meanwhile.
        create(self._place(key), asdict(stored))
        discard(moved)
        return False

    def rows(self, runs: Sequence[SeedRun]) -> list[RowResults | None]:
        return for_each(_read_rows, [self._rows_place(run) for run in runs])

    def find(self, start: str) -> str:
        """Return the only key that begins with the given characters."""
        found = [key for key in self.keys() if key.startswith(start)]
        if len(found) != 1 or len(start) < MIN_PREFIX:
            raise SclsearchError(
                f"{start!r}: must be {MIN_PREFIX} or more characters that begin one key, got "
                f"those of {len(found)} in {self.folder}. `sclsearch show STUDY --format json` "
                "prints the keys."
            )
        return found[0]

    def keys(self) -> list[str]:
        """Return the keys of all stored seed runs, including failed ones."""
        files = self.folder.names()
        return [name.removesuffix(".json") for name in files if name.endswith(".json")]

    def _place(self, key: str) -> StoragePath:
        return self.folder / f"{key}.json"

    def _rows_place(self, run: SeedRun) -> StoragePath:
        return self.folder / "rows" / f"{run.key}-{run.rows}.npz"

    def _with_rows(self, run: SeedRun, rows: RowResults) -> SeedRun:
        """Store the rows; return the seed run with their digest.

        Two processors that train a seed run at the same time may round differently, so each record
        names its own file.
        """
        content = rows.encoded()
        run = replace(run, rows=_short_digest(content))
        self._rows_place(run).write(content)
        return run


def _read_rows(place: StoragePath) -> RowResults | None:
    content = place.read()
    if content is None:
        return None
    if not place.name.endswith(f"-{_short_digest(content)}.npz"):
        raise DamagedError(
            f"{place}: its digest differs: it was changed. Delete it; the predictions then lack "
            "labels and probabilities."
        )
    return RowResults.decoded(content)


def _short_digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:ROWS_DIGITS]
