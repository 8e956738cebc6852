"""Tests of confirmation: each seed run trains once."""

import shutil
from pathlib import Path

import pytest

from sclsearch.papers.confirm import confirm
from sclsearch.reports.report import finished_winner
from sclsearch.search.run import rerun, run
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions, StudySpec
from tests.in_process import in_process
from tests.papers.conftest import QUIET, stored

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Scheduler:
    """Return the result of a search of two configurations on three replicates."""
    spec = StudySpec(
        method="ce",
        task="demo",
        model=str(tiny_bert),
        train_size=20,
        settings={"epochs": 2, "max_length": 16},
    )
    storage = tmp_path_factory.mktemp("tuned") / "storage"
    options = RunOptions(storage=storage, tracking="none", gpus_per_trial=0, configs=2, seeds=3)
    with in_process():
        return run(spec, options, QUIET)


@pytest.fixture
def options(tuned: Scheduler, tmp_path: Path) -> RunOptions:
    """Return run options for a copy of the search's storage."""
    storage = shutil.copytree(tuned.storage, tmp_path / "storage")
    return RunOptions(storage=storage, tracking="none", gpus_per_trial=0, concurrency=1)


def test_a_confirmation_trains_new_seed_runs_once(options: RunOptions, tuned: Scheduler) -> None:
    assert (tuned.ending, tuned.trained, tuned.failed) == ("complete", 6, 0)
    before = stored(options)
    with in_process():
        _, fresh = confirm(tuned.name, 3, options, QUIET)
    after = stored(options)
    keys = {seed.key for seed in finished_winner(fresh).seeds}
    assert keys == after.keys() - before.keys()
    assert len(keys) == 3
    assert {key: after[key] for key in before} == before
    assert confirm(tuned.name, 3, options, QUIET)[1] == fresh
    assert stored(options) == after
    # Fresh replicates follow the protocol's ten, although the search used three.
    replicates = StudyStore(options.storage, fresh.study).replicates()
    assert [replicate.seeds["order"] for replicate in replicates] == [10, 11, 12]
    assert rerun(options.storage, min(keys)).differing == ()
