"""Tests of custom methods, their search spaces and paraphrases from a file."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.search.plan import plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import rerun
from sclsearch.store.runs import SeedRun
from sclsearch.study.spec import RunOptions
from sclsearch.tasks.custom import CustomTask
from tests.in_process import in_process
from tests.workspace import MakeSpec, Workspace, WriteSpace

SMALL = {"epochs": 2, "batch_size": 8, "max_length": 16, "learning_rate": 1e-2}
SPACE = """
method: Smoothed
source: a test
published: [{smoothing: 0.1}]
fixed: {epochs: 2, batch_size: 8, max_length: 16, learning_rate: 1e-2}
space:
  smoothing: {type: choice, values: [0.0, 0.1]}
"""


@pytest.fixture
def toy_texts(toy: CustomTask) -> list[str]:
    """Return the distinct texts of the toy task."""
    lines = toy.path.read_text(encoding="utf-8").splitlines()[1:]
    return sorted({line.partition(",")[0] for line in lines})


@pytest.fixture
def mine(custom_method: str, tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    return file


def runs_of(workspace: Workspace, name: str) -> list[SeedRun]:
    stored = [run for runs in workspace.seed_runs(name).values() for run in runs if run is not None]
    assert stored
    return stored


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_custom_method_is_searched_stored_and_rerun(
    workspace: Workspace, mine: Path, write_space: WriteSpace
) -> None:
    spec = replace(workspace.spec, method=f"{mine}:Smoothed", space=write_space(SPACE))
    own = replace(workspace, spec=spec)
    result = own.run(configs=1, seeds=1, tracking="none")
    assert (result.done, result.failed) == (1, 0)
    assert report(own.storage, result.name).method == "Smoothed"
    runs = runs_of(own, result.name)
    assert rerun(own.storage, runs[0].key, method=f"{mine}:Smoothed").differing == ()


@pytest.mark.slow
def test_a_failure_names_the_line_of_the_method_and_ends_the_search(
    workspace: Workspace,
    mine: Path,
    write_space: WriteSpace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = mine.read_text(encoding="utf-8")
    mine.write_text(text.replace("batch.y", "batch.y[1:]"), encoding="utf-8")
    own = workspace.elsewhere(tmp_path, method=f"{mine}:Smoothed", space=write_space(SPACE))
    (line,) = [n for n, row in enumerate(mine.read_text().split("\n"), 1) if "batch.y[1:]" in row]
    monkeypatch.setattr("sclsearch.search.run.check_new", lambda *_: None)
    with in_process(), pytest.raises(SclsearchError, match=rf"\(mine\.py:{line}\)\. Fix the cause"):
        own.run(configs=2, tracking="none")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch.y", "batch.y[1:]", r"ValueError: Expected input batch_size .* \(mine\.py:\d+\)"),
        ("self.scores", "self.logits", r"AttributeError: .*no attribute 'logits' \(mine\.py:\d+\)"),
        ('{"ce": cross', '{"ce": 0 * cross', ""),
    ],
)
def test_a_dry_run_trains_a_custom_method_for_one_update(
    make_spec: MakeSpec,
    mine: Path,
    tmp_path: Path,
    old: str,
    new: str,
    message: str,
) -> None:
    mine.write_text(mine.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    spec = make_spec(method=f"{mine}:Smoothed", space=None, searched=False)
    options = RunOptions(storage=tmp_path / "storage", gpus_per_trial=0, tracking="none")
    if message:
        with pytest.raises(SclsearchError, match=rf"^--method {mine}:Smoothed: .*{message}\. "):
            plan_prepared(prepare_study(spec, options, dry=True))
    else:
        assert plan_prepared(prepare_study(spec, options, dry=True))["missing"]
    assert not (tmp_path / "storage").exists()


@pytest.mark.slow
def test_paraphrases_of_a_file_are_read_and_noted(
    workspace: Workspace, tmp_path: Path, toy_texts: list[str]
) -> None:
    file = tmp_path / "paraphrases.jsonl"
    lines: list[Any] = [{"paraphrases": 1, "source": "by hand", "note": "made by hand"}]
    lines += [{"text": [t], "paraphrases": [[f"so {t}"], [f"{t} so"]]} for t in toy_texts]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    settings = {**SMALL, "post_epochs": 1, "pooling": "mean"}
    spec = replace(
        workspace.spec,
        method="cssl",
        space=None,
        searched=False,
        settings=settings,
        paraphrases=file,
    )
    by_file = replace(workspace, spec=spec)
    with in_process():
        name = by_file.run(tracking="none", seeds=1).name
    assert "made by hand" in report(by_file.storage, name).notes
    (run,) = runs_of(by_file, name)
    assert {reading["stage"] for reading in run.stages} == {"post-training"}
    assert rerun(workspace.storage, run.key).differing == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": None}, "has no search space"),
        ({}, "must be 'Smoothed', got 'scl'"),
    ],
    ids=["no space", "the space of another method"],
)
def test_a_custom_method_needs_its_own_space(
    resolved: Callable[..., Any], mine: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError, match=message):
        resolved(method=f"{mine}:Smoothed", **changes)


def test_a_value_that_does_not_fit_the_encoder_is_refused_before_anything_is_stored(
    workspace: Workspace, write_space: WriteSpace, tmp_path: Path
) -> None:
    space = (
        "method: lacon\nsource: a test\npublished: [{heads: 4}]\nfixed: {max_length: 16}\n"
        "space:\n  heads: {type: choice, values: [1, 4, 5]}\n"
    )
    own = workspace.elsewhere(tmp_path, method="lacon", space=write_space(space))
    with pytest.raises(SclsearchError, match=r"^heads: must divide the width .* 16, got 5"):
        own.run(configs=1)
    assert not list((tmp_path / "storage" / "studies").glob("*"))
