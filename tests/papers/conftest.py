"""Fixtures and helpers: a small table, run options and printed text."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.papers.tables import Table, load_tables
from sclsearch.study.spec import RunOptions

QUIET = Console(quiet=True)
DEMO = """
paper: Someone et al. 2020
number: 3
title: The demo
source: section 2
value: mean of the top 3
unit: percent
rule: top-3
protocol: gunel-fewshot
model: bert-base
settings: {batch_size: 8, epochs: 2, max_length: 16, learning_rate: 1.0e-3}
notes: ["Table 3 says 51, the text 15"]
rows:
  CE: {method: ce, note: "τ is assumed"}
  CE + SCL: {method: scl, settings: {tau: 0.3, lam: 0.9}}
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
"""


def write_table(folder: Path, text: str) -> Table:
    """Return the table `some/table-1` that a YAML text describes."""
    path = folder / "published" / "some" / "table-1.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return load_tables(folder / "published")["some/table-1"]


@pytest.fixture
def demo(tmp_path: Path) -> Table:
    """Return a table on the embedded task; only some of its cells are trainable."""
    return write_table(tmp_path, DEMO)


@pytest.fixture
def small(tmp_path: Path, tiny_encoder: Path) -> Path:
    """Return a tiny encoder that the test may change."""
    return shutil.copytree(tiny_encoder, tmp_path / "encoder")


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        storage=tmp_path / "storage", gpus_per_trial=0, tracking="none", concurrency=1
    )


def stored(options: RunOptions) -> dict[str, bytes]:
    """Return the files of all seed runs by key."""
    return {path.stem: path.read_bytes() for path in Path(options.storage, "runs").glob("*.json")}
