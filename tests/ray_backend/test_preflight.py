"""Tests of a cluster with several nodes: preflight check, free slots and a lost node."""

import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.search.prepare import prepare_study
from sclsearch.search.rerun import rerun
from sclsearch.search.run import run
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.local import LocalPath
from sclsearch.study.spec import RunOptions
from tests.search.beside import beside
from tests.studies import LOST, in_progress
from tests.workspace import Prepare, Processes, Workers, Workspace

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGS, SEEDS = 2, 2
OPTIONS: dict[str, Any] = {
    "configs": CONFIGS,
    "seeds": SEEDS,
    "concurrency": 2,
    "study": "s",
    "tracking": "none",
}
LONG: dict[str, Any] = {"settings": {"epochs": 144}}
STORED_BEFORE_THE_LOSS = 1


@pytest.fixture(scope="module")
def cluster(processes: Processes) -> Iterator[Any]:
    """Yield a cluster of a head without CPUs and a node with one CPU."""
    from ray._private.authentication.authentication_token_setup import (
        maybe_enable_token_auth_if_token_available,
    )
    from ray.cluster_utils import Cluster

    from sclsearch.ray_backend.startup import keep_token_private

    # Ray reads the token once per process, so all clusters of the process must use the same one.
    keep_token_private()
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    # A socket's path has at most 107 characters, too few for pytest's folders.
    folder = tempfile.mkdtemp(prefix="ray-")
    node = {"object_store_memory": 80_000_000, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**processes.environment, "RAY_TMPDIR": folder}.items():
            patch.setenv(name, value)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **node})
        cluster.add_node(num_cpus=1, num_gpus=2, **node)
        yield cluster
        cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def trains(pid: str) -> bool:
    """Return whether a worker is training a seed run."""
    with suppress(FileNotFoundError):
        return b".train" in Path("/proc", pid, "cmdline").read_bytes()
    return False


def stopped_in_training(node: Any) -> int | None:
    """Stop a worker of a node that is training a seed run; return its process id, if any."""
    (raylet,) = node.all_processes["raylet"]
    children = Path("/proc", str(raylet.process.pid)).glob("task/*/children")
    for pid in filter(trains, " ".join(file.read_text() for file in children).split()):
        os.kill(int(pid), signal.SIGSTOP)
        if trains(pid):
            return int(pid)
        os.kill(int(pid), signal.SIGCONT)
    return None


@pytest.fixture
def joined(cluster: Any) -> Iterator[None]:
    """Join the cluster."""
    from sclsearch.ray_backend.startup import started_ray

    with started_ray(cluster.address):
        yield


def test_concurrency_is_limited_by_a_machine_but_not_by_a_cluster(joined: None) -> None:
    from sclsearch.ray_backend.startup import at_a_time, fitting

    assert fitting(1, 0) == 1
    assert fitting(2, 0) == 0
    assert at_a_time(None, 1, 0, joined=True) == 64
    assert at_a_time(None, 1, 1, joined=True) == 64
    assert at_a_time(3, 1, 0, joined=True) == 3
    assert at_a_time(None, 1, 0, joined=False) == 1
    with pytest.raises(SclsearchError, match=r"does not fit into this machine, which has 1 cores"):
        at_a_time(None, 2, 0, joined=False)


def test_preflight_accepts_good_nodes_and_names_every_bad_one(
    joined: None,
    prepare: Prepare,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sclsearch.ray_backend.preflight import check_nodes
    from sclsearch.study.environment import versions

    prepared = prepare()
    check_nodes(prepared)
    assert prepared.store.folder.names() == []

    with monkeypatch.context() as patch:
        patch.setattr(
            "sclsearch.ray_backend.nodes.versions", lambda: {**versions(), "torch": "1.0"}
        )
        with pytest.raises(SclsearchError) as refused:
            check_nodes(prepared)
    assert str(refused.value).count("torch 1.0: node ") == 2

    monkeypatch.chdir(tmp_path)
    # Each process sees a different folder there, as each machine does below /tmp.
    storage = Path("/proc/self/cwd/here")
    prepared = replace(prepared, storage=storage)
    prepared.store.folder = LocalPath(storage / "studies" / "mine")
    with pytest.raises(SclsearchError) as refused:
        check_nodes(prepared)
    lines = str(refused.value).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("--storage /proc/self/cwd/here: node ")
        assert f"node {os.uname().nodename} (" in line
        assert "does not see what the driver wrote there. Give a folder that all nodes" in line
    assert not [*(tmp_path / "here/studies/mine").iterdir()]


def test_requested_seed_runs_do_not_start_after_the_time_budget(
    cluster: Any, workspace: Workspace, tmp_path: Path
) -> None:
    workspace = workspace.elsewhere(tmp_path, settings={"epochs": 200})
    result = workspace.run(
        address=cluster.address, configs=8, concurrency=None, time_budget=6, tracking="none"
    )
    assert result.ending == "out of time"
    assert result.done < 16
    assert result.failed == 0


def test_a_search_without_room_on_any_node_warns_until_its_time_budget_ends(
    cluster: Any, workspace: Workspace, tmp_path: Path
) -> None:
    console = Console(record=True, file=StringIO())
    workspace = workspace.elsewhere(tmp_path)
    options = RunOptions(
        storage=workspace.storage,
        address=cluster.address,
        configs=1,
        seeds=1,
        cpus_per_trial=2,
        gpus_per_trial=0,
        time_budget=2,
        tracking="none",
    )
    assert run(workspace.spec, options, console).ending == "out of time"
    assert "no node has room yet" in console.export_text()


@contextmanager
def losing_a_node(cluster: Any, disturbed: Workspace) -> Iterator[None]:
    """Add a node, and remove it in the middle of the study."""
    victim = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)

    def unplug(over: threading.Event) -> None:
        worker = None
        # Removing a node takes as long as a seed run, so stop the worker to keep its seed run open.
        while worker is None and not over.wait(0.05):
            if in_progress(disturbed.storage, STORED_BEFORE_THE_LOSS, quiet=0.5):
                worker = stopped_in_training(victim)
        cluster.remove_node(victim, allow_graceful=False)
        if worker is not None:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    with beside(unplug):
        yield
    cluster.wait_for_nodes()  # else the next test finds a dead node that counts as alive


@pytest.fixture
def undisturbed(workspace: Workspace, workers: Workers, tmp_path: Path) -> set[str]:
    """Return the keys of the study's seed runs if no node is lost."""
    options = RunOptions(storage=tmp_path / "undisturbed", gpus_per_trial=0, **OPTIONS)
    prepared = prepare_study(replace(workspace.spec, **LONG), options).begin()
    workers.run_out(Scheduler(prepared))
    return {run.key for run in prepared.runs.all()}


def test_a_study_that_loses_a_node_ends_as_the_undisturbed_one(
    cluster: Any,
    workspace: Workspace,
    worker_failures: Counter[tuple[int, str]],
    undisturbed: set[str],
    tmp_path: Path,
) -> None:
    disturbed = workspace.elsewhere(tmp_path / "disturbed", **LONG)
    with losing_a_node(cluster, disturbed):
        result = disturbed.run(address=cluster.address, **OPTIONS)
    assert (result.ending, result.done, result.failed) == ("complete", CONFIGS * SEEDS, 0)
    assert {cause for _, cause in worker_failures} <= LOST
    assert sum(worker_failures.values()) >= 1
    assert disturbed.runs().keys() == undisturbed
    configurations = disturbed.seed_runs("s")
    for one in (one for number, _ in worker_failures for one in configurations[number]):
        assert one is not None
        assert rerun(disturbed.storage, one.key).same
