"""Tests that seeds depend on their arguments only, in every process and version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.randomness import seed_for, stream

ARGUMENTS = st.tuples(st.integers(-(2**70), 2**70), st.text("abc1/τ"))


@pytest.mark.parametrize(
    ("seed", "purpose", "expected"),
    [
        (0, "order", 5_231_958_647_509_549_229),
        (1, "order", 620_558_406_644_582_515),
        (0, "", 1_151_662_994_310_453_691),
        (-1, "τ", 2_919_109_330_901_963_349),
    ],
)
def test_seeds_equal_those_of_earlier_versions(seed: int, purpose: str, expected: int) -> None:
    assert seed_for(seed, purpose) == expected


@given(one=ARGUMENTS, other=ARGUMENTS)
def test_seeds_are_below_2_63_and_differ_for_different_arguments(
    one: tuple[int, str], other: tuple[int, str]
) -> None:
    assert 0 <= seed_for(*one) < 2**63
    assert (seed_for(*one) == seed_for(*other)) == (one == other)


def test_streams_equal_those_of_earlier_versions_whatever_others_have_drawn() -> None:
    stream(0, "noise").random(100)
    assert stream(3, "order").integers(0, 1000, 5).tolist() == [175, 630, 65, 434, 468]
