"""Tests of selection rules."""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.selection.rules import (
    CAREFUL,
    DECIMALS,
    MEAN,
    Rule,
    Top,
    mean_std,
    parse_rule,
    reported,
    reported_test,
    score,
)

SCORES = st.lists(st.floats(-1, 1), min_size=1, max_size=12)
TOPS = st.builds(Top, st.none() | st.integers(1, 12))


@given(scores=SCORES, top=TOPS, random=st.randoms(use_true_random=False))
def test_a_value_does_not_depend_on_the_order_of_the_seeds(
    scores: list[float], top: Top, random: Random
) -> None:
    shuffled = list(scores)
    random.shuffle(shuffled)
    assert top.value(shuffled) == top.value(scores)


@given(scores=SCORES)
def test_the_value_of_all_seeds_is_their_mean(scores: list[float]) -> None:
    mean = math.fsum(scores) / len(scores)
    assert Top().value(scores) == Top(len(scores)).value(scores) == round(mean, DECIMALS)


def test_means_of_equal_sums_are_equal() -> None:
    one, other = [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]
    eighth = [count / 138 for count in (90, 95, 97)], [count / 138 for count in (94, 94, 94)]
    assert Top().value(one) == Top().value(other)
    assert Top().value(eighth[0]) == Top().value(eighth[1])


@pytest.mark.parametrize(
    ("k", "seeds"), [(1, (1,)), (2, (1, 3)), (3, (1, 3, 0)), (None, (1, 3, 0, 2))]
)
def test_among_equal_scores_the_earlier_seed_counts(k: int | None, seeds: tuple[int, ...]) -> None:
    assert Top(k).seeds([0.5, 0.9, 0.5, 0.9]) == seeds


@given(score=TOPS, report=TOPS)
def test_a_rule_survives_a_text_round_trip(score: Top, report: Top) -> None:
    assert parse_rule(str(Rule(score, report))) == Rule(score, report)
    assert parse_rule("mean") == Rule(Top(), Top())
    assert parse_rule("top-3/best") == Rule(Top(3), Top(1))
    assert parse_rule(str(CAREFUL)) == CAREFUL
    parse_rule("top-3/best").check(3)
    with pytest.raises(SclsearchError, match="--seeds: rule top-3/best needs at least 3, got 2"):
        parse_rule("top-3/best").check(2)


def test_a_careful_rule_prefers_the_start_within_two_standard_errors() -> None:
    start, gaps = [0.5, 0.6, 0.7, 0.6], np.array([0.0, 0.02, 0.04, 0.06])
    error = gaps.std(ddof=1) / 2
    for lead, prefers in ((1.9 * error, False), (2.1 * error, True), (-error, False)):
        ours = start + gaps - gaps.mean() + lead
        assert CAREFUL.prefers(ours.tolist(), start) == prefers
        assert MEAN.prefers(ours.tolist(), start) == (lead > 0)
    assert CAREFUL.prefers([0.6], [0.5])  # one seed has no standard error


@pytest.mark.parametrize(
    ("rule", "scores", "minimum", "expected"),
    [
        ("mean", [0.6, None, 0.4], -1.0, 0.0),
        ("best", [0.6, None, 0.9], -1.0, 0.9),
        ("top-2", [None, 0.5, None], -1.0, -0.25),
        ("mean", [None, None], -1.0, -1.0),
        ("mean/best", [0.2, 0.4], 0.0, 0.3),
    ],
)
def test_a_failed_seed_counts_as_the_minimum(
    rule: str, scores: list[float | None], minimum: float, expected: float
) -> None:
    assert score(parse_rule(rule), scores, minimum) == pytest.approx(expected, abs=1e-15)


def test_failed_seeds_are_not_reported() -> None:
    for report, seeds in ((Top(), (4, 1, 3)), (Top(2), (4, 1)), (Top(5), (4, 1, 3))):
        assert reported(Rule(Top(), report), [None, 0.5, None, 0.5, 0.7]) == seeds


def test_a_reported_seed_without_a_test_score_leaves_no_mean() -> None:
    assert reported_test(MEAN, [0.9, 0.8], [0.7, None]) == ((0, 1), None, None)
    assert reported_test(MEAN, [0.9, None], [0.7, None]) == ((0,), 0.7, None)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
def test_mean_and_standard_deviation_equal_numpys_for_a_sample(scores: list[float]) -> None:
    mean, deviation = mean_std(scores)
    assert mean == pytest.approx(np.mean(scores), abs=1e-12)
    assert deviation == pytest.approx(np.std(scores, ddof=1), abs=1e-12)
