"""A configuration is worth what its seeds are; one that failed counts as the worst there is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.selection.ranking import mean_std, reported, score
from sclsearch.selection.rules import Rule, Top, parse_rule


@pytest.mark.parametrize(
    ("rule", "figures", "minimum", "expected"),
    [
        ("mean", [0.6, None, 0.9], 0.0, 0.5),
        ("mean", [0.6, None, 0.4], -1.0, 0.0),
        ("best", [0.6, None, 0.9], -1.0, 0.9),
        ("top-2", [None, 0.5, None], -1.0, -0.25),
        ("mean", [None, None], -1.0, -1.0),
        ("mean/best", [0.2, 0.4], 0.0, 0.3),
    ],
)
def test_a_failed_seed_counts_as_the_minimum(
    rule: str, figures: list[float | None], minimum: float, expected: float
) -> None:
    assert score(parse_rule(rule), figures, minimum) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("report", "seeds"),
    [(Top(), (4, 1, 3)), (Top(1), (4,)), (Top(2), (4, 1)), (Top(5), (4, 1, 3))],
    ids=str,
)
def test_failed_seeds_are_not_reported(report: Top, seeds: tuple[int, ...]) -> None:
    assert reported(Rule(Top(), report), [None, 0.5, None, 0.5, 0.7]) == seeds


def test_of_failed_seeds_alone_nothing_is_reported() -> None:
    assert reported(parse_rule("mean"), [None, None]) == ()


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
def test_mean_and_deviation_are_numpys_of_a_sample(figures: list[float]) -> None:
    mean, deviation = mean_std(figures)
    assert mean == pytest.approx(np.mean(figures), abs=1e-12)
    assert deviation == pytest.approx(np.std(figures, ddof=1), abs=1e-12)


def test_one_figure_has_no_deviation() -> None:
    assert mean_std([0.25]) == (0.25, None)
