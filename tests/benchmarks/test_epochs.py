"""Tests of the replay of pruners on learning curves."""

from pathlib import Path

import numpy as np

from benchmarks import epochs
from benchmarks.machine import percent


def test_a_configuration_that_learns_late_is_lost_by_epochs_and_kept_over_seeds() -> None:
    last = np.array([0.8, 0.7, 0.7, 0.6, 0.6, 0.6])
    first = np.array([0.5, 0.6, 0.6, 0.55, 0.55, 0.55])
    steps = np.linspace(0, 1, 8)
    curves = first[:, None] * (1 - steps) + last[:, None] * steps
    scores = np.repeat(curves[::-1, None], 4, axis=1)  # the late one comes last
    found = epochs.searches(8)
    for name in ("all seed runs", "`--race 2.5`", "one seed", "`patience=3`, all seeds"):
        assert found[name](scores)[0] == 5
    for name in ("ASHA, of means", "ASHA, a trial is a seed run", "Hyperband, of means"):
        chosen, cost = found[name](scores)
        assert chosen != 5
        assert cost < 1
    for patience in (1, 3):
        finals, cost = epochs.stopped(scores[..., ::-1], patience)
        assert (finals == scores[..., -1]).all()
        assert cost == (1 + patience) / 8


def test_the_page_has_the_numbers_of_the_recorded_curves() -> None:
    text = Path("benchmarks/epochs.md").read_text(encoding="utf-8")
    studies = [*epochs.read().values()]
    runs = sum(scores.shape[0] * scores.shape[1] for scores in studies)
    assert f"recorded curves of {len(studies)} searches: {runs} seed runs" in text
    cost, *_ = np.mean([epochs.replayed(one, epochs.over_seeds, 0) for one in studies], axis=0)
    assert f"| `--race 2.5` | {percent(cost)} % |" in text
