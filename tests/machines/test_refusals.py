"""Tests of errors before the first seed run: storage that is not shared, wrong tokens."""

from collections.abc import Callable, Iterator

import pytest

from tests.machines.conftest import Search
from tests.machines.machines import Machine, Machines

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

WRONG = "0" * 64


@pytest.fixture(scope="module")
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
