"""The folder of the papers' texts, and a small table of a file's whole form."""

import os
from pathlib import Path

import pytest

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
  B: {task: qnli, metric: f1, split: other, of_class: minority}
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
