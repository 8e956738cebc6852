"""Histograms of seed scores share an axis and appear only where they add information."""

import pytest

from sclsearch.reports.strips import WIDTH, axis, strip


def test_each_seed_is_in_the_bin_of_its_score() -> None:
    assert strip([0.0, 0.05, 0.5, 1.0], 0.0, 1.0) == "▄    ▂    ▂"
    assert strip([0.0] * 9, 0.0, 1.0) == "█" + " " * (WIDTH - 1)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], (0.1, 0.6)),
        ([[0.1, 0.2, 0.3], [0.4, 0.5]], None),
        ([[0.5] * 3, [0.5] * 3], None),
        ([], None),
    ],
)
def test_an_axis_needs_several_seeds_of_several_configurations(
    scores: list[list[float]], expected: tuple[float, float] | None
) -> None:
    assert axis(scores) == expected
