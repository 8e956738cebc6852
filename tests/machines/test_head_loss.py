"""Test that a study resumes on a new cluster after its head is lost."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.machines.conftest import CONFIGS, SEEDS, Search
from tests.machines.machines import Machines
from tests.processes import PATIENCE, wait_for

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]


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
