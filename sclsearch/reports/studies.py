"""Studies of a storage, with the search settings and the progress of each."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.filesize import decimal

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report, report
from sclsearch.store.cleanup import run_files
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore, study_names


@dataclass(frozen=True, slots=True)
class StudyLine:
    """Summary of a study's record and progress.

    `stored` and `failed` count seed runs. `best` and `winner` are score and number of the winner
    under the rule of the study's first run. `bytes` counts the study's files and its seed runs,
    shared ones too. `created` is in Unix seconds, and `faults` are messages about damaged files.
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
    lines, sizes = list[StudyLine | DamagedStudy](), Counter[str]()
    for key, size in run_files(storage).values():
        sizes[key] += size
    for name in study_names(storage):
        store = StudyStore(storage, name)
        try:
            record = store.record()
            if record is not None:
                own = sum(store.folder.files().values())
                lines.append(_line(report(storage, name), own, sizes, record.created))
        except SclsearchError as error:
            lines.append(DamagedStudy(name, str(error)))
    return lines


def _line(found: Report, own: int, sizes: Mapping[str, int], created: float) -> StudyLine:
    winner, keys = found.winner, {seed.key for seed in found.seed_runs}
    names = ("method", "task", "size", "model", "protocol", "seeds", "metric")
    return StudyLine(
        **{name: getattr(found, name) for name in names},
        name=found.study,
        configurations=len(found.configurations),
        stored=len(found.seed_runs),
        best=None if winner is None else winner.score,
        winner=None if winner is None else winner.number,
        bytes=own + sum(sizes[key] for key in keys),
        created=created,
        failed=sum(line.failed for line in found.configurations),
        faults=found.damaged,
    )
