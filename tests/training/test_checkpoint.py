"""Tests of checkpoints: a training that stops and resumes at each equals an undisturbed one."""

from pathlib import Path
from typing import Any

import pytest

from sclsearch.training.checkpoint import Checkpoint, TrainingState, load_state, save_state
from sclsearch.training.engine import train
from sclsearch.training.evaluation import TrainingResult
from tests.training.conftest import Work, WorkFor, identical


class Killed(BaseException):
    """End of a training after a checkpoint."""


def resumed_at_each(work: Work, file: Path) -> tuple[TrainingResult, list[tuple[int, int]]]:
    """Train, and stop after each checkpoint; return the result and where the training stopped."""
    owner, stops, state = {"key": work.spec.key}, list[tuple[int, int]](), None

    class Killing(Checkpoint):
        def write(self, state: TrainingState) -> None:
            save_state(file, state, owner)
            stops.append((state.position, state.update))
            raise Killed

    while True:
        try:
            return train(*work, checkpoint=Killing(0.0, state)), stops
        except Killed:
            state = load_state(file, owner)


CASES: Any = [
    *[("ce", {"keep": "best"}), ("ce", {"keep": "last", "class_weights": "balanced"})],
    *[("scl", {"lam": 1.0}), ("supcl-seq", {"view_mode": "official_code"}), ("lacon", {})],
    *[("cmlm", {}), ("cssl", {"chunk_tokens": 64, "patience": 1}), ("scl", {"lora_rank": 2})],
    ("scl", {"rows_per_class": 2}),
]


@pytest.mark.parametrize(("method", "changes"), CASES, ids=str)
def test_a_training_resumed_at_each_evaluation_equals_an_undisturbed_one_to_the_bit(
    work_for: WorkFor, tmp_path: Path, method: str, changes: Any
) -> None:
    work = work_for(method, epochs=4, dropout=0.1, **changes)
    result, stops = resumed_at_each(work, tmp_path / "state")
    expected = train(*work)
    assert identical(result, expected)
    for name, array in expected.probabilities.items():
        assert array.tobytes() == result.probabilities[name].tobytes()
    stages = {position for position, _ in stops}
    assert stages == set(range(len(work.spec.stages)))
    assert len(stops) == len(expected.stages) + len(expected.evaluations) - 1
