"""Tests of unshared storage, of wrong tokens, and of a study that resumes on a new cluster."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.machines.conftest import CONFIGS, SEEDS, Search
from tests.machines.machines import Machine, Machines
from tests.processes import PATIENCE, wait_for

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

WRONG = "0" * 64


@pytest.fixture
def head(machines: Machines) -> Iterator[Machine]:
    """Return the head of a cluster with one worker."""
    yield machines.cluster(2)
    machines.kill(1, 2)


def test_a_node_without_the_shared_storage_is_named_with_exit_code_2(
    machines: Machines, head: Machine, search_named: Callable[[str], Search]
) -> None:
    command = search_named("unshared").command
    refused = head.run("sclsearch", *command, "--storage=/tmp/mine", "--address=auto")
    assert refused.returncode == 2, refused.stderr
    assert "10.77.0.2: /tmp/mine/studies/s: machine2 does not see the study." in refused.stderr
    runs = head.run("find", "/tmp/mine", "-name", "*.json", "-path", "*runs*").stdout
    assert runs == ""


def test_a_driver_with_a_wrong_token_is_refused_with_exit_code_2(
    machines: Machines, head: Machine, search_named: Callable[[str], Search]
) -> None:
    search = search_named("wrong-token")
    outsider = machines.start(4, token=WRONG)
    options = (f"--storage={search.storage}", f"--address={head.ip}:6379")
    refused = outsider.run("sclsearch", *search.command, *options)
    machines.kill(4)
    assert refused.returncode == 2, refused.stderr
    assert (
        f"--address {head.ip}:6379: no Ray cluster answers, or it rejects this machine's token"
        in refused.stderr
    )
    assert "~/.ray/auth_token" in refused.stderr
    for token in (WRONG, machines.token):
        assert token not in refused.stdout + refused.stderr
    assert not search.stored()


def test_a_study_resumes_on_a_new_cluster_after_the_loss_of_all_machines(
    machines: Machines, search_named: Callable[[str], Search], undisturbed: Mapping[str, Any]
) -> None:
    search = search_named("head-loss")
    search.start(machines.cluster(2, 3), "--address=auto")
    wait_for("the middle of the study", lambda: len(search.stored()) >= 8)
    machines.kill(1, 2, 3)
    before = search.stored()
    assert len(before) < CONFIGS * SEEDS
    head = machines.cluster(2, 3)
    code = search.start(head, "--address=auto").wait(PATIENCE)
    after = search.stored()
    machines.kill(1, 2, 3)
    assert code == 0, search.output(head)
    assert {key: after[key] for key in before} == before
    assert search.results() == undisturbed
