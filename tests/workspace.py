"""Fixtures for searches on a toy task with a tiny encoder, fake workers and commands."""

import os
import random
import shutil
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.cli import main
from sclsearch.reports.report import report
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import RowResults, RunStore, SeedRun
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.state import SeedRunTask
from sclsearch.study.study import Study
from sclsearch.tasks.custom import CustomTask
from tests.studies import SPACE, Confusion, seed_run, stored

GOOD, BAD = ("good", "great", "fine", "lovely"), ("bad", "awful", "poor", "dull")
FILLERS = ("the film", "it", "a film", "the", "very", "and")

TRAIN = "sclsearch.search.run._train"
"""Function that trains all seed runs of a search."""
UNSET = ("SCLSEARCH_DATA", "SCLSEARCH_STORAGE", "MLFLOW_TRACKING_URI", "FORCE_COLOR", "NO_COLOR")

MakeSpec = Callable[..., StudySpec]
Prepare = Callable[..., Scheduler]
Resolved = Callable[..., Study]
WriteSpace = Callable[[str], Path]


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> CustomTask:
    """Return 100 rows, 60 to train on, whose class follows from one word in four of five rows."""
    draw = random.Random(0)
    lines = ["text,label,split"]
    for number in range(100):
        good = number % 2
        positive = good if draw.random() < 0.8 else 1 - good
        words = [draw.choice(FILLERS), "was", draw.choice(GOOD if positive else BAD)]
        split = ("train", "train", "train", "validation", "test")[number // 2 % 5]
        lines.append(f"{' '.join(words)} {draw.choice(FILLERS)},{'ny'[good]},{split}")
    path = tmp_path_factory.mktemp("data") / "toy.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return CustomTask(path, text=("text",), label="label", split_column="split")


@pytest.fixture(scope="session")
def write_space(tmp_path_factory: pytest.TempPathFactory) -> WriteSpace:
    """Return a function that writes a space file into a new folder."""

    def write_space(text: str) -> Path:
        path = tmp_path_factory.mktemp("space") / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_space


@pytest.fixture(scope="session")
def space_file(write_space: WriteSpace) -> Path:
    """Return a space with two lists of choices and a range."""
    return write_space(SPACE)


@pytest.fixture(scope="session")
def make_spec(toy: CustomTask, tiny_bert: Path, space_file: Path) -> MakeSpec:
    """Return a function that makes the spec of `scl` on the toy task, with changes."""
    usual = {"method": "scl", "task": toy, "model": str(tiny_bert), "space": space_file}
    return lambda **changes: StudySpec(**{**usual, **changes})


@pytest.fixture
def resolved(make_spec: MakeSpec) -> Resolved:
    """Return a function that resolves that spec on a CPU, with changes."""
    return lambda **changes: resolve(make_spec(**changes), RunOptions(gpus_per_trial=0))


@pytest.fixture
def prepare(make_spec: MakeSpec, tmp_path: Path) -> Prepare:
    """Return a function that prepares that study in a storage folder of the test."""
    usual = {"storage": tmp_path / "storage", "configs": 4, "seeds": 2, "concurrency": 2}

    def prepare(spec: StudySpec | None = None, **changes: Any) -> Scheduler:
        options = RunOptions(**{**usual, "gpus_per_trial": 0, **changes})
        # The fake workers have no weights to store.
        return replace(prepare_study(spec or make_spec(), options), weights=False)

    return prepare


class Workers:
    """Fake workers that finish the seed runs of a scheduler without training.

    Args:
        counts: Confusion counts of a configuration and seed; without it they follow from the key.
    """

    def __init__(self, counts: Callable[[int, int], Confusion] | None = None) -> None:
        self.counts = counts

    def trained(self, task: SeedRunTask) -> SeedRun:
        right = int(task.key[:8], 16) % 20
        usual = [[right, 20 - right], [0, 0]]
        return seed_run(task, self.counts(*task.id) if self.counts else usual)

    def failed(self, task: SeedRunTask) -> SeedRun:
        return seed_run(task, None)

    def finish(self, scheduler: Scheduler, task: SeedRunTask) -> None:
        if task.id in scheduler.repeating:
            scheduler.runs.put_test(self.trained(task), RowResults({}, {}))
        else:
            scheduler.runs.put(self.trained(task))
        run = scheduler.runs.get(task.key)
        assert run is not None
        scheduler.finish(task, run)

    def running(self, scheduler: Scheduler, at_a_time: int = 1_000) -> list[SeedRunTask]:
        """Start seed runs up to a limit; return all that run."""
        while len(scheduler.running) < at_a_time and scheduler.next():
            pass
        return list(scheduler.running.values())

    def decide(self, scheduler: Scheduler) -> None:
        """Finish seed runs, one at a time, until the winner is decided and can be tested."""
        while not scheduler.decided:
            self.finish(scheduler, self.running(scheduler, 1)[0])

    def run_out(
        self,
        scheduler: Scheduler,
        at_a_time: int = 2,
        draw: random.Random | None = None,
        most: int = 1_000,
    ) -> list[tuple[int, int]]:
        """Finish seed runs, in random order if there is a draw; return the order."""
        order: list[tuple[int, int]] = []
        while len(order) < most and (tasks := self.running(scheduler, at_a_time)):
            task = draw.choice(tasks) if draw else tasks[0]
            self.finish(scheduler, task)
            order.append(task.id)
        return order


@pytest.fixture(scope="session")
def workers() -> Workers:
    """Return the fake workers of a search."""
    return Workers()


class Processes:
    """Processes of one test module and their descendants, also after their parents' death."""

    def __init__(self) -> None:
        self.environment = {"SCLSEARCH_TEST_MARK": uuid.uuid4().hex}  # marks them

    def titles(self) -> dict[int, str]:
        """Return the command lines of the running processes by process ID."""
        (mark,) = ("=".join(pair).encode() for pair in self.environment.items())
        titles, marked, parents = dict[int, str](), set[int](), dict[int, int]()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                pid = int(folder.name)
                parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                titles[pid] = (folder / "cmdline").read_text().replace("\0", " ").strip()
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    marked.add(pid)
        # A process of Ray that sets a long title may overwrite its environment.
        own = {pid for pid in parents if {pid, parents[pid]} & marked} - {os.getpid()}
        return {pid: title for pid, title in titles.items() if title and pid in own}

    def named(self, part: str) -> list[int]:
        """Return the IDs of the processes whose command line contains a text."""
        return [pid for pid, title in self.titles().items() if part in title]

    def kill(self) -> None:
        """Kill all of them, because Ray's agents outlive a killed driver."""
        for pid in self.titles():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Return the processes of a module's tests; kill them at the end."""
    processes = Processes()
    yield processes
    processes.kill()


@dataclass(frozen=True)
class Workspace:
    """Storage folder and spec of a search, which tests run and resume."""

    storage: Path
    spec: StudySpec

    def run(self, **changes: Any) -> Scheduler:
        usual = {"storage": self.storage, "seeds": 2, "concurrency": 1, "gpus_per_trial": 0}
        return run(self.spec, RunOptions(**{**usual, **changes}), Console(quiet=True))

    def elsewhere(self, folder: Path, **changes: Any) -> "Workspace":
        return Workspace(folder / "storage", replace(self.spec, **changes))

    def runs(self) -> dict[str, Any]:
        return stored(self.storage)

    def seed_runs(self, name: str) -> dict[int, list[SeedRun | None]]:
        """Return the stored seed runs of each configuration."""
        lines, store = report(self.storage, name).configurations, RunStore(self.storage)
        return {line.number: [store.get(seed.key) for seed in line.seeds] for line in lines}


@pytest.fixture(scope="module")
def workspace(
    make_spec: MakeSpec, toy: CustomTask, tmp_path_factory: pytest.TempPathFactory
) -> Workspace:
    """Return a workspace for `scl` on a copy of the toy task."""
    folder = tmp_path_factory.mktemp("search")
    path = shutil.copyfile(toy.path, folder / "toy.csv")
    return Workspace(folder / "storage", make_spec(task=replace(toy, path=path)))


@dataclass(frozen=True)
class Result:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str

    def assert_refused(self, *words: str) -> None:
        """Assert exit code 2 and a short message with words, such as the option at fault."""
        self.assert_clear()
        assert self.returncode == 2, f"exit code {self.returncode}\n{self.stdout}\n{self.stderr}"
        message = " ".join(self.stderr.split())
        for word in words:
            assert word in message, f"{word!r} is not in the message:\n{self.stderr}"

    def assert_clear(self) -> None:
        """Assert that the command printed no traceback, and a short message of its failure."""
        assert "Traceback (most recent call last)" not in self.stdout + self.stderr, self.stderr
        if self.returncode:
            assert self.returncode in {1, 2, 3}, f"exit code {self.returncode}"
            assert 1 <= len(self.stderr.strip().splitlines()) <= 25, self.stderr


Call = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty current folder."""
    monkeypatch.chdir(tmp_path)
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def sclsearch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Return a function that runs `sclsearch ARGUMENTS` in this process, by its entry point."""

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["sclsearch", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Result(
            code if isinstance(code, int) else int(code is not None), *capsys.readouterr()
        )

    return call
