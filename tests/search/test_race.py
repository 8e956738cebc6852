"""Test of a race from start to report: fewer seed runs, and the winner of the full search."""

from pathlib import Path

import pytest

from sclsearch.reports.report import finished_winner, report
from tests.in_process import in_process
from tests.workspace import Workspace, WriteSpace

# At the small learning rates nothing is learned.
SPACE = """
method: scl
source: a test
published: [{learning_rate: 1e-2}]
fixed: {epochs: 8, batch_size: 8, max_length: 16, pooling: mean}
space:
  learning_rate: {type: choice, values: [1e-2, 1e-7, 2e-7, 3e-7]}
"""
BAND, SEEDS = 2.5, 6


@pytest.mark.slow
def test_a_race_trains_less_than_a_full_search_and_has_its_winner(
    workspace: Workspace, write_space: WriteSpace, tmp_path: Path
) -> None:
    racing = workspace.elsewhere(tmp_path, space=write_space(SPACE))
    options = {"seeds": SEEDS, "test_scores": "winner", "tracking": "none"}
    with in_process():
        raced = racing.run(race=BAND, **options)
        found = report(racing.storage, raced.name)
        again = racing.run(race=BAND, **options)
        whole = racing.run(race="off", **options)
    assert (raced.ending, raced.failed) == ("complete", 0)
    assert raced.trained == raced.done < 4 * SEEDS
    winner = finished_winner(found)
    assert winner.number == 0
    assert (found.race, found.finished) == (BAND, True)
    assert [len(line.seeds) for line in found.configurations] == [SEEDS, SEEDS, SEEDS, 4]
    assert all(seed.test is not None for seed in winner.seeds)
    assert all(seed.test is None for line in found.configurations[1:] for seed in line.seeds)
    assert (again.ending, again.name, again.trained) == ("complete", raced.name, 0)
    assert (whole.name, whole.done, whole.trained) == (
        raced.name,
        4 * SEEDS,
        4 * SEEDS - raced.trained,
    )
    found = report(racing.storage, raced.name)
    assert (found.race, finished_winner(found).number) == (None, 0)
