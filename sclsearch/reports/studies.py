"""What each study of a storage searches, and how far it is."""

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
    """A study, as its record has it.

    Attributes:
        name: Its name.
        method: The method's name.
        task: The task's name.
        size: Training examples, None for all.
        model: The encoder's name.
        protocol: The protocol's name.
        configurations: Configurations that have been opened.
        seeds: Replicates of each.
        stored: Seed runs of these that are stored.
        faults: What is wrong with records that cannot be read.
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
        """Return all but the name: one line, and one for each fault."""
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
        name: Its name.
        fault: What is wrong.
    """

    name: str
    fault: str

    def __str__(self) -> str:
        """Returns what is wrong in one line."""
        return f"cannot be read: {self.fault}"


def studies(storage: Storage) -> list[StudyLine | DamagedStudy]:
    """Returns the studies of a storage by name.

    It reads the records and no seed run: a storage may have thousands.
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
