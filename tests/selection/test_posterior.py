"""Tests of the score posterior: exact bounds, calibration and the leader."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sclsearch.selection.posterior import ScorePosterior
from sclsearch.selection.rules import Top

N = math.nan
GOOD = [0.80, 0.82, 0.78, 0.81, 0.79]


def posterior(*scores: Sequence[float], top: Top | None = None) -> ScorePosterior:
    return ScorePosterior(top or Top(), scores, 0.0, 1.0)


@pytest.mark.parametrize(
    ("top", "certain"), [(Top(), 0.32), (Top(2), 0.8), (Top(3), 0.5333333333), (Top(1), 0.82)]
)
def test_the_certain_score_follows_from_the_observed_seeds(top: Top, certain: float) -> None:
    found = posterior([0.82, 0.78, N, N, N], [0.5, N, N, N, N], top=top)
    assert found.certain == pytest.approx(certain)


@pytest.mark.parametrize(
    ("top", "row", "out"),
    [
        # GOOD's mean is 0.8. Four ones lift 0.0 to it; three lift 0.1 + 0.9, but not 0.0 + 0.9.
        (Top(), [0.0, N, N, N, N], False),
        (Top(), [0.0, 0.9, N, N, N], True),
        (Top(), [0.1, 0.9, N, N, N], False),
        (Top(), [0.1, 0.91, N, N, N], False),
        # GOOD's best three have the mean 0.81. Two ones and 0.5 exceed it, two ones and 0.4 do not.
        (Top(3), [0.1, 0.1, N, N, N], False),
        (Top(3), [0.1, 0.1, 0.4, N, N], True),
        (Top(3), [0.1, 0.1, 0.5, N, N], False),
    ],
)
def test_the_win_probability_is_0_only_if_the_missing_seeds_cannot_suffice(
    top: Top, row: list[float], out: bool
) -> None:
    before = posterior(row, GOOD, top=top).forecast(0)
    after = posterior(GOOD, row, top=top).forecast(1)
    assert (before.better == 0.0) == out
    assert (after.better == 0.0) == out  # the validation loss decides between equal scores


def test_the_effect_of_a_hard_seed_is_separated_from_the_configuration() -> None:
    hard = [0.2, 0.0, 0.0, 0.0, 0.0]
    known = [[0.5 + mean - shift for shift in hard] for mean in (0.0, 0.1, 0.2, 0.05, 0.15)]
    # The first seed is hard for all: the last configuration equals the best one, the third, there.
    unlucky = posterior(*known, [0.5, N, N, N, N]).forecast(5)
    plain = posterior([0.7, 0.7, 0.7, 0.7, 0.7], [0.5, N, N, N, N]).forecast(1)
    assert unlucky.expected == pytest.approx(0.66, abs=0.01)
    assert unlucky.better > 0.3
    assert plain.better < 0.01


def test_equal_observed_scores_leave_the_missing_ones_uncertain() -> None:
    constant = [0.7] * 5
    near = posterior(constant, [0.69, 0.69, N, N, N]).forecast(1)
    far = posterior(constant, [0.50, 0.50, N, N, N]).forecast(1)
    assert near.better > 0.01
    assert 0 < far.better < 1e-3


def test_a_configuration_with_variable_seeds_has_a_wider_posterior() -> None:
    calm = posterior(GOOD, GOOD, [0.70, 0.70, N, N, N], top=Top(1)).forecast(2)
    wild = posterior(GOOD, GOOD, [0.55, 0.85, N, N, N], top=Top(1)).forecast(2)
    assert calm.better < 0.05
    assert wild.better == 1.0


def test_one_failed_seed_of_another_configuration_barely_widens_the_posterior() -> None:
    tail = [0.70, 0.70, N, N, N]
    alone = posterior(*[GOOD] * 8, tail).forecast(8).better
    failed = posterior(*[GOOD] * 8, [0.0, *GOOD[1:]], tail).forecast(9).better
    assert failed < 10 * alone < 0.05


@pytest.mark.parametrize("top", [Top(), Top(3)])
def test_win_probabilities_are_calibrated(top: Top) -> None:
    """Check 400 searches of ten finished configurations and one with three of ten seeds."""
    draw = np.random.default_rng(0)
    stated, happened = [], []
    for _ in range(400):
        means = 0.7 + 0.03 * draw.standard_normal((11, 1))
        noise = 0.02 * draw.standard_normal((1, 10)) + 0.03 * draw.standard_normal((11, 10))
        scores = (means + noise).clip(0, 1)
        known = scores.copy()
        known[10, 3:] = N
        found = ScorePosterior(top, known.tolist(), 0.0, 1.0)
        stated.append(found.forecast(10).better)
        happened.append(top.value(scores[10].tolist()) >= found.certain)
    for low, high in ((0.0, 0.02), (0.02, 0.1), (0.1, 0.4), (0.4, 1.0)):
        inside = [k for k, p in enumerate(stated) if low <= p < high]
        mean, share = np.mean([stated[k] for k in inside]), np.mean([happened[k] for k in inside])
        error = math.sqrt(mean * (1 - mean) / len(inside))
        assert abs(share - mean) < 3 * error + 0.02, (low, high, len(inside), mean, share)


@pytest.mark.parametrize("top", [Top(), Top(1), Top(3), Top(5)], ids=str)
def test_the_leader_has_the_highest_expected_score(top: Top) -> None:
    for number in range(30):
        draw = np.random.default_rng(number)
        scores = 0.7 + 0.05 * draw.standard_normal((12, 1)) + 0.04 * draw.standard_normal((12, 6))
        scores[np.arange(6) >= draw.integers(1, 7, (12, 1))] = N
        found = ScorePosterior(top, scores, 0.0, 1.0)
        assert found.leader == int(np.argmax(found.expected))


@pytest.mark.parametrize("draws", [64, 512])
def test_a_probability_of_few_draws_is_their_share_if_many_reach_the_score(draws: int) -> None:
    found = posterior([0.5, 0.5], [0.5, N])
    finals = np.linspace(0.4, 0.5, draws)[None]
    for reaching in (draws // 5, draws // 7):
        finals[0, -reaching:] = 0.5
        assert found._reaching(finals)[0] == pytest.approx(reaching / draws)
        finals = np.linspace(0.3, 0.4, draws)[None]


def test_there_is_a_leader_if_all_scores_are_the_minimum() -> None:
    for top in (Top(), Top(1), Top(3)):
        assert posterior([0.0, 0.0, N, N, N], [0.0, N, N, N, N], [N] * 5, top=top).leader < 2
