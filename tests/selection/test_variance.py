"""Tests of the variance decomposition by subset, initialization and order."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Replicate, all_seeds
from sclsearch.randomness import stream
from sclsearch.selection.variance import (
    SOURCES,
    TOO_FEW_LEVELS,
    Observation,
    VarianceDecomposition,
    components,
    design,
)

LEVELS = st.lists(st.integers(1, 4), min_size=3, max_size=3).filter(
    lambda counts: sum(count > 1 for count in counts) > 1
)
STDS = {"subset": 0.02, "initialization": 0.01, "order": 0.0, "residual": math.sqrt(2) * 0.01}
FEW = settings(max_examples=30)


def observed(scores: np.ndarray) -> list[Observation]:
    cells = product(*map(range, scores.shape))
    return [Observation(s, i, o, float(scores[s, i, o])) for s, i, o in cells]


def simulated(seed: int, levels: int) -> VarianceDecomposition:
    """Return a crossing with the deviations STDS; half the residual is subset × initialization."""
    random = stream(seed, "simulated")
    subset = random.normal(0, STDS["subset"], (levels, 1, 1))
    initialization = random.normal(0, STDS["initialization"], (1, levels, 1))
    both = random.normal(0, 0.01, (levels, levels, 1))
    residual = random.normal(0, 0.01, (levels, levels, levels))
    return components(observed(0.8 + subset + initialization + both + residual))


@pytest.fixture(scope="module")
def spreads() -> list[VarianceDecomposition]:
    """Return crossings of four levels each."""
    return [simulated(seed, 4) for seed in range(150)]


def by_pairs(observations: list[Observation]) -> dict[str, float]:
    """Return the same estimates from pairs of runs.

    Take the pairs that differ in exactly some sources: half their mean squared difference is the
    total variance minus the variance of the shared sources.
    """
    halves: dict[frozenset[str], list[float]] = {}
    for one, other in product(observations, repeat=2):
        assert one.score is not None
        assert other.score is not None
        differ = frozenset(s for s in SOURCES if getattr(one, s) != getattr(other, s))
        halves.setdefault(differ, []).append((one.score - other.score) ** 2 / 2)
    means = {differ: float(np.mean(values)) for differ, values in halves.items()}
    varied = frozenset().union(*means)
    found = {source: means[varied] - means[varied - {source}] for source in sorted(varied)}
    total = means[varied]
    return {**found, "residual": total - sum(found.values()), "total": total}


def estimates(spread: VarianceDecomposition) -> dict[str, float]:
    return {s: c.estimate for s, c in spread.components.items()} | {"total": spread.total.estimate}


def test_a_two_by_two_table_matches_the_decomposition_by_hand() -> None:
    # Mean squares: 9 of the initializations, 1 of the orders, 0.25 of both.
    spread = components(observed(np.array([[[0.0, 1.5], [3.5, 4.0]]])))
    assert estimates(spread) == pytest.approx(
        {"initialization": 4.375, "order": 0.375, "residual": 0.25, "total": 5.0}
    )
    assert (spread.runs, spread.mean) == (4, 2.25)
    assert spread.share("initialization") == pytest.approx(0.875)
    assert spread.notes == (TOO_FEW_LEVELS,)  # scores are between 0 and 1


def test_an_estimate_below_zero_counts_as_zero_and_is_noted() -> None:
    # Mean squares: 1 of the initializations, 0 of the orders, 4 of both.
    spread = components(observed(np.array([[[1.5, -0.5], [-1.5, 0.5]]])))
    assert estimates(spread)["initialization"] == pytest.approx(-1.5)
    assert estimates(spread)["order"] == pytest.approx(-2.0)
    assert [c.variance for c in spread.components.values()] == [0, 0, 4]
    assert spread.share("residual") == 1
    assert spread.notes == (
        "initialization: the estimate is -1.5, below 0, and counts as 0",
        "order: the estimate is -2, below 0, and counts as 0",
        TOO_FEW_LEVELS,
    )


def test_many_levels_and_rounding_errors_need_no_note() -> None:
    levels = np.add.outer(np.arange(6), np.arange(6))[None] / 100
    assert components(observed(levels)).notes == ()


@FEW
@given(LEVELS, st.integers(0, 1000))
def test_estimates_equal_those_from_pairs_of_runs(counts: list[int], seed: int) -> None:
    observations = observed(stream(seed, "scores").normal(size=counts))
    assert estimates(components(observations)) == pytest.approx(by_pairs(observations), abs=1e-9)


@pytest.mark.slow
def test_intervals_have_at_least_the_stated_coverage(spreads: list[VarianceDecomposition]) -> None:
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(spreads))
    for source, std in STDS.items():
        ends = np.array([spread.components[source].interval for spread in spreads])
        assert np.mean((ends[:, 0] <= std**2) & (std**2 <= ends[:, 1])) > least
    low, high = np.array([spread.total.interval for spread in spreads]).T
    truth = sum(std**2 for std in STDS.values())
    assert np.mean((low <= truth) & (truth <= high)) > least
    assert np.mean(low) > truth / 4  # the intervals are not trivially wide


def test_equal_scores_have_no_spread() -> None:
    spread = components(observed(np.full((3, 2, 2), 0.75)))
    assert spread.total.variance == 0
    assert [spread.share(source) for source in spread.components] == [0, 0, 0, 0]
    assert spread.detectable(6) == (0, 0, 0)


def test_missing_failed_and_duplicate_cells_are_named_together() -> None:
    observations = observed(np.zeros((2, 2, 2)))
    failed = replace(observations[1], score=None)
    with pytest.raises(SclsearchError) as raised:
        components([failed, *observations[2:], observations[7]])
    assert [line.split(" Train")[0] for line in str(raised.value).splitlines()] == [
        f"subset {s}, initialization {i}, order {o}: must have one finished seed run, got {count}."
        for s, i, o, count in [(0, 0, 0, 0), (0, 0, 1, 0), (1, 1, 1, 2)]
    ]


def test_a_failed_run_that_was_repeated_is_ignored() -> None:
    observations = observed(np.zeros((1, 2, 2)))
    repeated = [*observations, replace(observations[0], score=None)]
    assert components(repeated) == components(observations)


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 1, 1)], ids=["one source", "none"])
def test_fewer_than_two_sources_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SclsearchError, match=r"at least two of subset, initialization, order"):
        components(observed(np.zeros(shape)))
    with pytest.raises(SclsearchError, match=r"at least two of subset, initialization, order"):
        design(dict(zip(SOURCES, shape, strict=True)))


@given(LEVELS)
def test_a_design_has_one_replicate_per_cell(counts: list[int]) -> None:
    replicates = [Replicate(**seeds) for seeds in design(dict(zip(SOURCES, counts, strict=True)))]
    cells = [(one.subset, one.initialization, one.order) for one in replicates]
    assert sorted(cells) == sorted(product(*map(range, counts)))
    assert [one.number for one in replicates] == list(range(len(cells)))
    assert all(one.noise == one.order for one in replicates)


def test_the_diagonal_of_a_design_equals_the_replicates_of_a_search() -> None:
    cells = [Replicate(**seeds) for seeds in design({"initialization": 3, "order": 3, "subset": 3})]
    for number in range(3):
        assert any(replace(cell, number=number) == all_seeds(number) for cell in cells)


def test_every_error_of_a_design_is_named() -> None:
    with pytest.raises(SclsearchError) as raised:
        design({"ordr": 3, "subset": 0, "initialization": 4})
    first, second = str(raised.value).splitlines()
    assert first.startswith("levels.ordr: unknown source. Did you mean 'order'?")
    assert second.startswith("levels.subset: must be at least 1, got 0.")
