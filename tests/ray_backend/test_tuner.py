"""Tests of a whole search with Ray: stored results, MLflow, weights, repetition and reruns."""

import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest

from sclsearch.reports.report import finished_winner, report
from sclsearch.search.run import rerun
from sclsearch.search.scheduler import Scheduler
from tests.in_process import in_process
from tests.search.beside import beside
from tests.workspace import Processes, Workspace

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def weights(workspace: Workspace, name: str) -> set[str]:
    folder = workspace.storage / "studies" / name / "weights"
    return {path.stem for path in folder.glob("*.safetensors")}


@pytest.fixture(scope="module")
def first(workspace: Workspace, processes: Processes) -> tuple[Scheduler, float]:
    """Return the result of a search that lost one worker, and its seconds."""
    killed = list[int]()

    def kill(over: threading.Event) -> None:
        while not killed and not over.wait(0.05):
            killed.extend(processes.named("ray::ImplicitFunc.train")[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    begun, handlers = time.monotonic(), [signal.getsignal(each) for each in SIGNALS]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in processes.environment.items():
            patch.setenv(name, value)
        with beside(kill):
            result = workspace.run(configs=2)
    assert [signal.getsignal(each) for each in SIGNALS] == handlers
    assert len(killed) == 1
    ids = [(number, replicate) for number in range(2) for replicate in range(2)]
    assert sum(result.worker_failures.count(one) for one in ids) == 1
    return result, time.monotonic() - begun


def test_a_search_that_loses_a_worker_stores_every_seed_run_and_the_weights_of_the_report(
    workspace: Workspace, first: tuple[Scheduler, float]
) -> None:
    from safetensors import safe_open

    result, _ = first
    assert (result.ending, result.wanted, result.done) == ("complete", 4, 4)
    assert (result.trained, result.failed, result.tracking) == (4, 0, None)
    stored = Counter()
    for number, runs in workspace.seed_runs(result.name).items():
        for replicate, one in enumerate(runs):
            assert one is not None
            assert len(one.evaluations) == 8
            assert {"validation", "test"} == {*one.predictions}
            assert (one.origin["configuration"], one.origin["replicate"]) == (number, replicate)
            assert (one.environment["threads"], one.environment["gpus"]) == (1, 0.0)
            stored[number] += 1
    assert stored == {0: 2, 1: 2}
    ((key, path),) = report(workspace.storage, result.name).weights.items()  # of the best seed
    assert weights(workspace, result.name) == {key}
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["key"] == key
        assert any(name.startswith("encoder.") for name in file.keys())  # noqa: SIM118


def test_a_repeated_search_reads_the_store_and_trains_nothing(
    workspace: Workspace, first: tuple[Scheduler, float]
) -> None:
    _, seconds = first
    before = workspace.runs()
    begun = time.monotonic()
    again = workspace.run(configs=2)
    assert (again.ending, again.trained, again.done) == ("complete", 0, 4)
    assert time.monotonic() - begun < seconds / 2
    assert workspace.runs() == before


def test_a_search_that_tests_only_its_winner_gives_the_same_result(
    workspace: Workspace, first: tuple[Scheduler, float], tmp_path: Path
) -> None:
    result, _ = first
    other = workspace.elsewhere(tmp_path)
    with in_process():
        there = other.run(configs=2, test_scores="winner", tracking="none")
    assert (there.ending, there.trained, there.done) == ("complete", 4, 4)
    expected, found = report(workspace.storage, result.name), report(other.storage, there.name)
    before, after = finished_winner(expected), finished_winner(found)
    assert after.number == before.number
    assert [one.test for one in after.seeds] == [one.test for one in before.seeds]
    assert {*found.weights} == {*expected.weights} == weights(other, there.name)
    assert sorted(line.untested for line in found.configurations) == [0, 2]
    with in_process():
        again = other.run(configs=2, test_scores="all", tracking="none")
    assert (again.ending, again.trained) == ("complete", 0)
    assert [line.seeds for line in report(other.storage, there.name).configurations] == [
        tuple(replace(seed, seconds=ANY) for seed in line.seeds) for line in expected.configurations
    ]


@pytest.mark.usefixtures("first")
def test_reruns_of_seed_runs_are_bit_identical(workspace: Workspace) -> None:
    for key in workspace.runs():
        again = rerun(workspace.storage, key[:10])
        assert (again.key, again.same, again.now) == (key, True, None)
