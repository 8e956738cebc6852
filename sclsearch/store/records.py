"""Stored records of a study, and the key of a seed run, computed from these records alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sclsearch.canonical import digest
from sclsearch.tasks.metrics import METRICS


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """Stored description of a study.

    Attributes:
        name: Name of the study.
        identity: Settings that must stay the same when the study resumes.
        training: Identity fields that all seed runs of the study share. They must stay the same
            too.
        origin: Data for running and reporting that may differ between machines, such as the paths
            of data and model.
        open_configurations: W, the highest number of unfinished configurations at a time, without
            configurations that a race has paused.
        created: Creation time, Unix seconds.
    """

    name: str
    identity: Mapping[str, Any]
    training: Mapping[str, Any]
    origin: Mapping[str, Any]
    open_configurations: int
    created: float

    @property
    def repeats(self) -> bool:
        """True if the study repeats the winner of another study."""
        return any(self.origin.get(way) for way in ("fresh", "crossed"))

    @property
    def mlflow_name(self) -> str:
        """Name in MLflow: the study's name and a digest that makes it unique."""
        return f"{self.name}@{digest([self.identity, self.training, self.created])[:12]}"


@dataclass(frozen=True, slots=True)
class ConfigurationRecord:
    """Stored configuration: one point of the search space.

    Attributes:
        number: Number within the study, from 0.
        values: Values of the space's parameters.
        fields: All fields of the method and of `Training`.
        origin: Origin of the values: `published`; `start` for a first configuration that differs
            from the published one; `sampled`; or `given`.
    """

    number: int
    values: Mapping[str, Any]
    fields: Mapping[str, Any]
    origin: str


@dataclass(frozen=True, slots=True)
class ReplicateRecord:
    """Stored replicate: one repetition of the protocol, with its data splits and seeds.

    Attributes:
        number: Number of the replicate, r, from 0.
        rows: SHA-256 of its training, validation and test rows and of its other input data.
        seeds: Random seeds by purpose.
        notes: Notes about the split for readers of the scores.
    """

    number: int
    rows: Mapping[str, str]
    seeds: Mapping[str, int]
    notes: tuple[str, ...]


StoredRecord = StudyRecord | ConfigurationRecord | ReplicateRecord


def check_record(record: StoredRecord, name: str) -> None:
    """Raise ValueError if a record has wrong fields or types, or does not match its file name.

    Args:
        record: The record.
        name: Name of the record's file without `.json`.
    """
    if isinstance(record, StudyRecord):
        _check_study(record)
        return
    if record.number != int(name) or isinstance(record.number, bool):
        raise ValueError(f"number: must be {name}, got {record.number!r}"[:200])
    if isinstance(record, ConfigurationRecord):
        _check_keys("values", record.values)
        _check_keys("fields", record.fields)
        _check_texts("origin", [record.origin])
        return
    _check_keys("rows", record.rows)
    _check_keys("seeds", record.seeds)
    if any(type(seed) is int and seed < 0 for seed in record.seeds.values()):
        raise ValueError("seeds: must be 0 or greater")
    for field, kind in (("rows", str), ("seeds", int)):
        odd = [key for key, value in getattr(record, field).items() if type(value) is not kind]
        if odd:
            raise ValueError(f"{field}: {odd[0]}: must be of type {kind.__name__}")
    _check_texts("notes", record.notes)


def _check_study(record: StudyRecord) -> None:
    _check_keys("identity", record.identity, ("task", "model", "protocol", "size", "space"))
    _check_keys("training", record.training, ("method", "metric", "data"))
    _check_keys("origin", record.origin, ("rule", "notes"))
    identity, training = record.identity, record.training
    _check_texts("identity", [identity[name] for name in ("task", "model", "protocol")])
    _check_texts("training", [training[name] for name in ("method", "metric", "data")])
    _check_texts("origin: rule", [record.origin["rule"]])
    _check_texts("origin: notes", record.origin["notes"])
    if training["metric"] not in METRICS:
        raise ValueError(f"training: metric: there is no {training['metric']!r}"[:200])
    _check_keys("identity: space", identity["space"], ("parameters",))
    parameters = identity["space"]["parameters"]
    if not isinstance(parameters, list | tuple):
        raise ValueError("identity: space: parameters: must be a list")  # noqa: TRY004
    for parameter in parameters:
        _check_keys("identity: space: parameters", parameter, ("name",))
    open_, created = record.open_configurations, record.created
    if type(open_) is not int or open_ < 1:
        raise ValueError(f"open_configurations: must be at least 1, got {open_!r}"[:200])
    if type(created) not in {int, float}:
        raise ValueError(f"created: must be a time in Unix seconds, got {created!r}"[:200])


def _check_texts(field: str, texts: object) -> None:
    if not (isinstance(texts, list | tuple) and all(isinstance(one, str) for one in texts)):
        raise ValueError(f"{field}: must be text")


def _check_keys(field: str, value: object, keys: Sequence[str] = ()) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{field}: must be an object")  # noqa: TRY004
    missing = [key for key in keys if key not in value]
    if missing:
        raise ValueError(f"{field}: must have {', '.join(missing)}")


def seed_run_identity(
    study: StudyRecord, configuration: ConfigurationRecord, replicate: ReplicateRecord
) -> dict[str, Any]:
    """Return the identity of a seed run: all fields that determine its results."""
    return {
        **study.training,
        "rows": replicate.rows,
        "fields": configuration.fields,
        "seeds": replicate.seeds,
    }


def seed_run_key(
    study: StudyRecord, configuration: ConfigurationRecord, replicate: ReplicateRecord
) -> str:
    """Return the key of a seed run: the SHA-256 of its identity."""
    return digest(seed_run_identity(study, configuration, replicate))
