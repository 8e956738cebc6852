"""Tests of the race."""

import math
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sclsearch.selection.race import LEAST, Band, Race, Scores
from sclsearch.selection.rules import MEAN, Top


def few_shot(draw: np.random.Generator, configs: int) -> Scores:
    """Return few-shot scores `[configs, 10]` with hard and easy subsets and failed seeds."""
    means = 0.75 + 0.05 * draw.standard_normal((configs, 1))
    noise = 0.02 * draw.standard_normal((1, 10)) + 0.04 * draw.standard_normal((configs, 10))
    scores = np.where(draw.random((configs, 10)) < 0.03, 0.5, means + noise)
    return np.asarray(scores.clip(0, 1).round(3))


def race_of(configs: int, band: Band, top: Top = MEAN.score) -> Race:
    race = Race(top, 1.0, 10, band)
    for _ in range(configs):
        race.add_configuration()
    return race


def finish(race: Race, scores: Scores, slots: int = 1, order: random.Random | None = None) -> Race:
    """Give a race the scores that it requests; running seeds end in any order."""
    running: list[tuple[int, int]] = []
    while True:
        while len(running) < slots and (
            place := race.next(running, all_open=True) or race.ahead(running, all_open=True)
        ):
            assert place not in running
            running.append(place)
        if not running:
            assert race.decided
            return race
        place = running.pop(order.randrange(len(running)) if order else 0)
        assert math.isnan(race.scores[place])
        race.add_score(*place, scores[place])


def seeds_of(race: Race) -> list[int]:
    return [int(count) for count in (~np.isnan(race.scores)).sum(1)]


def test_the_best_third_goes_on_after_each_stage_and_at_least_three_get_all_seeds() -> None:
    means = np.linspace(0.9, 0.1, 30)  # far apart: nothing is within the band
    race = finish(race_of(30, 2.5), means[:, None] + 0.001 * np.arange(10))
    assert seeds_of(race) == [10] * LEAST + [8] + [4] * 6 + [2] * 20


def test_the_third_is_of_all_configurations_if_the_band_has_kept_more() -> None:
    scores = np.full((30, 10), 0.1)
    scores[:20] = np.linspace(0.9, 0.5, 20)[:, None]
    scores[:20, :2] = 0.9  # 20 configurations are equal after 2 seeds
    assert seeds_of(finish(race_of(30, 1e-9), scores)) == [10] * 3 + [8] + [4] * 16 + [2] * 10


def test_the_start_of_a_careful_rule_gets_all_seeds() -> None:
    means = np.linspace(0.1, 0.9, 30)
    for band in (2.5, "exact"):
        race = Race(Top(), 1.0, 10, band, keep_first=True)
        for _ in means:
            race.add_configuration()
        seeds = seeds_of(finish(race, means[:, None] + 0.001 * np.arange(10)))
        assert (seeds[0], seeds[1], seeds[-1]) == (10, 2, 10)


def test_what_is_within_the_band_goes_on_too() -> None:
    draw = np.random.default_rng(0)
    scores = few_shot(draw, 30)
    narrow, wide = (finish(race_of(30, band), scores) for band in (0.5, 4.0))
    assert sum(seeds_of(narrow)) < sum(seeds_of(wide)) < 300
    equal = finish(race_of(30, 2.5), np.full((30, 10), 0.5))
    assert seeds_of(equal) == [10] * 30


def test_the_band_is_in_standard_errors_of_a_difference_over_all_seeds() -> None:
    scores = few_shot(np.random.default_rng(3), 12)
    first = scores[:, :2]
    ranked = np.argsort(-first.mean(1), kind="stable")
    # Least squares with an effect of each configuration and each seed, of the better half.
    half = first[ranked[:6]].reshape(-1)
    effects = np.hstack([np.repeat(np.eye(6), 2, 0), np.tile(np.eye(2), (6, 1))])
    rest = half - effects @ np.linalg.lstsq(effects, half, rcond=None)[0]
    # Of 10 seeds, 8 of both configurations are unknown.
    error = math.sqrt(2 * (rest @ rest) / 5 * (1 / 2 - 1 / 10))
    gap = first.mean(1)[ranked[0]] - first.mean(1)[ranked[6]]
    for factor, goes_on in ((0.99, False), (1.01, True)):
        race = finish(race_of(12, float(factor * gap / error)), scores)
        assert (seeds_of(race)[ranked[6]] > 2) == goes_on


def test_the_standard_error_leaves_out_the_effects_of_seeds_and_configurations() -> None:
    draw = np.random.default_rng(1)
    means, effects = draw.standard_normal((8, 1)), draw.standard_normal((1, 10))
    race = finish(race_of(8, 2.5), 0.5 + 0.01 * means + 0.2 * effects)
    assert seeds_of(race).count(10) == LEAST


def test_stages_begin_with_two_seeds_and_under_top_k_with_three() -> None:
    assert Race(Top(), 1.0, 20, 2.5).stages == (2, 4, 8, 16, 20)
    assert Race(Top(3), 1.0, 10, 3.5).stages == (3, 6, 10)
    assert Race(Top(), 1.0, 2, 2.5).stages == Race(Top(), 1.0, 2).stages == (2,)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    top=st.sampled_from([Top(), Top(1), Top(3)]),
    slots=st.sampled_from([1, 2, 8]),
    decimals=st.sampled_from([1, 3]),
)
def test_an_exact_race_has_all_that_could_equal_or_beat_its_winner(
    seed: int, top: Top, slots: int, decimals: int
) -> None:
    draw = np.random.default_rng(seed)
    scores = few_shot(draw, 8).round(decimals)  # with one decimal most scores are ties
    scores[draw.random(8) < 0.3] /= 2
    race = finish(race_of(8, "exact", top=top), scores, slots, random.Random(seed))
    finals = np.array([top.value(row) for row in scores.tolist()])
    assert np.nanmax(race.values(10)) == finals.max()
    best = np.flatnonzero(finals == finals.max())
    assert not np.isnan(race.scores[best]).any()  # the loss decides between these


def test_the_configurations_with_all_seeds_do_not_depend_on_the_workers() -> None:
    for seed in range(20):
        scores = few_shot(np.random.default_rng(seed), 30)
        alone, many = (
            finish(race_of(30, 0.5), scores, slots, random.Random(seed)) for slots in (1, 40)
        )
        finalists = [[count == 10 for count in seeds_of(race)] for race in (alone, many)]
        assert finalists[0] == finalists[1]


def test_only_first_seeds_are_needed_while_configurations_are_still_added() -> None:
    race = race_of(2, 2.5)
    assert race.next((), all_open=False) == (0, 0)
    assert race.ahead((), all_open=False) == (0, 0)
    for number, seed, value in ((0, 0, 0.5), (0, 1, 0.6), (1, 0, 0.7)):
        race.add_score(number, seed, value)
    assert race.next((), all_open=False) == (1, 1)
    assert race.ahead(((1, 1),), all_open=False) == (0, 2)
    race.add_score(1, 1, 0.8)
    assert race.next((), all_open=False) is None
    assert race.next((), all_open=True) == (1, 2)
    ahead = [(1, 2), (1, 3), (0, 2), (0, 3)]  # the best first, and only of the second stage
    assert [race.ahead(ahead[:n], all_open=False) for n in range(5)] == [*ahead, None]


def test_top_k_counts_the_same_share_of_fewer_seeds() -> None:
    race = race_of(1, 3.5, top=Top(3))
    for seed, value in enumerate((0.1, 0.5, 0.9, 0.2, 0.7, 0.3)):
        race.add_score(0, seed, value)
    assert race.values(3).tolist() == [0.9]
    assert race.values(6).tolist() == [0.8]
    assert math.isnan(race.values(10)[0])


def test_the_needed_seeds_are_exact_if_nothing_is_within_the_band() -> None:
    scores = np.linspace(0.9, 0.1, 20)[:, None] + 0.001 * np.arange(10)
    race = race_of(20, 2.5)
    assert race_of(5, 2.5).needed(15) == race.needed()
    total = race.needed()
    while (place := race.next((), all_open=True)) is not None:
        assert race.needed() == total
        race.add_score(*place, scores[place])
        total -= 1
    assert race.needed() == total == 0
    assert race_of(2, None).needed() == 20
