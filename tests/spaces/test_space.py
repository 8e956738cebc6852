"""Tests of a space: grid, size, settings and specifications."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.spaces.space import Choice, Parameter, Range, Space

PROBE = {"mode": Choice(("eval", "train")), "tau": Choice((0.1, 0.3))}


def space(
    parameters: Mapping[str, Parameter], *published: Mapping[str, object], **fixed: object
) -> Space:
    return Space("scl", "a paper", parameters, published, fixed, "mine.yaml")


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Draw choices and published points."""
    parameters: dict[str, Parameter] = {}
    for name in "abcd"[: draw(st.integers(0, 4))]:
        values = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True))
        parameters[name] = Choice(tuple(values))
    points = list(space(parameters).grid())
    return space(parameters, *draw(st.lists(st.sampled_from(points), max_size=3)), batch_size=16)


SETTINGS = st.dictionaries(st.sampled_from("abcdx"), st.integers(0, 5), max_size=3)


@given(spaces())
def test_a_grid_has_each_configuration_exactly_once_with_the_last_parameter_fastest(
    base: Space,
) -> None:
    points = list(base.grid())
    assert all(base.contains(values) for values in points)
    choices = [one for one in base.parameters.values() if isinstance(one, Choice)]
    ranks = [
        [choice.values.index(value) for choice, value in zip(choices, point.values(), strict=True)]
        for point in points
    ]
    assert ranks == sorted(ranks)
    assert len({canonical(values) for values in points}) == len(points) == base.size()


@given(spaces(), SETTINGS)
def test_settings_are_fixed_and_leave_a_valid_space(
    base: Space, settings: Mapping[str, object]
) -> None:
    after = base.with_settings(settings)
    assert after.fixed == {"batch_size": 16, **settings}
    assert not after.parameters.keys() & after.fixed.keys()
    assert all(after.contains(values) for values in after.published)
    assert len({canonical(values) for values in after.published}) == len(after.published)
    assert after.with_settings({}).start == ("start" if settings else "published")


def test_a_range_has_no_size_and_no_grid() -> None:
    base = space({**PROBE, "lam": Range(0.0, 1.0, "float")})
    assert base.size() is None
    with pytest.raises(SclsearchError, match=r"^--sampler grid: .* lam in mine\.yaml is a range"):
        base.grid()


def test_a_spec_depends_only_on_parameters_published_and_fixed_values() -> None:
    base = space(PROBE, {"mode": "train", "tau": 0.1}, batch_size=16)
    elsewhere = Space("scl", "another", base.parameters, base.published, base.fixed, "b.yaml")
    assert elsewhere.spec() == base.spec()
    others = [
        space(dict(reversed(PROBE.items())), *base.published, batch_size=16),
        space(PROBE, batch_size=16),
        space(PROBE, *base.published, batch_size=32),
        base.with_settings({"tau": 0.1}),
    ]
    assert all(canonical(other.spec()) != canonical(base.spec()) for other in others)


@pytest.mark.parametrize(
    ("parameter", "inside", "outside"),
    [
        (Choice((1, "mean", (0.0, 0.1))), (1.0, "mean", [0.0, 0.1]), (0.2, "max", (0.1,), True)),
        (Range(0.0, 0.2, "float"), (0.0, 0.2, 0), (-0.1, 0.21, False, "0.1", None, math.nan)),
        (Range(1e-5, 1e-3, "log"), (1e-5, 1e-3), (0.0, 9e-6, 2e-3)),
    ],
)
def test_a_parameter_contains_its_values_and_no_others(
    parameter: Parameter, inside: tuple[object, ...], outside: tuple[object, ...]
) -> None:
    assert [value for value in inside if not parameter.contains(value)] == []
    assert [value for value in outside if parameter.contains(value)] == []
