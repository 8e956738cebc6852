"""Studies of a storage, with the search settings and the progress of each."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.filesize import decimal

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.selection.rules import parse_rule, score
from sclsearch.store.cleanup import run_files
from sclsearch.store.records import StudyRecord, seed_run_key
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore, study_names
from sclsearch.tasks.metrics import METRICS


@dataclass(frozen=True, slots=True)
class StudyLine:
    """Summary of a study's record and progress.

    Attributes:
        size: Training set size; None for all training examples.
        configurations: Number of configurations started so far.
        seeds: Number of replicates per configuration.
        stored: Number of their seed runs that are stored.
        failed: Number of stored seed runs that failed.
        best: Best score of a configuration with all its seeds under the rule of the study's first
            run; None if there is none.
        winner: Number of that configuration.
        bytes: Size of the study's files and of its seed runs, shared ones too, in bytes.
        created: Creation time, Unix seconds.
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
    metric: str
    best: float | None
    winner: int | None
    bytes: int
    created: float
    failed: int = 0
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the summary without the name: one line, then one line per fault."""
        size = f" ({self.size})" if self.size else ""
        best = "" if self.best is None else f"best {self.metric} {self.best:.4f} (#{self.winner}); "
        count = "all" if self.failed == self.stored else self.failed
        failed = f"{count} failed; " if self.failed else ""
        created = datetime.fromtimestamp(self.created, tz=UTC).astimezone()
        return (
            f"{self.method} on {self.task}{size}, {self.model}, {self.protocol}; "
            f"{counted(self.configurations, 'configuration')} x {counted(self.seeds, 'seed')}, "
            f"{self.stored} of {counted(self.configurations * self.seeds, 'seed run')} stored; "
            f"{failed}{best}{decimal(self.bytes)}; {created:%Y-%m-%d}"
            + "".join(f"\ndamaged: {fault}" for fault in self.faults)
        )


@dataclass(frozen=True, slots=True)
class DamagedStudy:
    """A study whose record cannot be read."""

    name: str
    fault: str

    def __str__(self) -> str:
        """Return the error message as one line."""
        return f"cannot be read: {self.fault}"


def studies(storage: Storage) -> list[StudyLine | DamagedStudy]:
    """Return a summary of each study in a storage, sorted by name.

    The function reads every seed run of the studies, for their best scores.
    """
    lines: list[StudyLine | DamagedStudy] = []
    sizes = Counter[str]()
    for key, size in run_files(storage).values():
        sizes[key] += size
    runs = RunStore(storage)
    stored = frozenset(runs.keys())
    for name in study_names(storage):
        store = StudyStore(storage, name)
        try:
            record = store.record()
            if record is not None:
                lines.append(_line(store, record, runs, stored, sizes))
        except SclsearchError as error:
            lines.append(DamagedStudy(name, str(error)))
    return lines


def _line(
    store: StudyStore,
    record: StudyRecord,
    runs: RunStore,
    stored: Collection[str],
    sizes: Mapping[str, int],
) -> StudyLine:
    configurations, damaged = store.valid_configurations()
    replicates, more = store.valid_replicates()
    keys = {
        configuration.number: [
            seed_run_key(record, configuration, replicate) for replicate in replicates
        ]
        for configuration in configurations
    }
    every = {key for own in keys.values() for key in own}
    best, winner, failed = _best(record, keys, runs, stored)
    return StudyLine(
        name=store.name,
        method=str(record.training["method"]),
        task=record.identity["task"],
        size=record.identity["size"],
        model=record.identity["model"],
        protocol=record.identity["protocol"],
        configurations=len(configurations),
        seeds=len(replicates),
        stored=sum(key in stored for own in keys.values() for key in own),
        metric=str(record.training["metric"]),
        best=best,
        winner=winner,
        bytes=sum(store.folder.files().values()) + sum(sizes[key] for key in every),
        created=record.created,
        failed=failed,
        faults=(*damaged, *more),
    )


def _best(
    record: StudyRecord,
    keys: Mapping[int, Sequence[str]],
    runs: RunStore,
    stored: Collection[str],
) -> tuple[float | None, int | None, int]:
    """Return the best score of a configuration with all seeds, its number, and the failures.

    A configuration needs one seed run that succeeded. The failures are those of all configurations.
    """
    metric, rule = str(record.training["metric"]), parse_rule(str(record.origin["rule"]))
    scores, failed = {}, 0
    for number, own in keys.items():
        found, damaged = runs.get_valid(key for key in own if key in stored)
        validation = [None if run is None else run.validated(metric) for run in found]
        failed += sum(run is not None and run.failure is not None for run in found)
        if len(found) == len(own) and not damaged and any(v is not None for v in validation):
            scores[number] = score(rule, validation, METRICS[metric].minimum)
    if not scores:
        return None, None, failed
    winner = max(scores, key=lambda number: (scores[number], -number))
    return scores[winner], winner, failed
