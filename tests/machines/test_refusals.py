"""What a cluster refuses before the first seed run: storage that is not shared, a wrong token."""

from collections.abc import Callable, Iterator

import pytest

from tests.machines.conftest import Search
from tests.machines.room import Machine, Room, wait_for

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

WRONG = "0" * 64


@pytest.fixture(scope="module")
def head(room: Room) -> Iterator[Machine]:
    """Returns the head of a cluster with one more machine."""
    yield room.cluster(2)
    room.off(1, 2)


def test_a_machine_that_does_not_share_the_storage_is_named_with_exit_code_2(
    room: Room, head: Machine, searching: Callable[[str], Search]
) -> None:
    command = searching("unshared").command
    refused = head.run("sclsearch", *command, "--storage=/tmp/mine", "--address=auto")
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.strip() == (
        "--storage /tmp/mine: node machine2 (10.77.0.2) "
        "does not see what the driver wrote there. Give a folder that all nodes share, or "
        "s3://BUCKET/FOLDER."
    )
    left = head.run("find", "/tmp/mine", "-name", "*.json", "-path", "*runs*").stdout
    assert left == ""


def test_a_driver_with_a_wrong_token_is_refused_with_exit_code_2(
    room: Room, head: Machine, searching: Callable[[str], Search]
) -> None:
    search = searching("wrong-token")
    stranger = room.machine(4, token=WRONG)
    options = (f"--storage={search.storage}", f"--address={head.ip}:6379")
    refused = stranger.run("sclsearch", *search.command, *options)
    room.off(4)
    assert refused.returncode == 2, refused.stderr
    assert f"--address {head.ip}:6379: the cluster rejects this machine's token" in refused.stderr
    assert "~/.ray/auth_token" in refused.stderr
    for token in (WRONG, room.token):
        assert token not in refused.stdout + refused.stderr
    assert not search.stored()


def test_a_machine_with_a_wrong_token_does_not_join_and_says_why(room: Room, head: Machine) -> None:
    stranger = room.machine(4, token=WRONG)
    stranger.join(head)
    log = stranger.logs / "ray-machine4"
    wait_for("a refusal", lambda: "InvalidAuthToken" in log.read_text(encoding="utf-8"))
    assert "machine4" not in head.run("ray", "status").stdout
    room.off(4)
