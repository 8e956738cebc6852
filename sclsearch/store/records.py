"""Records of a study, and the key of a seed run that follows from them alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sclsearch.canonical import digest
from sclsearch.tasks.metrics import METRICS


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """What a study is.

    Attributes:
        name: Its name.
        identity: What must not change when it is run again.
        training: The part of every seed run's identity that all of them share; fixed as well.
        origin: What is needed to run or report it and may differ between machines, such as where
            data and model are.
        open_configurations: W, how many configurations may be unfinished at a time, without
            those that wait in a race.
        created: When it was created, Unix seconds.
    """

    name: str
    identity: Mapping[str, Any]
    training: Mapping[str, Any]
    origin: Mapping[str, Any]
    open_configurations: int
    created: float

    @property
    def repeats(self) -> bool:
        """Whether the study repeats the winner of another."""
        return any(self.origin.get(way) for way in ("fresh", "crossed"))

    @property
    def mlflow_name(self) -> str:
        """What MLflow calls it: its name, and what tells it from others of that name."""
        return f"{self.name}@{digest([self.identity, self.training, self.created])[:12]}"


@dataclass(frozen=True, slots=True)
class ConfigurationRecord:
    """One point of the search space.

    Attributes:
        number: Its number within the study, from 0.
        values: Values of the space's parameters.
        fields: Every field of the method and of `Training`.
        origin: `published`; `start` where one comes first that is not as published; `sampled`;
            or `given`.
    """

    number: int
    values: Mapping[str, Any]
    fields: Mapping[str, Any]
    origin: str


@dataclass(frozen=True, slots=True)
class ReplicateRecord:
    """One repetition of the protocol.

    Attributes:
        number: r, from 0.
        rows: SHA-256 of its training, validation and test rows, and of what else it reads.
        seeds: Its seeds.
        notes: What a reader of its figures must know about the split.
    """

    number: int
    rows: Mapping[str, str]
    seeds: Mapping[str, int]
    notes: tuple[str, ...]


StoredRecord = StudyRecord | ConfigurationRecord | ReplicateRecord


def check_record(record: StoredRecord, name: str) -> None:
    """Raise ValueError unless a record has the shape of its kind and belongs to its file.

    Args:
        record: The record.
        name: Its file's name without `.json`.
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
    """Returns the identity of a seed run of a study, from the records alone."""
    return {
        **study.training,
        "rows": replicate.rows,
        "fields": configuration.fields,
        "seeds": replicate.seeds,
    }


def seed_run_key(
    study: StudyRecord, configuration: ConfigurationRecord, replicate: ReplicateRecord
) -> str:
    """Returns the key of a seed run of a study: the SHA-256 of its identity."""
    return digest(seed_run_identity(study, configuration, replicate))
