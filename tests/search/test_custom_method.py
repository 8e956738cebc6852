"""Tests of custom methods: search, rerun, errors and the check before the search."""

from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.search.plan import plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import rerun
from sclsearch.study.spec import RunOptions
from tests.in_process import in_process
from tests.workspace import MakeSpec, Resolved, Workspace, WriteSpace

SPACE = """
method: Smoothed
source: a test
published: [{smoothing: 0.1}]
fixed: {epochs: 2, batch_size: 8, max_length: 16, learning_rate: 1e-2}
space:
  smoothing: {type: choice, values: [0.0, 0.1]}
"""


@pytest.fixture
def mine(custom_method: str, tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    return file


@pytest.fixture
def own(workspace: Workspace, mine: Path, write_space: WriteSpace, tmp_path: Path) -> Workspace:
    return workspace.elsewhere(tmp_path, method=f"{mine}:Smoothed", space=write_space(SPACE))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_custom_method_is_searched_stored_and_rerun(own: Workspace, mine: Path) -> None:
    result = own.run(configs=1, seeds=1, tracking="none")
    assert (result.done, result.failed) == (1, 0)
    assert report(own.storage, result.name).method == "Smoothed"
    (key,) = own.runs()
    assert rerun(own.storage, key, method=f"{mine}:Smoothed").differing == ()


@pytest.mark.slow
def test_a_failure_names_the_line_of_the_method_and_ends_the_search(
    own: Workspace, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = mine.read_text(encoding="utf-8").replace("batch.y", "batch.y[1:]")
    mine.write_text(text, encoding="utf-8")
    line = text[: text.index("batch.y[1:]")].count("\n") + 1
    monkeypatch.setattr("sclsearch.search.run.check_new", lambda *_: None)
    with in_process(), pytest.raises(SclsearchError, match=rf"\(mine\.py:{line}\)\. Fix the cause"):
        own.run(configs=2, tracking="none")


def test_a_dry_run_trains_a_custom_method_for_one_update_and_writes_nothing(
    make_spec: MakeSpec, mine: Path, tmp_path: Path
) -> None:
    spec = make_spec(method=f"{mine}:Smoothed", space=None, searched=False)
    options = RunOptions(storage=tmp_path / "storage", gpus_per_trial=0, tracking="none")
    text = mine.read_text(encoding="utf-8")
    mine.write_text(text.replace('{"ce": cross', '{"ce": 0 * cross'), encoding="utf-8")
    assert plan_prepared(prepare_study(spec, options, dry=True))["missing"]
    mine.write_text(text.replace("batch.y", "batch.y[1:]"), encoding="utf-8")
    with pytest.raises(
        SclsearchError, match=rf"^--method {mine}:Smoothed: .*ValueError: .* \(mine\.py:\d+\)\. "
    ):
        plan_prepared(prepare_study(spec, options, dry=True))
    assert not (tmp_path / "storage").exists()


def test_a_custom_method_needs_its_own_space(resolved: Resolved, mine: Path) -> None:
    with pytest.raises(SclsearchError, match="has no search space"):
        resolved(method=f"{mine}:Smoothed", space=None)
    with pytest.raises(SclsearchError, match="must be 'Smoothed', got 'scl'"):
        resolved(method=f"{mine}:Smoothed")


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
