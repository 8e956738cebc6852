"""Tests of the built-in tasks: names, metrics, digests and the demo task."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import digest
from sclsearch.tasks import DEMO, TASKS, base, load_task
from sclsearch.tasks.base import Split, TaskData
from sclsearch.tasks.metrics import METRICS
from tools.demo.__main__ import TARGET, content

DEMO_DIGEST = "e4a362c9a35dea046f3b4fd587f390a7017363a1a781ff5cc02926f128fde915"
ROWS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text("é\"'")))


def test_every_task_has_a_fitting_metric_and_a_summary() -> None:
    for name, task in TASKS.items():
        METRICS[task.metric].check(len(task.labels), name)
        assert task.name == name
        assert task.summary


def test_the_folder_argument_precedes_the_environment_variable(
    glue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCLSEARCH_DATA", str(glue))
    assert load_task("wnli").source == str(glue / "WNLI")
    monkeypatch.setenv("SCLSEARCH_DATA", str(tmp_path))
    assert load_task("wnli", glue).source == str(glue / "WNLI")


@given(ROWS, st.integers(1, 4))
def test_the_digest_does_not_depend_on_the_batch_size(
    rows: list[tuple[str, str]], batch: int
) -> None:
    y = np.zeros(len(rows), np.int64)
    split = Split(tuple(rows), y)
    whole = [digest(split.texts), hashlib.sha256(y.tobytes()).hexdigest(), "int64"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "DIGESTED_AT_ONCE", batch)
        assert TaskData(DEMO, {"train": split}, "here").digest == digest({"train": whole})


def test_the_demo_is_balanced_and_has_the_pinned_rows_of_its_generator() -> None:
    demo = load_task("demo")
    assert demo.digest == DEMO_DIGEST
    counts = {name: np.bincount(split.y).tolist() for name, split in demo.splits.items()}
    assert counts == {"train": [1000, 1000], "validation": [250, 250], "test": [250, 250]}
    assert gzip.decompress(TARGET.read_bytes()) == content()
