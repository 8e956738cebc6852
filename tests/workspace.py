"""A toy task, a space for it, and what makes a search of both over a tiny encoder."""

import os
import random
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.ray_backend.retries import WorkerFailure
from sclsearch.reports.report import report
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import SearchResult, run
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.rows import RowResults
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.resolve import resolve
from sclsearch.study.seed_runs import SeedRunTask
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.study import Study
from sclsearch.tasks.custom import CustomTask
from tests.studies import SPACE

GOOD, BAD = ("good", "great", "fine", "lovely"), ("bad", "awful", "poor", "dull")
FILLERS = ("the film", "it", "a film", "the", "very", "and")
MARK = "SCLSEARCH_TEST_MARK"
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)

Asked = Callable[..., StudySpec]
Preparing = Callable[..., PreparedStudy]


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> CustomTask:
    """Returns 100 rows whose class is mostly told by a word; validation and test have 20 each."""
    draw = random.Random(0)
    lines = ["text,label,split"]
    for number in range(100):
        good = number % 2
        told = good if draw.random() < 0.8 else 1 - good
        words = [draw.choice(FILLERS), "was", draw.choice(GOOD if told else BAD)]
        split = ("train", "train", "train", "validation", "test")[number // 2 % 5]
        lines.append(f"{' '.join(words)} {draw.choice(FILLERS)},{'ny'[good]},{split}")
    path = tmp_path_factory.mktemp("data") / "toy.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return CustomTask(path, text=("text",), label="label", split_column="split")


@pytest.fixture(scope="session")
def write_space(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns what writes a space file, each in a folder of its own."""

    def write_space(text: str) -> Path:
        path = tmp_path_factory.mktemp("space") / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_space


@pytest.fixture(scope="session")
def space_file(write_space: Callable[[str], Path]) -> Path:
    """Returns a space with a list of choices, another, and a range."""
    return write_space(SPACE)


@pytest.fixture(scope="session")
def asked(toy: CustomTask, tiny_bert: Path, space_file: Path) -> Asked:
    """Returns what makes the search of `scl` on the toy task, with changes."""
    usual = {"method": "scl", "task": toy, "model": str(tiny_bert), "space": space_file}

    def asked(**changes: Any) -> StudySpec:
        return StudySpec(**{**usual, **changes})

    return asked


@pytest.fixture
def resolved(asked: Asked) -> Callable[..., Study]:
    """Returns what makes the study of that search on a CPU, with changes."""
    return lambda **changes: resolve(asked(**changes), RunOptions(gpus_per_trial=0))


@pytest.fixture
def preparing(asked: Asked, tmp_path: Path) -> Preparing:
    """Returns what prepares that search in a storage folder of the test's own."""
    usual = {"storage": tmp_path / "storage", "configs": 4, "seeds": 2, "concurrency": 2}

    def preparing(spec: StudySpec | None = None, **changes: Any) -> PreparedStudy:
        return prepare_study(
            spec or asked(), RunOptions(**{**usual, "gpus_per_trial": 0, **changes})
        )

    return preparing


class Workers:
    """What workers and searcher do with the seed runs of a scheduler, without any training."""

    def trained(self, task: SeedRunTask) -> SeedRun:
        """A seed run that gets as many of 20 rows right as its key says."""
        right = int(task.key[:8], 16) % 20
        counts = {"confusion": [[right, 20 - right], [0, 0]]}
        return SeedRun(
            key=task.key,
            identity=task.identity,
            origin={"replicate": task.replicate.number},
            evaluations=({"epoch": 1.0, "update": 4, "loss": {}, "validation": counts},),
            test=counts if task.test else {},
        )

    def failed(self, task: SeedRunTask) -> SeedRun:
        failure = Failure("raised", "a test")
        return replace(self.trained(task), evaluations=(), test={}, failure=failure)

    def finish(self, scheduler: Scheduler, task: SeedRunTask) -> None:
        if task.id in scheduler.testing:
            scheduler.runs.put_test(self.trained(task), RowResults({}, {}))
        else:
            scheduler.runs.put(self.trained(task))
        run = scheduler.runs.get(task.key)
        assert run is not None
        scheduler.finish(task, run)

    def running(self, scheduler: Scheduler, at_a_time: int = 1_000) -> list[SeedRunTask]:
        """Takes as many seed runs as there are and returns all that run."""
        while len(scheduler.running) < at_a_time and scheduler.next():
            pass
        return list(scheduler.running.values())

    def decide(self, scheduler: Scheduler) -> None:
        """Trains seed runs, one at a time, until the winner is certain and can be tested."""
        while not scheduler.decided:
            self.finish(scheduler, self.running(scheduler, 1)[0])

    def run_out(
        self, scheduler: Scheduler, at_a_time: int = 2, draw: random.Random | None = None
    ) -> list[tuple[int, int]]:
        """Finishes everything, in any order if there is a draw; returns the order."""
        order = []
        while tasks := self.running(scheduler, at_a_time):
            task = draw.choice(tasks) if draw else tasks[0]
            self.finish(scheduler, task)
            order.append(task.id)
        return order


@pytest.fixture(scope="session")
def workers() -> Workers:
    """Returns what plays the workers of a search."""
    return Workers()


class Processes:
    """The processes of one test and all that they start, whoever their parent is by now.

    Attributes:
        environment: What marks them.
    """

    def __init__(self, mark: str) -> None:
        self.environment = {MARK: mark}

    def titles(self) -> dict[int, str]:
        """Returns what they call themselves, by number; those that are gone are left out."""
        marked = f"{MARK}={self.environment[MARK]}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if marked in (folder / "environ").read_bytes().split(b"\0"):
                    title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    found[int(folder.name)] = title
            except GONE:
                continue
        return {pid: title for pid, title in found.items() if title and pid != os.getpid()}

    def named(self, part: str) -> list[int]:
        """Returns the numbers of those that have a part in what they call themselves."""
        return [pid for pid, title in self.titles().items() if part in title]

    def kill(self) -> None:
        """Ends all of them: Ray's agents outlive a driver that was killed."""
        for pid in self.titles():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Returns the processes of a module's tests; none of them is left at the end."""
    processes = Processes(uuid.uuid4().hex)
    yield processes
    processes.kill()


@dataclass(frozen=True)
class Workspace:
    """A storage folder, a search and what has been done there."""

    storage: Path
    spec: StudySpec

    def run(self, **changes: Any) -> SearchResult:
        usual = {"storage": self.storage, "seeds": 2, "concurrency": 1, "gpus_per_trial": 0}
        return run(self.spec, RunOptions(**{**usual, **changes}), Console(quiet=True))

    def elsewhere(self, folder: Path, **changes: Any) -> "Workspace":
        return Workspace(folder / "storage", replace(self.spec, **changes))

    def copy(self, folder: Path) -> "Workspace":
        shutil.copytree(self.storage, folder / "storage")
        return self.elsewhere(folder)

    def runs(self) -> dict[str, bytes]:
        return {path.stem: path.read_bytes() for path in (self.storage / "runs").glob("*.json")}

    def seed_runs(self, name: str) -> dict[int, list[SeedRun | None]]:
        """Returns the stored seed runs of each configuration."""
        lines, store = report(self.storage, name).configurations, RunStore(self.storage)
        return {line.number: [store.get(seed.key) for seed in line.seeds] for line in lines}


@pytest.fixture(scope="module")
def place(asked: Asked, toy: CustomTask, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Returns where `scl` is to be searched on a copy of the toy task."""
    folder = tmp_path_factory.mktemp("search")
    path = shutil.copyfile(toy.path, folder / "toy.csv")
    return Workspace(folder / "storage", asked(task=replace(toy, path=path)))


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, str]]:
    """Returns how often a configuration's seed runs are lost, by cause, while a search runs."""
    seen: Counter[tuple[int, str]] = Counter()
    record_failure = Scheduler.record_failure

    def watched(scheduler: Scheduler, task: SeedRunTask, loss: WorkerFailure) -> None:
        seen[task.id[0], loss.cause] += 1
        record_failure(scheduler, task, loss)

    monkeypatch.setattr(Scheduler, "record_failure", watched)
    return seen
