"""Studies of a storage, with the search settings and the progress of each."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.filesize import decimal

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.selection.rules import parse_rule
from sclsearch.store.cleanup import run_files
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyRecord, StudyStore, seed_run_key, study_names
from sclsearch.study.state import stored_state


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
            f"{counted(self.stored, 'seed run')} stored; "
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
    keys = [
        seed_run_key(record, one, replicate) for one in configurations for replicate in replicates
    ]
    rule = parse_rule(str(record.origin["rule"]))
    state, _ = stored_state(runs, record, replicates, configurations, rule, store.race())
    succeeded = {number for (number, _), run in state.seed_runs.items() if run.failure is None}
    scores = [one for one in state.scores.values() if one.number in succeeded]
    winner = max(scores, key=lambda one: one.rank, default=None)
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
        metric=state.metric,
        best=None if winner is None else winner.score,
        winner=None if winner is None else winner.number,
        bytes=sum(store.folder.files().values()) + sum(sizes[key] for key in set(keys)),
        created=record.created,
        failed=sum(run.failure is not None for run in state.seed_runs.values()),
        faults=(*damaged, *more),
    )
