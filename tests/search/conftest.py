"""A toy task, a space for it, and what makes a search of both over a tiny encoder."""

import os
import random
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sclsearch.search.options import How, What
from sclsearch.search.prepare import Prepared, prepare_study
from sclsearch.tasks.own import OwnFiles

GOOD, BAD = ("good", "great", "fine", "lovely"), ("bad", "awful", "poor", "dull")
FILLERS = ("the film", "it", "a film", "the", "very", "and")
SPACE = """
method: scl
source: a test
published:
  - {tau: 0.3, lam: 0.9, learning_rate: 1e-2}
fixed: {epochs: 8, batch_size: 8, max_length: 16, pooling: mean}
space:
  tau: {type: choice, values: [0.1, 0.3, 0.5]}
  lam: {type: choice, values: [0.5, 0.9]}
  learning_rate: {type: log, low: 1e-3, high: 3e-2}
"""

MARK = "SCLSEARCH_TEST_MARK"
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)

Asked = Callable[..., What]
Preparing = Callable[..., Prepared]


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> OwnFiles:
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
    return OwnFiles(path, text=("text",), label="label", split_column="split")


@pytest.fixture(scope="session")
def space_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a space with a list of choices, another, and a range."""
    path = tmp_path_factory.mktemp("spaces") / "toy.yaml"
    path.write_text(SPACE, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def asked(toy: OwnFiles, tiny_bert: Path, space_file: Path) -> Asked:
    """Returns what makes the search of `scl` on the toy task, with changes."""
    usual = {"method": "scl", "task": toy, "model": str(tiny_bert), "space": space_file}

    def asked(**changes: Any) -> What:
        return What(**{**usual, **changes})

    return asked


@pytest.fixture
def preparing(asked: Asked, tmp_path: Path) -> Preparing:
    """Returns what prepares that search in a storage folder of the test's own."""
    usual = {"storage": tmp_path / "storage", "configs": 4, "seeds": 2, "concurrency": 2}

    def preparing(what: What | None = None, **changes: Any) -> Prepared:
        return prepare_study(what or asked(), How(**{**usual, "gpus_per_trial": 0, **changes}))

    return preparing


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
