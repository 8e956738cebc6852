"""Seed runs are shown whole and once, killed drivers, failures and late parents or not."""

import dataclasses
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sclsearch.tracking import ConfigurationView, ScoreView, SeedRunView, StudyView, View, complete

if TYPE_CHECKING:
    from tests.tracking.conftest import Shown

SEED_RUN = SeedRunView("s", 0, 0, "k", evaluations=((5, {"loss": 1.0}),), started=10.0, seconds=2.0)


@pytest.mark.slow
def test_a_driver_killed_while_it_writes_is_completed_without_duplicates(
    uri: str, shown: "Shown", fresh_database: Path, tmp_path: Path
) -> None:
    views: list[View] = [StudyView("s", {"task": "rte"}), ConfigurationView("s", 0, {"tau": 0.1})]
    views += [
        dataclasses.replace(SEED_RUN, replicate=r, artifacts={"a.json": [r]}) for r in range(150)
    ]
    program = (
        "import dataclasses, sys\n"
        "from sclsearch.tracking import *\n"
        f"one = {SEED_RUN!r}\n"
        "views = [StudyView('s', {'task': 'rte'}), ConfigurationView('s', 0, {'tau': 0.1})]\n"
        "views += [dataclasses.replace(one, replicate=r, artifacts={'a.json': [r]})"
        " for r in range(150)]\n"
        "complete(sys.argv[1], views)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", program, uri])
    deadline = time.monotonic() + 30
    while len(shown.runs()) < 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    there = len(shown.runs())
    assert 20 <= there < len(views)
    assert complete(uri, views) == len(views) - there

    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    other = f"sqlite:///{undisturbed}/mlflow.db"
    (undisturbed / "mlflow.db").write_bytes(fresh_database.read_bytes())
    complete(other, views)
    assert shown.everything() == dataclasses.replace(shown, uri=other).everything()


def test_a_failed_seed_run_is_shown_as_failed_until_it_succeeds(uri: str, shown: "Shown") -> None:
    failed = dataclasses.replace(SEED_RUN, failed=True, tags={"failure": "non-finite"})
    complete(uri, [failed])
    assert shown.runs()["s/0/0"].info.status == "FAILED"
    assert shown.runs()["s/0/0"].data.tags["failure"] == "non-finite"
    longer = dataclasses.replace(SEED_RUN, evaluations=((5, {"loss": 1.0}), (9, {"loss": 0.5})))
    complete(uri, [longer])
    assert shown.runs()["s/0/0"].info.status == "FINISHED"
    assert "failure" not in shown.runs()["s/0/0"].data.tags
    assert shown.points()["s/0/0"] == {"loss": [(5, 1.0), (9, 0.5)]}


def test_a_seed_run_that_failed_again_is_shown_with_the_last_cause(
    uri: str, shown: "Shown"
) -> None:
    for cause in ("hang", "out-of-memory"):
        failed = dataclasses.replace(SEED_RUN, failed=True, tags={"failure": cause})
        complete(uri, [failed])
        assert shown.runs()["s/0/0"].data.tags["failure"] == cause
        assert shown.runs()["s/0/0"].info.status == "FAILED"


def test_values_that_are_not_finite_are_left_out_and_named(uri: str, shown: "Shown") -> None:
    bad = {"a": math.nan, "b": math.inf, "c": 1.0}
    complete(uri, [dataclasses.replace(SEED_RUN, summary=bad), ScoreView("s", 0, bad)])
    for name in ("s/0", "s/0/0"):
        run = shown.runs()[name]
        assert run.data.tags["sclsearch.not_finite"] == "a, b"
        assert run.data.metrics["c"] == 1.0
        assert not {"a", "b"} & run.data.metrics.keys()


def test_studies_share_an_experiment_and_nothing_else(uri: str, shown: "Shown") -> None:
    assert complete(uri, [SEED_RUN]) == 3
    assert complete(uri, [dataclasses.replace(SEED_RUN, study="s2")]) == 3
    assert set(shown.runs()) == {"s", "s/0", "s/0/0", "s2", "s2/0", "s2/0/0"}


def test_two_thousand_metrics_of_one_seed_run_arrive(uri: str, shown: "Shown") -> None:
    many = tuple((u, {"loss": 1 / u, "mcc": 0.1}) for u in range(1, 1001))
    complete(uri, [dataclasses.replace(SEED_RUN, evaluations=many)])
    assert len(shown.points()["s/0/0"]["loss"]) == 1000


@pytest.mark.parametrize("place", ["s", "s/0"], ids=["study", "configuration"])
def test_a_child_that_comes_before_its_parent_finds_its_place(
    uri: str, shown: "Shown", place: str
) -> None:
    complete(uri, [SEED_RUN])
    complete(uri, [StudyView("s", {"p": 1}), ConfigurationView("s", 0, {"p": 1})])
    assert shown.runs()[place].data.params == {"p": "1"}
    assert len(shown.runs()) == 3
