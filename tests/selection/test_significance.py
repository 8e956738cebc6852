"""Tests of paired comparisons: p-values, intervals, Holm's procedure and power."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.selection.rules import Top
from sclsearch.selection.significance import (
    SearchScores,
    compare,
    detectable,
    holm,
    in_points,
    search_interval,
    smallest_p,
)

COUNTS = st.integers(0, 50)  # correct answers of 50; so few values make ties common
SCORES = st.none() | COUNTS.map(lambda count: count / 50)
PAIRS = st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=12).filter(
    lambda pairs: any(None not in pair for pair in pairs)
)
P_VALUES = st.lists(st.floats(0, 1), max_size=6)
FEW = settings(max_examples=40)  # one interval takes 20,000 resamples


def test_a_small_example_matches_the_calculation_by_hand() -> None:
    comparison = compare([0.75, 0.5, None, 1.0, 0.25], [0.5, 0.5, 0.75, 0.5, None])
    assert (comparison.n, comparison.n_missing, comparison.n_equal) == (3, 2, 1)
    assert comparison.difference == 0.25
    assert comparison.std == 0.25
    assert comparison.p == 0.5  # both differences that are not 0 are positive: 2 / 2^2
    assert smallest_p(comparison.n) == 0.25
    one = compare([0.75, None], [0.5, 0.5])
    assert (one.difference, one.std, one.interval, one.p) == (0.25, None, None, 1.0)


@pytest.mark.parametrize(
    "differences", [[0.1, 0.3], [0.1, 0.1], [0.1] * 3, [0.1] * 8, [0.0] * 20], ids=str
)
def test_two_pairs_or_equal_differences_give_no_interval(differences: list[float]) -> None:
    assert compare(differences, [0.0] * len(differences), largest=1.0).interval is None


@pytest.mark.parametrize(("minimum", "largest"), [(0.0, 1.0), (-1.0, 2.0)])
def test_an_interval_has_only_differences_that_the_metric_can_have(
    minimum: float, largest: float
) -> None:
    high, low = [1.0, 1.0, 0.2], [minimum, minimum, 0.1]
    widest = compare(high, low).interval
    assert widest is not None
    assert widest[1] > largest
    upper, lower = (compare(*both, largest=largest).interval for both in ((high, low), (low, high)))
    assert upper == (max(widest[0], -largest), largest)
    assert lower == (-largest, -upper[0])


@pytest.mark.parametrize("scores", [[], [None, 0.5]], ids=["no scores", "failures"])
def test_scores_without_a_finished_pair_are_refused(scores: list[float | None]) -> None:
    with pytest.raises(SclsearchError, match=f"none of {len(scores)} replicates"):
        compare(scores, scores[::-1])


def test_with_several_subsets_the_seeds_of_a_subset_form_one_pair() -> None:
    a, b = [0.5, 0.6, 0.9, 0.7], [0.4, 0.3, 0.8, 0.9]
    comparison = compare(a, b, ["x", "x", "y", "y"])
    assert (comparison.n, comparison.n_missing) == (2, 0)
    assert comparison.difference == pytest.approx((0.2 - 0.05) / 2)
    assert comparison.p == 1.0
    assert compare(a, b, "xxxx") == compare(a, b)
    assert compare([*a[:3], None], b, "xxyz").n_missing == 1


@FEW
@given(PAIRS)
def test_exchanging_the_configurations_changes_only_the_signs(
    pairs: list[tuple[float | None, float | None]],
) -> None:
    one, other = compare(*zip(*pairs, strict=True)), compare(*[*zip(*pairs, strict=True)][::-1])
    assert other.difference == -one.difference
    assert (other.p, other.std, other.n_equal) == (one.p, one.std, one.n_equal)
    assert (one.interval is None) == (other.interval is None)
    if one.interval and other.interval:
        assert other.interval[::-1] == pytest.approx([-end for end in one.interval], abs=1e-12)
        assert one.interval[0] <= one.difference + 1e-12
        assert one.difference <= one.interval[1] + 1e-12


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_with_ties_p_is_the_share_of_equally_extreme_sign_patterns(differences: list[int]) -> None:
    from scipy.stats import rankdata

    unequal = np.array([difference for difference in differences if difference])
    ranks = rankdata(np.abs(unequal)) if len(unequal) else np.zeros(0)
    signs = np.array([[i >> bit & 1 for bit in range(len(ranks))] for i in range(2 ** len(ranks))])
    sums = signs @ ranks  # of the positive ranks, over all signs
    positive = ranks[unequal > 0].sum()
    expected = 2 * min(np.mean(sums <= positive), np.mean(sums >= positive))
    comparison = compare([difference / 100 for difference in differences], [0.0] * len(differences))
    assert comparison.p == pytest.approx(min(1.0, expected), rel=1e-12)


def test_differences_that_are_equal_up_to_rounding_are_ties() -> None:
    assert 0.5 - 0.48 != 0.57 - 0.55
    a, b = [0.5, 0.55, 0.9], [0.48, 0.57, 0.8]
    assert compare(a, b).p == compare([2, -2, 10], [0, 0, 0]).p == 0.75
    assert compare([*a, 0.1 + 0.2], [*b, 0.3]).n_equal == 1


@pytest.mark.parametrize("n", [1, 5, 20])
def test_the_smallest_p_is_reached_when_all_differences_have_one_sign(n: int) -> None:
    scores = [0.5 + seed / 100 for seed in range(n)]
    assert compare(scores, [0.25] * n).p == pytest.approx(smallest_p(n), rel=1e-12)
    assert smallest_p(n) == min(1, 2 / 2**n)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "expected"), [(5, 0.95), (6, 0.97), (16, 0.95)])
def test_the_interval_has_the_stated_coverage(n: int, expected: float) -> None:
    repeats = 300
    draws = stream(n, "coverage").normal(size=(repeats, n))
    intervals = [compare(row.tolist(), [0.0] * n).interval for row in draws]
    covered = np.mean([ends is not None and ends[0] <= 0 <= ends[1] for ends in intervals])
    deviation = math.sqrt(expected * (1 - expected) / repeats)
    assert abs(covered - expected) < 3 * deviation


@pytest.mark.parametrize("n", [10, 40])
def test_the_interval_of_normal_differences_is_close_to_students(n: int) -> None:
    from scipy.stats import norm, t

    quantiles = norm.ppf((np.arange(n) + 0.5) / n)
    ends = compare(quantiles.tolist(), [0.0] * n).interval
    half = t.ppf(0.975, n - 1) * quantiles.std(ddof=1) / math.sqrt(n)
    assert ends == pytest.approx((-half, half), rel=0.05)


@given(P_VALUES)
def test_holms_procedure_equals_bonferroni_over_all_sets_with_the_test(
    p_values: list[float],
) -> None:
    places = range(len(p_values))
    sets = [set(c) for size in places for c in combinations(places, size + 1)]
    expected = [
        max(min(1.0, len(s) * min(p_values[i] for i in s)) for s in sets if place in s)
        for place in places
    ]
    assert holm(p_values) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "alpha"), [(6, 0.05), (10, 0.025)])
def test_wilcoxons_test_has_the_stated_power_at_the_detectable_difference(
    n: int, alpha: float
) -> None:
    shift = detectable(0.02, n, alpha)
    samples = shift + 0.02 * stream(n, "a test").standard_normal((600, n))
    power = np.mean([compare(row.tolist(), [0.0] * n).p <= alpha for row in samples])
    assert power == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(("n", "alpha"), [(1, 0.05), (5, 0.05), (6, 0.025)])
def test_too_few_pairs_detect_nothing(n: int, alpha: float) -> None:
    assert detectable(0.02, n, alpha) == math.inf


def searched(means: list[float], spread: float = 0.01, seeds: int = 10) -> SearchScores:
    draw = stream(len(means), "a search")
    scores = np.array(means)[:, None] + spread * draw.normal(size=(len(means), seeds))
    return SearchScores(scores, scores, Top())


def test_an_interval_of_two_searches_includes_the_uncertainty_of_the_winners() -> None:
    flat, lucky = searched([0.5] * 8), searched([0.5] * 7 + [0.6])
    low, high = search_interval(lucky, flat) or (math.nan, math.nan)
    assert low < 0.02 < 0.09 < high < 0.12  # without the lucky configuration, and with it
    certain, _ = search_interval(searched([0.6] * 8), flat) or (math.nan, math.nan)
    assert certain > 0.08


@pytest.mark.parametrize(
    ("top", "subsets", "ends"),
    [
        (Top(), "aabb", (0.5, 0.5)),
        (Top(1), "aabb", (0.8, 0.8)),
        (Top(), "abab", (0.5, 0.8)),
        (Top(2), "aaab", (0.5, 0.8)),
    ],
)
def test_an_interval_of_two_searches_resamples_subsets_and_applies_the_rule(
    top: Top, subsets: str, ends: tuple[float, float]
) -> None:
    validation = np.repeat([[0.9, 0.1, 0.9, 0.1], [0.6, 0.6, 0.6, 0.6]], 8, axis=0)
    test = np.repeat([[0.8, 0.8, 0.8, 0.8], [0.5, math.nan, 0.5, 0.5]], 8, axis=0)
    base = SearchScores(validation, np.zeros(test.shape), Top())
    assert search_interval(SearchScores(validation, test, top), base, subsets) == pytest.approx(
        ends
    )


@pytest.mark.parametrize(("configurations", "seeds"), [(1, 10), (3, 1)])
def test_one_configuration_or_one_pair_gives_no_interval_of_searches(
    configurations: int, seeds: int
) -> None:
    some = searched([0.5] * configurations, seeds=seeds)
    assert search_interval(some, searched([0.5] * 3, seeds=seeds)) is None


@pytest.mark.parametrize(
    ("difference", "shown"), [(0.0142, "1.4"), (0.25, "25.0"), (0.0004, "under 0.1")]
)
def test_a_difference_is_shown_in_points(difference: float, shown: str) -> None:
    assert in_points(difference) == shown
