"""Tests of paired comparisons: p-values, intervals, Holm's procedure and two searches."""

import math
from collections.abc import Hashable, Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.selection.rules import Top
from sclsearch.selection.significance import (
    Comparison,
    SearchScores,
    compare,
    holm,
    search_interval,
    smallest_p,
)

P_VALUES = st.lists(st.floats(0, 1), max_size=6)


def test_a_small_example_matches_the_calculation_by_hand() -> None:
    comparison = compare([0.75, 0.5, None, 1.0, 0.25], [0.5, 0.5, 0.75, 0.5, None])
    assert (comparison.n, comparison.n_missing, comparison.n_equal) == (3, 2, 1)
    assert comparison.difference == 0.25
    assert comparison.std == 0.25
    assert comparison.p == comparison.p_wilcoxon == 0.5  # both unequal pairs are positive: 2 / 2^2
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


def test_scores_without_a_finished_pair_are_refused() -> None:
    for scores in ([], [None, 0.5]):
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


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_with_ties_wilcoxons_p_is_the_share_of_equally_extreme_sign_patterns(
    differences: list[int],
) -> None:
    from scipy.stats import rankdata

    unequal = np.array([difference for difference in differences if difference])
    ranks = rankdata(np.abs(unequal)) if len(unequal) else np.zeros(0)
    signs = np.array([[i >> bit & 1 for bit in range(len(ranks))] for i in range(2 ** len(ranks))])
    sums = signs @ ranks  # of the positive ranks, over all signs
    positive = ranks[unequal > 0].sum()
    expected = 2 * min(np.mean(sums <= positive), np.mean(sums >= positive))
    comparison = compare([difference / 100 for difference in differences], [0.0] * len(differences))
    assert comparison.p_wilcoxon == pytest.approx(min(1.0, expected), rel=1e-12)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_p_is_the_share_of_sign_patterns_with_a_mean_as_far_from_0(differences: list[int]) -> None:
    patterns = product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(p, differences, strict=True))) for p in patterns]
    expected = sum(one >= abs(sum(differences)) for one in sums) / len(sums)
    scores = [difference / 100 for difference in differences]
    assert compare(scores, [0.0] * len(scores)).p == pytest.approx(expected)


@given(st.lists(st.integers(-9, 9), min_size=6, max_size=9, unique=True), st.floats(-0.3, 0.3))
def test_the_interval_has_the_means_that_the_test_does_not_reject(
    differences: list[int], center: float
) -> None:
    scores = [difference / 10 for difference in differences]
    low, high = compare(scores, [0.0] * len(scores)).interval or (0.0, 0.0)
    moved = compare([score - center for score in scores], [0.0] * len(scores))
    if min(abs(center - low), abs(center - high)) > 1e-6:
        assert (moved.p > 0.05) == (low < center < high)


def test_random_signs_of_many_pairs_approximate_the_exact_test() -> None:
    from scipy.stats import permutation_test

    differences = stream(0, "many pairs").normal(0.3, 1, 16)
    expected = permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=2**16
    )
    assert compare(differences.tolist(), [0.0] * 16).p == pytest.approx(expected.pvalue, abs=0.01)


def test_differences_that_are_equal_up_to_rounding_are_ties() -> None:
    assert 0.5 - 0.48 != 0.57 - 0.55
    a, b = [0.5, 0.55, 0.9], [0.48, 0.57, 0.8]
    one, other = compare(a, b), compare([2, -2, 10], [0, 0, 0])
    assert one.p_wilcoxon == other.p_wilcoxon == 0.75
    assert one.p == other.p
    assert compare([*a, 0.1 + 0.2], [*b, 0.3]).n_equal == 1


def test_students_interval_of_five_pairs_equals_scipys() -> None:
    from scipy.stats import ttest_1samp

    scores = [0.1, 0.3, 0.2, 0.5, 0.4]
    expected = ttest_1samp(scores, 0.0).confidence_interval(0.95)
    assert compare(scores, [0.0] * 5).interval == pytest.approx((expected.low, expected.high))


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


def searched(means: list[float], spread: float = 0.01, seeds: int = 10) -> SearchScores:
    draw = stream(len(means), "a search")
    scores = np.array(means)[:, None] + spread * draw.normal(size=(len(means), seeds))
    return SearchScores(scores, scores, np.ones(scores.shape, bool), Top())


def between(
    a: SearchScores, b: SearchScores, subsets: Sequence[Hashable] = range(10)
) -> tuple[float, float] | None:
    unequal = Comparison(len(subsets), 0, 0, 0.0, None, None, 1.0, 1.0)
    return search_interval(unequal, a, b, subsets)


def test_an_interval_of_two_searches_includes_the_uncertainty_of_the_winners() -> None:
    flat, lucky = searched([0.5] * 8), searched([0.5] * 7 + [0.6])
    low, high = between(lucky, flat) or (math.nan, math.nan)
    assert low < 0.02 < 0.09 < high < 0.12  # without the lucky configuration, and with it
    certain, _ = between(searched([0.6] * 8), flat) or (math.nan, math.nan)
    assert certain > 0.08


@pytest.mark.parametrize(
    ("top", "subsets", "ends"),
    [
        (Top(), "aabbcc", None),  # all resamples have one winner
        (Top(), "ababcc", (0.5, 0.8)),
        (Top(3), "aaabcc", (0.5, 0.8)),
    ],
)
def test_an_interval_of_two_searches_resamples_subsets_and_applies_the_rule(
    top: Top, subsets: str, ends: tuple[float, float] | None
) -> None:
    validation = np.repeat([[0.9, 0.1, 0.9, 0.1, 0.9, 0.1], [0.6] * 6], 8, axis=0)
    test = np.repeat([[0.8] * 6, [0.5, math.nan, 0.5, 0.5, 0.5, 0.5]], 8, axis=0)
    trained = np.ones(test.shape, bool)
    base = SearchScores(validation, np.zeros(test.shape), trained, Top())
    found = between(SearchScores(validation, test, trained, top), base, subsets)
    assert found == (None if ends is None else pytest.approx(ends))


def test_skipped_seed_runs_are_estimated_from_the_finished_configurations() -> None:
    finished, some = [0.5, 0.7, 0.6], [0.4, math.nan, math.nan]
    scores = np.array([finished, some])
    search = SearchScores(scores, scores, ~np.isnan(scores), Top())
    assert search.filled(scores)[1] == pytest.approx([0.4, 0.6, 0.5])
