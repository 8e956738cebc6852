"""The run store: every finished seed run, named by the hash of what determines it."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError
from sclsearch.store.objects import (
    DamagedError,
    create,
    move,
    names,
    read,
    read_each,
    remove,
    sealed,
    unsealed,
    write,
)
from sclsearch.store.storage import Storage, StoragePath, storage_path
from sclsearch.tasks.metrics import METRICS, value

Evaluation = Mapping[str, Any]
BATCH = 500
_MEND = "Move it away: the seed run is trained again then."
_FAULTS = (
    *(TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError),
    SclsearchError,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a seed run has no figures.

    Attributes:
        cause: `raised`, `non-finite`, or how it was lost once too often, as `RETRIES` has it.
        message: What was seen, one line.
    """

    cause: str
    message: str


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One configuration trained on one replicate.

    Attributes:
        key: SHA-256 of the identity.
        identity: Everything that determines the figures.
        origin: Who trained it first and how to do so again; not part of the identity.
        notes: What a reader of the figures must know of method and encoder.
        stages: Losses of the stages before the last, with stage, epoch and update.
        evaluations: Validation at each evaluation, with epoch, update and mean losses.
        kept: Which evaluation counts.
        test: The one evaluation on test rows.
        predictions: Of each validation and test row, at the kept evaluation.
        started: When training began, Unix seconds.
        seconds: Wall-clock time; for a stage that was taken, that of its training.
        environment: Versions, threads and device.
        failure: Set where there are no figures.
    """

    key: str
    identity: Mapping[str, Any]
    origin: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    stages: tuple[Evaluation, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    kept: int = -1
    test: Evaluation = field(default_factory=dict)
    predictions: Mapping[str, list[float]] = field(default_factory=dict)
    started: float = 0.0
    seconds: float = 0.0
    environment: Mapping[str, Any] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def validation(self) -> Evaluation | None:
        """The evaluation that counts; None for a failed seed run."""
        return None if self.failure else self.evaluations[self.kept]["validation"]

    def validated(self, metric: str) -> float | None:
        """Returns the validation figure; None for a failed seed run."""
        return None if self.validation is None else value(metric, self.validation)

    def tested(self, metric: str) -> float | None:
        """Returns the test figure; None for a failed seed run."""
        return None if self.failure else value(metric, self.test)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "SeedRun":
        """Returns the seed run that a stored object describes.

        Raises:
            TypeError: It describes none.
        """
        failure = stored.get("failure")
        lists = ("notes", "stages", "evaluations")
        found = {**stored, **{name: tuple(stored.get(name, ())) for name in lists}}
        return cls(**{**found, "failure": Failure(**failure) if failure else None})


class RunStore:
    """Seed runs below `runs/`, shared by all studies of a storage.

    Args:
        storage: The storage.
    """

    def __init__(self, storage: Storage) -> None:
        self.folder: StoragePath = storage_path(storage) / "runs"

    def get(self, key: str) -> SeedRun | None:
        """Returns a finished seed run, or None."""
        return _described(self._place(key), read(self._place(key), _MEND))

    def get_all(self, keys: Iterable[str]) -> list[SeedRun | None]:
        """Returns several seed runs, None for each that is not finished."""
        found, damaged = self.get_valid(keys)
        if damaged:
            raise DamagedError("\n".join(damaged.values()))
        return found

    def get_valid(self, keys: Iterable[str]) -> tuple[list[SeedRun | None], dict[str, str]]:
        """Return several seed runs, None for each that is missing or damaged.

        Returns:
            The seed runs, and the fault of each damaged file by its key.
        """
        wanted = list(keys)
        places = [self._place(key) for key in wanted]
        damaged: dict[str, str] = {}
        found: list[SeedRun | None] = []
        for key, place, stored in zip(wanted, places, read_each(places, _MEND), strict=True):
            try:
                if isinstance(stored, DamagedError):
                    raise stored
                found.append(_described(place, stored))
            except DamagedError as error:
                damaged[key] = str(error)
                found.append(None)
        return found, damaged

    def set_aside(self, key: str) -> StoragePath:
        """Move a damaged file to `damaged/`; return its new place."""
        there = self.folder / "damaged" / f"{key}-{time.time_ns()}.json"
        move(self._place(key), there)
        return there

    def all(self) -> Iterator[SeedRun]:
        """Yields every finished seed run."""
        keys = self.keys()
        for start in range(0, len(keys), BATCH):
            yield from filter(None, self.get_valid(keys[start : start + BATCH])[0])

    def put(self, run: SeedRun) -> bool:
        """Stores a finished seed run unless it is there; returns whether it was stored.

        Figures take the place of a failure: another study may have given up where this one did not.
        """
        written = sealed(asdict(run))
        stored = create(self._place(run.key), written)
        if stored or run.failure is not None:
            return stored
        self.forget_failure(run.key)
        return create(self._place(run.key), written)

    def forget_failure(self, key: str) -> bool:
        """Puts a failed seed run aside, so that it is trained again; returns whether it was."""
        run = self.get(key)
        if run is None or run.failure is None:
            return False
        write(self.folder / "retried" / f"{key}-{time.time_ns()}.json", asdict(run))
        now = self.get(key)
        if now is not None and now.failure is None:  # another study's figures, put there meanwhile
            return False
        remove(self._place(key))
        return True

    def find(self, start: str) -> str:
        """Returns the key that begins with the given characters.

        Raises:
            SclsearchError: There is none, or there are several.
        """
        if not re.fullmatch(r"[0-9a-f]{4,64}", start):
            raise SclsearchError(
                f"{start!r}: a key must be at least 4 of the digits 0-9 and a-f. `sclsearch "
                "select STUDY --json` has the keys."
            )
        found = [key for key in self.keys() if key.startswith(start)]
        if len(found) != 1:
            raise SclsearchError(
                f"{start!r}: one seed run in {self.folder} must have this key, but "
                f"{len(found) or 'none'} {'have' if len(found) > 1 else 'has'}."
            )
        return found[0]

    def keys(self) -> list[str]:
        """Returns the keys of all seed runs that are stored, failed ones too."""
        files = names(self.folder)
        return [name.removesuffix(".json") for name in files if name.endswith(".json")]

    def _place(self, key: str) -> StoragePath:
        return self.folder / f"{key}.json"


def _described(place: StoragePath, stored: Mapping[str, Any] | None) -> SeedRun | None:
    """Return the seed run of a stored object.

    Raises:
        DamagedError: The object is not what was written there.
    """
    if stored is None:
        return None
    try:
        run = SeedRun.of(unsealed(stored))
        _check(run, place.name.removesuffix(".json"))
    except _FAULTS as error:
        fault = str(error).rpartition("() ")[2] or type(error).__name__
        message = f"{place}: it must hold the seed run of this name, but: {fault}. {_MEND}"
        raise DamagedError(message) from error
    return run


def _check(run: SeedRun, name: str) -> None:
    """Raise ValueError unless a seed run is the one of this name and its numbers can be true."""
    if run.key != name:
        raise ValueError(f"it holds the seed run {str(run.key)[:12]}")
    if digest(run.identity) != run.key:
        raise ValueError("its identity is not the one that its key was made from")
    splits = (run.identity, run.origin, run.environment)
    if not all(isinstance(part, Mapping) for part in splits):
        raise TypeError("identity, origin and environment must be objects")
    if run.failure is None:
        _check_scores(run)


def _check_scores(run: SeedRun) -> None:
    if not -len(run.evaluations) <= run.kept < len(run.evaluations):
        raise ValueError(f"evaluation {run.kept} is kept of {len(run.evaluations)}")
    metric = str(run.identity.get("metric"))
    for evaluation in (*(one["validation"] for one in run.evaluations), run.test):
        counts = [count for row in evaluation.get("confusion", ()) for count in row]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError("a confusion matrix must hold counts, 0 or greater")
        if metric in METRICS:
            value(metric, evaluation)  # raises where it lacks what the metric is computed from
    counted = {"validation": run.evaluations[run.kept]["validation"], "test": run.test}
    for rows, predicted in run.predictions.items():
        _check_predictions(rows, predicted, counted[rows].get("confusion"))


def _check_predictions(rows: str, predicted: Sequence[float], confusion: Any) -> None:
    """Raise ValueError unless predictions are those that a confusion matrix counts."""
    if any(type(one) not in {int, float} for one in predicted):
        raise ValueError(f"predictions of {rows} must be numbers")
    if confusion is None:
        return
    if not all(0 <= one < len(confusion) for one in predicted):
        raise ValueError(f"predictions of {rows} must be 0 to {len(confusion) - 1}")
    if sum(map(sum, confusion)) != len(predicted):
        raise ValueError(f"the confusion matrix of {rows} must count {len(predicted)} rows")
