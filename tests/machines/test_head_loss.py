"""A cluster that is lost with its head: on a new one the same command goes on."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.machines.conftest import CONFIGS, SEEDS, Search
from tests.machines.room import PATIENCE, Room, wait_for

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

STORED_BEFORE = 8


def test_a_study_whose_cluster_is_lost_goes_on_in_a_new_one(
    room: Room, searching: Callable[[str], Search], undisturbed: Mapping[str, Any]
) -> None:
    search = searching("head-loss")
    search.start(room.cluster(2, 3), "--address=auto")
    wait_for("the midst of the study", lambda: len(search.stored()) >= STORED_BEFORE)
    room.off(1, 2, 3)
    before = search.stored()
    assert len(before) < CONFIGS * SEEDS
    head = room.cluster(2, 3)
    code = search.start(head, "--address=auto").wait(PATIENCE)
    after = search.stored()
    room.off(1, 2, 3)
    assert code == 0, search.told(head)
    assert {key: after[key] for key in before} == before
    assert search.figures() == undisturbed
