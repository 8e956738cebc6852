"""Configurations are ranked by their seeds; a seed that failed counts as the worst there is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.selection.ranking import Ranked, mean_std, rank, reported, score
from sclsearch.selection.rules import Rule, Top, parse_rule

FIGURES = st.lists(st.none() | st.floats(-1, 1), min_size=4, max_size=4)


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


def test_configurations_are_ranked_by_score_and_the_earlier_is_first_among_equals() -> None:
    figures: list[list[float | None]] = [[0.5, 0.5], [0.9, 0.3], [0.4, 0.6], [None, 0.9]]
    ranked = rank(parse_rule("mean"), figures, 0.0)
    assert [one.number for one in ranked] == [1, 0, 2, 3]
    assert ranked[0] == Ranked(1, 0.6, 0)
    assert ranked[-1] == Ranked(3, 0.45, 1)


@given(st.lists(FIGURES, max_size=8), st.sampled_from(["mean", "best", "top-2"]))
def test_a_ranking_holds_every_configuration_once_with_falling_scores(
    figures: list[list[float | None]], name: str
) -> None:
    rule = parse_rule(name)
    ranked = rank(rule, figures, -1.0)
    assert sorted(one.number for one in ranked) == list(range(len(figures)))
    places = [(-one.score, one.number) for one in ranked]
    assert places == sorted(places)
    for one in ranked:
        assert one.score == score(rule, figures[one.number], -1.0)
        assert one.failed == figures[one.number].count(None)


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
