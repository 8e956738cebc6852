"""Tests of the race: saved seeds, its risk, and the exact winner at a risk of 0."""

import math
import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sclsearch.selection.race import FIRST, Race
from sclsearch.selection.rules import Top

Numbers = npt.NDArray[np.float64]


def few_shot(draw: np.random.Generator, configs: int = 20) -> Numbers:
    """Return few-shot scores `[configs, 10]` with hard and easy subsets and failed seeds."""
    means = 0.75 + 0.05 * draw.standard_normal((configs, 1))
    noise = 0.02 * draw.standard_normal((1, 10)) + 0.04 * draw.standard_normal((configs, 10))
    scores = np.where(draw.random((configs, 10)) < 0.03, 0.5, means + noise)
    return np.asarray(scores.clip(0, 1).round(3))


def race_of(configs: int, risk: float | None, seeds: int = 10, top: Top | None = None) -> Race:
    race = Race(top or Top(), 0.0, 1.0, seeds, risk)
    for _ in range(configs):
        race.add_configuration()
    return race


def finish(race: Race, scores: Numbers, slots: int = 2, order: random.Random | None = None) -> Race:
    """Give a race the scores that it requests; running seeds end in any order."""
    running: list[tuple[int, int]] = []
    while True:
        while len(running) < slots and (place := race.next(running, all_open=True)) is not None:
            assert place not in running
            running.append(place)
        if not running:
            return race
        number, seed = running.pop(order.randrange(len(running)) if order else 0)
        assert math.isnan(race.scores[number][seed])
        race.record_score(number, seed, float(scores[number, seed]))


def winner(top: Top, scores: list[list[float]]) -> int:
    finals = {n: top.value(row) for n, row in enumerate(scores) if not any(map(math.isnan, row))}
    return max(finals, key=lambda number: (finals[number], -number))


def trained(race: Race) -> float:
    return float((~np.isnan(np.array(race.scores))).mean())


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    top=st.sampled_from([Top(), Top(1), Top(3)]),
    slots=st.sampled_from([1, 2, 8]),
    decimals=st.sampled_from([1, 3]),
)
def test_at_a_risk_of_0_the_winner_is_that_of_all_seeds(
    seed: int, top: Top, slots: int, decimals: int
) -> None:
    draw = np.random.default_rng(seed)
    scores = few_shot(draw, 8).round(decimals)  # with one decimal most scores are ties
    scores[draw.random(8) < 0.3] /= 2
    race = finish(race_of(8, 0.0, top=top), scores, slots, random.Random(seed))
    assert race.certain
    assert winner(top, race.scores) == winner(top, scores.tolist())
    assert race.forecasts()[1] == 0.0


@pytest.mark.parametrize("risk", [0.0, 0.05])
def test_a_race_continues_while_a_configuration_can_tie_with_the_leader(risk: float) -> None:
    race = finish(race_of(20, risk, seeds=5), np.ones((20, 5)), slots=1)
    assert not any(race.missing(number) for number in range(20))  # the loss decides


@pytest.mark.parametrize("seed", range(8))
def test_at_a_risk_of_0_a_race_continues_while_another_configuration_can_win(
    seed: int,
) -> None:
    draw = np.random.default_rng(seed)
    scores = 0.85 + 0.004 * (draw.standard_normal((4, 1)) + draw.standard_normal((4, 10)))
    scores[:, 3:] -= draw.uniform(0, 0.6) * np.linspace(0, 1, 7)  # hard seeds come last
    top = Top(3)
    race = finish(race_of(4, 0.0, top=top), scores.clip(0, 1), 1)
    known = np.array(race.scores)
    best = max(top.value(row) for row in known.tolist() if not any(map(math.isnan, row)))
    highest = [top.value(np.nan_to_num(row, nan=1.0).tolist()) for row in known]
    assert all(
        value < best for value, row in zip(highest, known, strict=True) if np.isnan(row).any()
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), stop=st.integers(1, 60))
def test_a_resumed_race_takes_the_same_decisions_and_keeps_its_risk(seed: int, stop: int) -> None:
    draw = np.random.default_rng(seed)
    scores = few_shot(draw, 10)
    first = race_of(10, 0.05)
    for _ in range(stop):
        if (place := first.next((), all_open=True)) is None:
            break
        first.record_score(*place, float(scores[place]))
    resumed = race_of(10, 0.05)
    known = np.argwhere(~np.isnan(np.array(first.scores))).tolist()
    random.Random(seed).shuffle(known)
    for number, seed_number in known:
        resumed.record_score(number, seed_number, float(scores[number, seed_number]))
    assert resumed.next((), all_open=True) == first.next((), all_open=True)
    finish(resumed, scores)
    finish(first, scores)
    assert np.array_equal(resumed.scores, first.scores, equal_nan=True)
    assert resumed.certain
    assert resumed.forecasts()[1] <= 0.05


@pytest.mark.parametrize(("top", "most"), [(Top(), 0.55), (Top(3), 0.75)])
def test_a_race_saves_seeds_and_keeps_its_risk(top: Top, most: float) -> None:
    draw = np.random.default_rng(2)
    costs, right = [], []
    for _ in range(12):
        scores = few_shot(draw)
        race = finish(race_of(20, 0.05, top=top), scores)
        assert race.forecasts()[1] <= 0.05
        costs.append(trained(race))
        right.append(winner(top, race.scores) == winner(top, scores.tolist()))
    assert np.mean(costs) < most
    assert sum(right) >= 11


def test_every_configuration_gets_its_first_seeds() -> None:
    scores = np.vstack([np.full((1, 10), 0.99), np.zeros((5, 10))])
    race = finish(race_of(6, 0.0), scores, slots=1)
    assert (~np.isnan(np.array(race.scores))).sum(1).tolist() == [10] + [FIRST] * 5


def test_first_seeds_come_first_then_the_leader_then_the_likeliest_rival() -> None:
    race = race_of(3, 0.0)
    places = []
    scores = np.array([0.70, 0.72, 0.71])[:, None] + 0.004 * np.arange(10)
    for _ in range(16):
        place = race.next((), all_open=True)
        assert place is not None
        places.append(place)
        race.record_score(*place, float(scores[place]))
    assert places[:6] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert places[6:14] == [(1, seed) for seed in range(FIRST, 10)]
    assert places[14][0] == 2


def test_only_first_seeds_run_while_configurations_are_still_added() -> None:
    race = race_of(1, 0.05)
    assert race.next((), all_open=False) == (0, 0)
    assert race.next([(0, 0)], all_open=False) == (0, 1)
    race.record_score(0, 0, 0.5)
    race.record_score(0, 1, 0.6)
    assert race.next((), all_open=False) is None
    assert race.next((), all_open=True) == (0, 2)


def test_free_workers_wait_if_the_running_seeds_will_probably_end_the_race() -> None:
    race = race_of(4, 0.05)
    for number, mean in enumerate((0.9, 0.4, 0.4, 0.4)):
        for seed in range(10 if number == 0 else FIRST):
            race.record_score(number, seed, mean + 0.001 * seed)
    assert race.certain
    race.record_score(1, 0, 0.88)
    race.record_score(1, 1, 0.90)
    place = race.next((), all_open=True)
    assert place == (1, 2)
    assert race.next([place], all_open=True) is None


def test_a_failed_seed_counts_as_the_minimum() -> None:
    race = Race(Top(), -1.0, 1.0, 3)
    race.add_configuration()
    race.record_score(0, 1, None)
    assert race.scores[0][1] == -1.0


def test_an_audit_trains_all_seeds_of_configurations_that_cannot_win() -> None:
    draw = np.random.default_rng(0)
    scores = few_shot(draw, 50)
    race = finish(race_of(50, 0.05), scores)
    assert race.audit.configurations == 2
    assert race.audit.consistent
    exact = finish(race_of(50, 0.0), scores)
    assert trained(exact) < 1
    assert exact.audit.configurations < 2


def test_an_audit_that_contradicts_the_model_widens_it() -> None:
    draw = np.random.default_rng(0)
    scores = few_shot(draw, 50)
    plain = race_of(50, 0.05)
    honest = finish(plain, scores)
    lost = [number for number in range(50) if not plain.missing(number)]
    audited = min(lost, key=lambda number: float(scores[number].mean()))
    scores[audited, FIRST:] = scores[audited, :FIRST].mean() - 0.4
    race = finish(race_of(50, 0.05), scores)
    assert not race.audit.consistent
    assert race.audit.widening > 1.5
    assert trained(race) > trained(honest)
    assert race.forecasts()[1] <= 0.05


def test_the_estimate_of_needed_seed_runs_is_within_bounds_and_ends_at_0() -> None:
    scores = few_shot(np.random.default_rng(4))
    race = race_of(20, 0.05)
    total = 0
    estimates = []
    while (place := race.next((), all_open=True)) is not None:
        estimates.append(race.needed())
        race.record_score(*place, float(scores[place]))
        total += 1
    assert race.needed() == (0, 0, 0)
    assert all(least <= likely <= most for least, likely, most in estimates)
    assert 0.5 * total < estimates[0][1] < 2 * total
    assert race_of(2, None).needed() == (20, 20, 20)
