"""A race leaves out seeds, keeps its promise, and at a risk of 0 never changes the winner."""

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.race import cost, replay, winner
from sclsearch.selection.race import LEAST, Race
from sclsearch.selection.rules import Top

Numbers = npt.NDArray[np.float64]


def ledger(draw: np.random.Generator, configs: int = 20) -> Numbers:
    """Returns few-shot scores, `[configs, 10]`: hard and easy subsets, seeds that failed."""
    means = 0.75 + 0.05 * draw.standard_normal((configs, 1))
    noise = 0.02 * draw.standard_normal((1, 10)) + 0.04 * draw.standard_normal((configs, 10))
    scores = np.where(draw.random((configs, 10)) < 0.03, 0.5, means + noise)
    return np.asarray(scores.clip(0, 1).round(3))


def test_without_a_risk_nothing_waits() -> None:
    scores = ledger(np.random.default_rng(0))
    race = replay(Top(3), scores, None)
    assert cost(race) == 1.0
    assert race.order(0, 9) == race.order(5, 0)


@pytest.mark.parametrize("top", [Top(), Top(3), Top(1)])
def test_at_a_risk_of_0_the_winner_is_always_that_of_all_seeds(top: Top) -> None:
    draw = np.random.default_rng(1)
    costs = []
    for _ in range(6):
        scores = ledger(draw)
        scores[draw.random(20) < 0.3] /= 2
        race = replay(top, scores, 0.0)
        assert winner(top, race.scores) == winner(top, scores.tolist())
        assert not any(forecast.better for forecast in race.paused.values())
        costs.append(cost(race))
    if top.k is None:
        assert np.mean(costs) < 0.95


@pytest.mark.parametrize("top", [Top(), Top(3)])
def test_a_risk_saves_a_quarter_of_the_seeds_and_is_kept(top: Top) -> None:
    draw = np.random.default_rng(2)
    costs, right, stated = [], [], []
    for _ in range(12):
        scores = ledger(draw)
        race = replay(top, scores, 0.05)
        costs.append(cost(race))
        right.append(winner(top, race.scores) == winner(top, scores.tolist()))
        stated.append(sum(forecast.better for forecast in race.paused.values()))
    assert max(stated) <= 0.05
    assert np.mean(costs) < 0.75
    assert np.mean(right) >= 0.95


def test_every_configuration_gets_its_first_seeds() -> None:
    scores = np.vstack([np.full((1, 10), 0.99), np.zeros((5, 10))])
    race = replay(Top(), scores, 0.05, at_once=1)
    given = (~np.isnan(np.array(race.scores))).sum(1)
    assert given.tolist() == [10] + [LEAST] * 5


def test_a_failed_seed_counts_as_the_least() -> None:
    race = Race(Top(), -1.0, 1.0, 3)
    race.open()
    race.note(0, 1, None)
    assert race.scores[0][1] == -1.0


def test_a_better_leader_lets_others_wait_that_nothing_new_is_known_of() -> None:
    race = Race(Top(), 0.0, 1.0, 10, 2, 0.05)
    race.open()
    race.open()
    for seed in range(3):
        race.note(1, seed, 0.5 + 0.01 * seed)
    race.judge()
    assert not race.paused
    for seed in range(10):
        race.note(0, seed, 0.9 + 0.001 * seed)
    race.judge()
    assert {*race.paused} == {1}


def test_what_waits_goes_on_where_the_promise_would_not_hold() -> None:
    race = Race(Top(), 0.0, 1.0, 10, 7, 0.05)
    for mean, seeds in ((0.7, 10), (0.6, 3), (0.3, 3)):
        race.open()
        for seed in range(seeds):
            race.note(len(race.scores) - 1, seed, mean + 0.01 * (seed % 3))
    race.judge()
    assert {*race.paused} == {1, 2}
    # It turns out that the seeds which the second has got are the hard ones.
    for mean in (0.30, 0.32, 0.34, 0.36):
        race.open()
        for seed in range(10):
            race.note(len(race.scores) - 1, seed, mean + 0.2 * (seed > 2))
    race.judge()
    race.certify()
    assert {*race.paused} == {2}
    assert race.certain


def test_first_seeds_come_before_others_and_then_the_best_configuration() -> None:
    race = Race(Top(), 0.0, 1.0, 10, 3, 0.01)
    for mean in (0.70, 0.72, 0.71):
        race.open()
        for seed in range(LEAST):
            race.note(len(race.scores) - 1, seed, mean + 0.001 * seed)
    race.judge()
    places = [(number, seed) for number in range(3) for seed in (LEAST - 1, LEAST, LEAST + 1)]
    order = sorted(places, key=lambda place: (race.order(*place), place))
    assert order == [
        (1, LEAST - 1),
        (2, LEAST - 1),
        (0, LEAST - 1),
        *((number, seed) for number in (1, 2, 0) for seed in (LEAST, LEAST + 1)),
    ]
