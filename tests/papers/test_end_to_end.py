"""Experiments are done again, and nothing that is in the store is trained again."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.papers.base import Table
from sclsearch.papers.chosen import chosen_cells
from sclsearch.papers.confirm import confirm, variance
from sclsearch.papers.figures import make, work_of
from sclsearch.papers.pairs import pairs
from sclsearch.papers.plan import Wishes, plan_cells
from sclsearch.reports.report import report
from sclsearch.search.rerun import rerun
from sclsearch.search.run import SearchResult, run
from sclsearch.store.runs import Failure, RunStore
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions, StudySpec
from tests.in_process import in_process

Fill = Callable[..., str]

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> SearchResult:
    """Returns how real Ray ended a search of two configurations on three replicates."""
    spec = StudySpec(
        method="ce",
        task="demo",
        model=str(tiny_bert),
        train_size=20,
        settings={"epochs": 2, "max_length": 16},
    )
    storage = tmp_path_factory.mktemp("tuned") / "storage"
    options = RunOptions(storage=storage, tracking="none", gpus_per_trial=0, configs=2, seeds=3)
    return run(spec, options, QUIET)


@pytest.fixture
def where(tuned: SearchResult, tmp_path: Path) -> RunOptions:
    """Returns how a test trains beside what the search stored, of which it has its own copy."""
    storage = shutil.copytree(tuned.storage, tmp_path / "storage")
    return RunOptions(storage=storage, tracking="none", gpus_per_trial=0, concurrency=2)


def stored(where: RunOptions) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in Path(where.storage, "runs").glob("*.json")}


def test_a_winner_is_confirmed_by_seed_runs_of_its_own_and_once(
    where: RunOptions, tuned: SearchResult
) -> None:
    assert (tuned.ending, tuned.trained, tuned.failed) == ("complete", 6, 0)
    before = stored(where)
    with in_process():
        found = confirm(tuned.name, 3, where, QUIET)
    after = stored(where)
    assert found.fresh.winner is not None
    keys = {seed.key for seed in found.fresh.winner.seeds}
    assert keys == after.keys() - before.keys()
    assert len(keys) == 3
    assert {key: after[key] for key in before} == before
    assert confirm(tuned.name, 3, where, QUIET) == found
    assert stored(where) == after
    # Beyond the ten of the protocol, though the search had three.
    replicates = StudyStore(where.storage, found.fresh.study).replicates()
    assert [replicate.seeds["order"] for replicate in replicates] == [10, 11, 12]
    assert rerun(where.storage, min(keys)).differing == ()


def test_a_fresh_seed_that_failed_is_trained_again_where_that_is_asked_for(
    where: RunOptions, tuned: SearchResult
) -> None:
    with in_process():
        found = confirm(tuned.name, 3, where, QUIET)
        assert found.fresh.winner is not None
        store, key = RunStore(where.storage), found.fresh.winner.seeds[1].key
        run = store.get(key)
        assert run is not None
        place = Path(where.storage, "runs", f"{key}.json")
        place.unlink()
        store.put(replace(run, failure=Failure("worker-lost", "gone")))
        failed = confirm(tuned.name, 3, where, QUIET).fresh.winner
        assert failed is not None
        assert failed.failed == 1
        assert confirm(tuned.name, 3, replace(where, retry_failed=True), QUIET) == found


def test_a_crossing_trains_what_the_search_did_not(where: RunOptions, tuned: SearchResult) -> None:
    before = stored(where)
    levels = {"subset": 1, "initialization": 2, "order": 2}
    with in_process():
        spread = variance(tuned.name, levels, where, QUIET)
    after = stored(where)
    assert spread.runs == 4
    assert set(spread.components) == {"initialization", "order", "residual"}
    # The cell of seeds 0 and 0 is the search's first replicate.
    assert len(after.keys() - before.keys()) == 3
    assert {key: after[key] for key in before} == before
    assert variance(tuned.name, levels, where, QUIET) == spread
    assert stored(where) == after


def test_a_table_that_was_begun_goes_on(
    where: RunOptions, demo: Table, tiny_bert: Path, fill: Fill
) -> None:
    wishes = Wishes(options=where, model=str(tiny_bert))
    both = plan_cells(demo, chosen_cells(demo, ["N=20,CE,CE + SCL,Demo"]), wishes)
    assert both[0].spec is not None
    fill(both[0].spec, both[0].options)
    first = make(both[0], QUIET)
    assert (first.seeds, first.reason) == (10, "")
    before = stored(where)
    assert [work_of(one, list).missing for one in both] == [0, 10]
    figures = [make(one, QUIET) for one in both]
    after = stored(where)
    assert figures[0] == first
    assert len(after.keys() - before.keys()) == 10
    assert {key: after[key] for key in before} == before
    (pair,) = pairs(figures)
    assert (pair.ours.row.name, pair.comparison.n) == ("CE + SCL", 10)
    winner = report(where.storage, figures[1].study).winner
    assert winner is not None
    assert figures[1].mean == pytest.approx(winner.test_mean)
