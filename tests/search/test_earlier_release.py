"""Tests of a store of release 0.1.0: its keys and scores are unchanged, and its search resumes.

That release made the store in `tests/stores/0.1.0.tar.gz` on one CPU thread: a search of `scl`, two
seed runs of every method, two in lockstep, a failed one, and the report of the search.
"""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.reports.report import finished_winner, report
from sclsearch.search.run import SearchResult, run
from sclsearch.store.runs import RunStore
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from tests.in_process import in_process

ARCHIVE = Path(__file__).parents[1] / "stores" / "0.1.0.tar.gz"
FIELDS = {"epochs": 2, "batch_size": 16, "max_length": 16, "learning_rate": 1e-3}
LACON = {"heads": 2}
POST_TRAINING = {"post_epochs": 1}
PROBE = {"probe_epochs": 2}
MORE: dict[str, dict[str, int]] = {
    **{"lacon": LACON, "lacon-fusion": LACON, "supcl-seq": PROBE, "simcse": PROBE},
    **{"cmlm": POST_TRAINING, "tapt": POST_TRAINING, "cssl": POST_TRAINING},
}

RELEASED = (
    *("ce", "scl", "supcl-seq", "simcse", "dropout-aug", "lacon", "lacon-fusion"),
    *("leam", "lsan", "ce-cl", "cmlm", "tapt", "cssl"),
)
"""Methods of release 0.1.0."""

pytestmark = pytest.mark.slow


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Return a folder with the release's store, data, encoder, search space and report."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "0.1.0"


@pytest.fixture
def train(release: Path) -> Callable[..., SearchResult]:
    """Return a function that runs a study of the release's data and encoder in this process."""
    task = CustomTask(release / "reviews.csv", ("text",), "label", split_column="split")

    def train(method: str, study: str, storage: Path, **changes: Any) -> SearchResult:
        fields = {**FIELDS, **MORE.get(method, {})}
        usual = {"settings": fields, "searched": False, "model": str(release / "tiny-bert")}
        spec = StudySpec(method=method, task=task, **{**usual, **changes})
        options = RunOptions(
            storage=storage, study=study, seeds=2, gpus_per_trial=0, tracking="none"
        )
        with in_process():
            return run(spec, options, Console(quiet=True))

    return train


@pytest.mark.parametrize("method", RELEASED)
def test_seed_runs_of_every_method_are_found_by_their_keys(
    release: Path, train: Callable[..., SearchResult], method: str
) -> None:
    finished = train(method, "again", release / "storage")
    assert (finished.done, finished.trained) == (2, 0)


@pytest.mark.parametrize("method", RELEASED)
def test_seed_runs_trained_today_have_the_same_losses(
    release: Path, train: Callable[..., SearchResult], method: str
) -> None:
    train(method, "new", release / "new")
    earlier = RunStore(release / "storage")
    for new in RunStore(release / "new").all():
        old = earlier.get(new.key)
        assert old is not None
        # Rounding differs between processor families and grows with every update.
        first, again = (run.evaluations[0]["loss"] for run in (old, new))
        assert again == pytest.approx(first, rel=1e-3)


def test_the_report_of_a_search_has_the_same_numbers(release: Path) -> None:
    earlier = json.loads((release / "search.json").read_text(encoding="utf-8"))
    found = report(release / "storage", "search")
    assert finished_winner(found).number == earlier["winner"]
    names = ("number", "score", "values")
    lines = [[getattr(line, name) for name in names] for line in found.configurations]
    assert lines == [[line[name] for name in names] for line in earlier["configurations"]]
    for line, was in zip(found.configurations, earlier["configurations"], strict=True):
        seeds = [(seed.key, seed.validation, seed.test) for seed in line.seeds]
        assert seeds == [(seed["key"], seed["validation"], seed["test"]) for seed in was["seeds"]]


def test_a_search_resumes_after_its_encoder_moved(
    release: Path, train: Callable[..., SearchResult]
) -> None:
    moved = shutil.copytree(release / "tiny-bert", release / "elsewhere")
    record = StudyStore(release / "storage", "search").record()
    assert record is not None
    assert record.identity["model"] != str(moved)
    settings = record.origin["settings"]
    finished = train(
        "scl",
        "search",
        release / "storage",
        model=str(moved),
        searched=True,
        settings=settings,
        space=release / "space.yaml",
        search_seed=record.identity["search_seed"],
    )
    stored = len(json.loads((release / "search.json").read_text())["configurations"])
    assert finished.done == finished.wanted
    assert finished.done - finished.trained == 2 * stored


def test_a_failed_seed_run_is_still_a_failure(release: Path) -> None:
    found = report(release / "storage", "failed")
    (line,) = found.configurations
    assert [seed.validation is None for seed in line.seeds] == [False, True]


def test_seed_runs_in_lockstep_are_still_reported(release: Path) -> None:
    found = report(release / "storage", "in-lockstep")
    (line,) = found.configurations
    assert all(seed.validation is not None for seed in line.seeds)
