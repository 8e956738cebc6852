"""The papers' texts, small tables, and studies whose seed runs were made up, not trained."""

import os
import shutil
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.papers.base import Table
from sclsearch.papers.tables import load_tables
from sclsearch.search.prepare import prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.study.spec import RunOptions, StudySpec

# Counts of test rows of configuration and replicate; None where the seed run failed.
Counts = Callable[[int, int], list[list[int]] | None]
Printed = Callable[..., str]

GOOD = """
paper: Someone et al. 2020
number: 1
title: Two tasks
source: section 1
figure: mean of all seeds
unit: fraction
std_unit: percent
rule: mean
runs: 2
protocol: plain
model: bert-base
settings: {batch_size: 8, epochs: 3}
notes: [Not printed]
rows:
  CE: {method: ce, note: as usual}
  Ours: {method: scl, settings: {tau: 0.3, epochs: 9}, settings_of: some/table-2}
  Theirs: {}
columns:
  A: {task: cola, metric: mcc, model: roberta-base, settings: {epochs: 4}}
  B: {task: qnli, metric: f1, of_class: minority}
  Mean: {metric: accuracy, average_of: [A, B]}
blocks:
  N=20: {train_size: 20, settings: {batch_size: 4}}
  T=0.5: {shots: 5, augmentation: {views: 3, temperature: 0.5}, first_task: sst2}
  All: {average_of: [N=20, T=0.5]}
cells:
  N=20:
    CE: {A: [0.5, 1.5], B: 0.25, Mean: 0.375}
    Ours: {A: 0.6, B: 0.7, Mean: 0.65}
    Theirs: {A: 1, B: null, Mean: null}
  T=0.5:
    CE: {A: 0.5, B: null, Mean: null}
    Ours: {A: null, B: null, Mean: null}
    Theirs: {A: null, B: null, Mean: null}
  All:
    CE: {A: 0.5, B: null, Mean: null}
    Ours: {A: null, B: null, Mean: null}
    Theirs: {A: null, B: null, Mean: null}
"""
SETTINGS = """
paper: Someone et al. 2020
number: 2
title: Settings
source: appendix A
figure: none
unit: fraction
protocol: plain
model: bert-base
rows:
  Ours: {method: scl}
columns:
  A: {task: cola, metric: mcc, settings: {learning_rate: 1.0e-3, tau: 0.1}}
blocks:
  full: {}
cells: {}
"""
DEMO = """
paper: Someone et al. 2020
number: 3
title: The demo
source: section 2
figure: mean of the top 3
unit: percent
rule: top-3
protocol: gunel-fewshot
model: bert-base
settings: {batch_size: 8, epochs: 2, max_length: 16, learning_rate: 1.0e-3}
notes: ["Table 3 says 51, the text 15"]
rows:
  CE: {method: ce}
  CE + SCL: {method: scl, settings: {tau: 0.3, lam: 0.9}, note: "τ is assumed"}
  Theirs: {}
columns:
  Demo: {task: demo, metric: accuracy}
  Minor: {task: demo, metric: f1, of_class: minority}
  Mean: {metric: accuracy, average_of: [Demo, Minor]}
blocks:
  N=20: {train_size: 20}
  Both: {average_of: [N=20]}
cells:
  N=20:
    CE: {Demo: [50.0, 1.0], Minor: 40.0, Mean: 45.0}
    CE + SCL: {Demo: 60.0, Minor: null, Mean: null}
    Theirs: {Demo: 61.0, Minor: null, Mean: null}
  Both:
    CE: {Demo: 55.0, Minor: null, Mean: null}
    CE + SCL: {Demo: null, Minor: null, Mean: null}
    Theirs: {Demo: null, Minor: null, Mean: null}
"""


def _shares(_configuration: int, replicate: int) -> list[list[int]]:
    return [[20 + replicate, 30 - replicate], [10, 40]]


@pytest.fixture(scope="session")
def papers() -> Path:
    """Returns the folder with the papers' texts; skips where it is missing."""
    given = os.environ.get("SCLSEARCH_TEST_PAPERS")
    folder = Path(given) if given else Path(__file__).parents[3] / "shared" / "papers"
    if not folder.is_dir():
        pytest.skip(f"no papers in {folder}; set SCLSEARCH_TEST_PAPERS to a folder with their text")
    return folder


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder of tables, `some/table-1` and `some/table-2`."""
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "table-1.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "some" / "table-2.yaml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def demo(tmp_path: Path) -> Table:
    """Returns a table on the embedded task, with figures that can be made and others."""
    path = tmp_path / "published" / "some" / "table-3.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(DEMO, encoding="utf-8")
    return load_tables(tmp_path / "published")["some/table-3"]


@pytest.fixture
def small(tmp_path: Path, tiny_encoder: Path) -> Path:
    """Return a tiny encoder of this test's own."""
    return shutil.copytree(tiny_encoder, tmp_path / "encoder")


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        storage=tmp_path / "storage", gpus_per_trial=0, tracking="none", concurrency=1
    )


@pytest.fixture
def printed() -> Printed:
    """Returns what prints something on a terminal of 80 columns and returns the text."""

    def printed(show: Callable[..., None], *things: object) -> str:
        console = Console(file=StringIO(), width=80)
        show(console, *things)
        assert isinstance(console.file, StringIO)
        return console.file.getvalue()

    return printed


def lines(text: str) -> list[str]:
    """Returns the lines with single blanks."""
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture
def fill() -> Callable[..., str]:
    """Returns what finishes all seed runs of a study without training and returns its name.

    Half of 100 test rows are of each class; in replicate r 60 + r are right, unless it is said.
    """

    def fill(spec: StudySpec, options: RunOptions, counts: Counts = _shares) -> str:
        prepared = prepare_study(spec, options)
        prepared.begin()
        scheduler = Scheduler(prepared)
        scheduler.refill()
        while (task := scheduler.next()) is not None:
            run = _seed_run(task.key, task.identity, counts(*task.id), prepared.record.origin)
            prepared.runs.put(run)
            scheduler.finish(task, run)
        return prepared.store.name

    return fill


def _seed_run(
    key: str,
    identity: Mapping[str, Any],
    counts: list[list[int]] | None,
    origin: Mapping[str, Any],
) -> SeedRun:
    if counts is None:
        return SeedRun(key, identity, origin, failure=Failure("raised", "a test"))
    kept = {"epoch": 1, "update": 9, "loss": {}, "validation": {"confusion": counts}}
    test = {"confusion": counts}
    return SeedRun(
        key,
        identity,
        origin,
        evaluations=(kept,),
        kept=0,
        test=test,
        seconds=60.0,
        environment={"threads": 1},
    )
