"""Studies of a storage, with the search settings and the progress of each."""

from collections.abc import Collection
from dataclasses import dataclass

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.store.records import StudyRecord, seed_run_key
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore, study_names


@dataclass(frozen=True, slots=True)
class StudyLine:
    """Summary of a study's record and progress.

    Attributes:
        name: Name of the study.
        method: The method's name.
        task: The task's name.
        size: Training set size; None for all training examples.
        model: The encoder's name.
        protocol: The protocol's name.
        configurations: Number of configurations started so far.
        seeds: Number of replicates per configuration.
        stored: Number of their seed runs that are stored.
        faults: Error messages for unreadable records.
    """

    name: str
    method: str
    task: str
    size: str | None
    model: str
    protocol: str
    configurations: int
    seeds: int
    stored: int
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the summary without the name: one line, then one line per fault."""
        size = f" ({self.size})" if self.size else ""
        return (
            f"{self.method} on {self.task}{size}, {self.model}, {self.protocol}; "
            f"{counted(self.configurations, 'configuration')} x {counted(self.seeds, 'seed')}, "
            f"{self.stored} of {counted(self.configurations * self.seeds, 'seed run')} stored"
            + "".join(f"\ndamaged: {fault}" for fault in self.faults)
        )


@dataclass(frozen=True, slots=True)
class DamagedStudy:
    """A study whose record cannot be read.

    Attributes:
        name: Name of the study.
        fault: Error message.
    """

    name: str
    fault: str

    def __str__(self) -> str:
        """Return the error message as one line."""
        return f"cannot be read: {self.fault}"


def studies(storage: Storage) -> list[StudyLine | DamagedStudy]:
    """Return a summary of each study in a storage, sorted by name.

    The function reads only the records: a storage may hold thousands of seed runs.
    """
    lines: list[StudyLine | DamagedStudy] = []
    stored = frozenset(RunStore(storage).keys())
    for name in study_names(storage):
        store = StudyStore(storage, name)
        try:
            record = store.record()
            if record is not None:
                lines.append(_line(store, record, stored))
        except SclsearchError as error:
            lines.append(DamagedStudy(name, str(error)))
    return lines


def _line(store: StudyStore, record: StudyRecord, stored: Collection[str]) -> StudyLine:
    configurations, damaged = store.valid_configurations()
    replicates, more = store.valid_replicates()
    keys = [
        seed_run_key(record, configuration, replicate)
        for configuration in configurations
        for replicate in replicates
    ]
    return StudyLine(
        name=store.name,
        method=str(record.training["method"]),
        task=record.identity["task"],
        size=record.identity["size"],
        model=record.identity["model"],
        protocol=record.identity["protocol"],
        configurations=len(configurations),
        seeds=len(replicates),
        stored=sum(key in stored for key in keys),
        faults=(*damaged, *more),
    )
