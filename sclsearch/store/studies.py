"""Stored studies: their records, the keys of their seed runs, baseline evaluations and weights."""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import compress
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field

from sclsearch.canonical import canonical, digest
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.selection.race import Band
from sclsearch.store.schema import Count, Text, Time
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

if TYPE_CHECKING:
    from torch import Tensor

_DIGEST = re.compile(r"[0-9a-f]{64}")
# Hashed field: its name in messages, and the key of its path in the record's `origin`.
_CONTENTS = {
    "data": ("rows", "source"),
    "train": ("training rows", "source"),
    "validation": ("validation rows", "source"),
    "test": ("test rows", "source"),
    "unlabeled": ("unlabeled rows", "source"),
    "unlabeled_digest": ("texts without label", "source"),
    "weights": ("weights", "model"),
    "method_file": ("contents of the method's file", "method"),
    "paraphrases": ("paraphrases", "paraphrases"),
}


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """Stored description of a study."""

    name: Text
    # Settings that must stay the same when the study resumes.
    identity: Mapping[str, Any]
    # Identity that all seed runs share; it must stay the same too.
    training: Mapping[str, Any]
    # What may differ between machines, such as the paths of data and model.
    origin: Mapping[str, Any]
    created: Time  # Unix seconds

    @property
    def repeats(self) -> bool:
        return bool(self.origin.get("fresh"))

    @property
    def mlflow_name(self) -> str:
        """Name in MLflow: the study's name and a digest that makes it unique."""
        return f"{self.name}@{digest([self.identity, self.training, self.created])[:12]}"

    def check(self, path: str) -> None:
        if not path.endswith(f"/{self.name}/study.json"):
            raise ValueError(f"it is the record of {self.name!r}")


@dataclass(frozen=True, slots=True)
class ConfigurationRecord:
    """Stored configuration: one point of the search space."""

    number: Count  # within the study, from 0
    values: Mapping[str, Any]  # of the space's parameters
    fields: Mapping[str, Any]  # all of the method and of `Training`
    origin: Text  # published, start (differs from the published one), sampled, or given

    def check(self, path: str) -> None:
        _check_number(self.number, path)


@dataclass(frozen=True, slots=True)
class ReplicateRecord:
    """Stored replicate: one repetition of the protocol, with its data splits and seeds."""

    number: Count  # from 0
    # SHA-256 of its training, validation and test rows, and other inputs.
    rows: Mapping[str, str]
    seeds: Mapping[str, int]  # random seeds by purpose
    notes: tuple[Text, ...]  # about the split, for readers of the scores

    def check(self, path: str) -> None:
        _check_number(self.number, path)


def _check_number(number: int, path: str) -> None:
    if not path.endswith(f"/{number}.json"):
        raise ValueError(f"it is the record of number {number}")


def uneven_seeds(replicates: Sequence[ReplicateRecord]) -> list[str]:
    """Return a note if some training subsets have more replicates than others."""
    counts = Counter(replicate.rows["train"] for replicate in replicates)
    if len({*counts.values()}) < 2:
        return []
    return [
        f"seeds: {len(replicates)} on {len(counts)} training sets, and some have more than others: "
        "a mean over seeds gives these more weight, a comparison of two studies does not"
    ]


def seed_run_identity(
    study: StudyRecord, configuration: ConfigurationRecord, replicate: ReplicateRecord
) -> dict[str, Any]:
    """Return the identity of a seed run, whose SHA-256 is its key; see `SeedRunSpec.identity`."""
    inputs = {"rows": replicate.rows, "fields": configuration.fields, "seeds": replicate.seeds}
    return {**study.training, **inputs}


def seed_run_key(
    study: StudyRecord, configuration: ConfigurationRecord, replicate: ReplicateRecord
) -> str:
    """Return the key of a seed run: the SHA-256 of its identity."""
    return digest(seed_run_identity(study, configuration, replicate))


def difference(field: str, was: object, now: object, requested: StudyRecord) -> str:
    """Return the error message for a field that differs between stored and requested study.

    The message shows the path of hashed contents instead of their digests.
    """
    was, now = _apart(was, now)
    while isinstance(was, Mapping) and isinstance(now, Mapping) and len(was) == 1:
        ((field, was),), (now,) = was.items(), now.values()
    if not any(_DIGEST.fullmatch(str(value)) for value in (was, now)):
        return (
            f"{field} must stay {_short(was)}, got {_short(now)}. "
            f"Give another --study, or the same {field} as before."
        )
    contents = field.partition(" of replicate ")[0]
    name, origin = _CONTENTS.get(contents, (contents, "source"))
    name = field.replace(contents, name, 1)
    path = f" ({requested.origin[origin]})" if requested.origin.get(origin) else ""
    change = "changed"
    if was is None:
        change = "were added"
    elif now is None:
        change, path = "are missing", ""
    return f"{name}{path} {change} since the study began. Give another --study, or restore them."


def _apart(was: object, now: object) -> tuple[object, object]:
    """Return both values without the keys on which they agree; recurse into nested mappings."""
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return was, now
    both = {**was, **now}
    names = [name for name in both if canonical(was.get(name)) != canonical(now.get(name))]
    splits = {name: _apart(was.get(name), now.get(name)) for name in names}
    before, after = ({name: part[side] for name, part in splits.items()} for side in (0, 1))
    return before, after


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_WRITTEN_AGAIN = "Move it away; the command that began the study writes it again and resumes."
_REMEDY = {
    StudyRecord: _WRITTEN_AGAIN,
    ReplicateRecord: _WRITTEN_AGAIN,
    ConfigurationRecord: (
        "Restore it from a copy, or give another --study; that one reuses the stored seed runs."
    ),
}
_RESTORE = "The command that began the study writes it again and resumes."
MOST_NAMED = 100
"""Most deleted files that are named; more are not by accident."""
_NUMBERED = re.compile(r"(0|[1-9][0-9]{0,5})\.json")
_BASELINES = "baselines.json"
_RACE = "race.json"


@dataclass(frozen=True, slots=True)
class Baselines:
    """Baselines of a study, and the speed of its encoder."""

    # Results by split, by name of the baseline, by replicate.
    replicates: Mapping[int, Mapping[str, Mapping[str, Any]]]
    texts_per_second: Time = 0.0  # of the encoder; 0 if unknown


@dataclass(frozen=True, slots=True)
class LastStart:
    """Race, number of configurations and number of seeds of a study's last start."""

    band: Annotated[float, Field(gt=0, lt=1e6)] | Literal["exact"] | None = None
    configs: Count = 0  # unknown
    seeds: Count = 0  # unknown


_R = TypeVar("_R", StudyRecord, ReplicateRecord, ConfigurationRecord)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOG = logging.getLogger(__name__)


class StudyStore:
    """Stored files of one study, in the folder `studies/<name>/`."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.name = str(name)  # a caller in Python may pass a number or a list
        if not NAME.fullmatch(self.name):
            raise SclsearchError(
                f"--study {name!r}: must be at most 100 letters, digits, '.', '_' and '-'. Give "
                "another name."
            )
        self.storage = storage
        self.folder: StoragePath = storage_path(storage) / "studies" / self.name

    def record(self) -> StudyRecord | None:
        return read(self.folder / "study.json", StudyRecord, _WRITTEN_AGAIN)

    def create(self, record: StudyRecord) -> None:
        create(self.folder / "study.json", asdict(record))

    def check(self, record: StudyRecord, replicates: Sequence[ReplicateRecord] = ()) -> StudyRecord:
        """Return the stored record, or the given one if the study is new.

        Raises:
            SclsearchError: The stored study has another identity, other rows or other class names.
                The message names the first difference.
        """
        stored = self.record()
        if stored is None:
            return record
        rows = _rows(replicates)
        earlier = {name: was for name, was in _rows(self.replicates()).items() if name in rows}
        before = {**stored.identity, **stored.training, **earlier}
        after = {**record.identity, **record.training, **{name: rows[name] for name in earlier}}
        if before.get("weights") == after.get("weights"):
            before["model"] = after.get("model")  # two paths to the same weights
        # Compare the user's settings first: another task, for example, also changes the data.
        for field in dict.fromkeys(("method", *record.identity, *sorted({*before, *after}))):
            was, now = before.get(field), after.get(field)
            if canonical(was) != canonical(now):
                raise SclsearchError(f"--study {self.name}: {difference(field, was, now, record)}")
        was, now = (one.origin.get("labels") for one in (stored, record))
        if was and now and list(was) != list(now):  # seed runs have the numbers of the classes
            raise SclsearchError(f"--study {self.name}: {difference('classes', was, now, record)}")
        return stored

    def configurations(self) -> list[ConfigurationRecord]:
        found, faults = self.valid_configurations()
        if faults:
            raise DamagedError("\n".join(faults))
        return found

    def valid_configurations(self) -> tuple[list[ConfigurationRecord], list[str]]:
        """Return the readable configurations by ascending number, and the errors of the others."""
        return self._read("configurations", ConfigurationRecord, _REMEDY[ConfigurationRecord])

    def replicates(self) -> list[ReplicateRecord]:
        """Return the replicates by ascending number.

        The next start of the study writes missing replicates again.
        """
        found, faults = self._read("replicates", ReplicateRecord)
        if faults:
            raise DamagedError("\n".join(faults))
        return found

    def valid_replicates(self) -> tuple[list[ReplicateRecord], list[str]]:
        """Return the readable replicates by ascending number, and the errors of the others."""
        return self._read("replicates", ReplicateRecord, _RESTORE)

    def add(self, record: ConfigurationRecord | ReplicateRecord) -> bool:
        """Store a configuration or a replicate, before its first seed run starts."""
        kind = "configurations" if isinstance(record, ConfigurationRecord) else "replicates"
        return create(self.folder / kind / f"{record.number}.json", asdict(record))

    def seed_run_keys(self) -> tuple[set[str], list[str]]:
        """Return the keys of all seed runs of the study, and the errors of unreadable records."""
        record = self.record()
        if record is None:
            place = self.folder / "study.json"
            return set(), [f"{place}: was deleted. {_RESTORE}"] if any(self.sizes()) else []
        configurations, faults = self.valid_configurations()
        replicates, more = self.valid_replicates()
        keys = {seed_run_key(record, one, other) for one in configurations for other in replicates}
        return keys, [*faults, *more]

    def baselines(self) -> Baselines:
        """Return the baselines; none for a damaged file, which the next search replaces."""
        with suppress(DamagedError):
            return read(self.folder / _BASELINES, Baselines) or Baselines({})
        return Baselines({})

    def save_baselines(self, found: Mapping[int, Any], texts_per_second: float = 0.0) -> None:
        stored = {str(number): one for number, one in found.items()}
        record = {"replicates": stored, "texts_per_second": texts_per_second}
        write(self.folder / _BASELINES, record)

    def last_start(self) -> LastStart:
        """Return what is known of the last start; without a race for a damaged file."""
        with suppress(DamagedError):
            return read(self.folder / _RACE, LastStart) or LastStart()
        return LastStart()

    def save_start(self, band: Band, configs: int, seeds: int) -> None:
        """Store a start's race and numbers of configurations and seeds, unless they are stored."""
        if self.last_start() != (start := LastStart(band, configs, seeds)):
            write(self.folder / _RACE, asdict(start))

    def sizes(self) -> tuple[int, int]:
        return len(self._numbers("configurations")), len(self._numbers("replicates"))

    def weights(self, key: str) -> StoragePath:
        """Return the path for the weights of a seed run; the file may not exist."""
        return self.folder / "weights" / f"{key}.safetensors"

    def load_weights(self, key: str) -> "Mapping[str, Tensor] | None":
        """Return the stored weights of a seed run; None without any, with a warning if damaged."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        place = self.weights(key)
        try:
            return place.load_file(load_file)
        except SafetensorError as error:
            _LOG.warning("%s: damaged: %s. Delete it and repeat `sclsearch tune`.", place, error)
            return None

    def delete_other_weights(self, key: str) -> None:
        """Delete the weights of all other seed runs, also partly written ones."""
        folder = self.folder / "weights"
        for name in folder.files():
            if name != f"{key}.safetensors":
                discard(folder / name)

    def checkpoint(self, key: str) -> StoragePath:
        """Return the path for the checkpoint of a seed run; the file may not exist."""
        return self.folder / "checkpoints" / f"{key}.pt"

    def delete_checkpoints(self, key: str = "") -> None:
        """Delete the checkpoint of a seed run, or those of all, also partly written ones."""
        folder = self.folder / "checkpoints"
        with suppress(OSError, SclsearchError):  # a clean-up never fails a search
            for name in folder.without_retries().files():
                if key in name:
                    discard(folder / name)

    def _read(self, kind: str, record: type[_R], restore: str = "") -> tuple[list[_R], list[str]]:
        """Return the readable records, and the errors of the others.

        Missing records have errors too if `restore` says how to restore them.
        """
        numbers: list[int] = self._numbers(kind)
        missing: list[int] = sorted({*range(max(numbers, default=0))} - {*numbers})
        places = [self.folder / kind / f"{number}.json" for number in (*numbers, *missing)]
        found = read_each(places[: len(numbers)], record, _REMEDY[record])
        faults = [str(one) for one in found if isinstance(one, DamagedError)]
        deleted = places[len(numbers) :][:MOST_NAMED] if restore else ()
        faults += [f"{place}: was deleted. {restore}" for place in deleted]
        return [one for one in found if isinstance(one, record)], faults

    def _numbers(self, kind: str) -> list[int]:
        found = map(_NUMBERED.fullmatch, (self.folder / kind).names())
        return sorted(int(one[1]) for one in found if one)


def study_names(storage: Storage) -> list[str]:
    """Return the names of all studies of a storage, including studies with a damaged record.

    The result omits folders without a valid study name, such as copies of a study's folder.
    """
    folder = storage_path(storage) / "studies"
    found = [name for name in folder.names() if NAME.fullmatch(name)]
    exist = for_each(lambda place: place.exists(), [folder / n / "study.json" for n in found])
    return list(compress(found, exist))


def existing_study(storage: Storage, name: str) -> tuple[StudyStore, StudyRecord]:
    """Return an existing study and its record, by its name or a prefix that no other study has.

    Studies that repeat the winner of another study do not count for the prefix.
    """
    store = StudyStore(storage, name)
    name, record = store.name, store.record()
    if record is None:
        matches = [one for one in study_names(storage) if one.startswith(name)]
        matches = [one for one in matches if not _repeats(storage, one)] or matches
        if len(matches) > 1:
            raise SclsearchError(
                f"{name!r}: must be the beginning of one study's name, got that of "
                f"{', '.join(matches)}. Give more of the name."
            )
        if matches:
            return existing_study(storage, matches[0])
        raise SclsearchError(
            f"Unknown study {name!r} in {storage}.{suggestion(name, study_names(storage))}"
        )
    return store, record


def _repeats(storage: Storage, name: str) -> bool:
    with suppress(DamagedError):
        record = StudyStore(storage, name).record()
        return record is not None and record.repeats
    return False


def _rows(replicates: Sequence[ReplicateRecord]) -> dict[str, str]:
    return {f"{kind} of replicate {r.number}": r.rows[kind] for r in replicates for kind in r.rows}
