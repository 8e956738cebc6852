"""Tests of a space: grid, size, settings and specifications."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.spaces.space import Choice, Parameter, Range, Space

PROBE = {
    "mode": Choice(("eval", "train")),
    "tau": Choice((0.1, 0.3)),
}


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
def test_a_grid_has_each_configuration_exactly_once(base: Space) -> None:
    points = [canonical(values) for values in base.grid()]
    assert len(points) == len(set(points)) == base.size()
    assert all(base.contains(values) for values in base.grid())


@given(spaces())
def test_a_grid_is_in_lexicographic_order(base: Space) -> None:
    def rank(values: Mapping[str, object]) -> list[int]:
        return [
            parameter.values.index(values[name]) if name in values else -1
            for name, parameter in base.parameters.items()
            if isinstance(parameter, Choice)
        ]

    assert all(rank(one) < rank(next_one) for one, next_one in pairwise(base.grid()))


@given(spaces(), SETTINGS)
def test_settings_are_fixed_and_leave_a_valid_space(
    base: Space, settings: Mapping[str, object]
) -> None:
    after = base.with_settings(settings)
    assert after.fixed == {"batch_size": 16, **settings}
    assert not after.parameters.keys() & after.fixed.keys()
    assert all(after.contains(values) for values in after.published)
    assert len({canonical(values) for values in after.published}) == len(after.published)


def test_the_start_is_published_only_without_settings_in_a_papers_space() -> None:
    base = space(PROBE, {"mode": "train", "tau": 0.1})
    assert base.with_settings({}).start == "published"
    assert base.with_settings({"epochs": 3}).start == "start"
    assert base.with_settings({"epochs": 3}).with_settings({}).start == "start"
    assert replace(base, practical=True).start == "start"


def test_the_size_is_the_number_of_configurations() -> None:
    assert space(PROBE).size() == 4
    assert space({}).size() == 1
    assert space({**PROBE, "lam": Range(0.0, 1.0, "float")}).size() is None


def test_a_grid_over_a_range_is_refused_with_its_name() -> None:
    base = space({**PROBE, "lam": Range(0.0, 1.0, "float")})
    with pytest.raises(SclsearchError, match=r"^--sampler grid: .* lam in mine\.yaml is a range"):
        base.grid()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"mode": "train"}, ("tau", "is missing")),
        (
            {"mode": "train", "tau": 0.2},
            ("tau", "must be one of 0.1, 0.3, got 0.2"),
        ),
        (
            {"mode": "train", "tau": 0.1, "lam": 1},
            ("lam", "is neither in `space` nor in `fixed`"),
        ),
        (
            {"mode": "train", "tau": 0.1, "batch_size": 8},
            ("batch_size", "must be 16 as in `fixed`, got 8"),
        ),
    ],
)
def test_an_invalid_configuration_is_reported_with_its_parameter(
    values: Mapping[str, object], error: tuple[str, str]
) -> None:
    assert space(PROBE, batch_size=16).field_errors(values) == [error]
    assert space(PROBE, batch_size=16).contains({"mode": "train", "tau": 0.1, "batch_size": 16})


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


PARAMETERS: dict[str, Parameter] = {
    "choice": Choice((0.1, "mean", (0.0, 0.1))),
    "float": Range(0.0, 0.2, "float"),
    "log": Range(1e-5, 1e-3, "log"),
}


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("choice", (0.1, "mean", [0.0, 0.1], (0, 0.1)), (0.2, "max", (0.1,), True)),
        ("float", (0.0, 0.1, 0.2, 0), (-0.1, 0.21, False, "0.1", None, math.nan)),
        ("log", (1e-5, 5e-4, 1e-3), (0.0, 9e-6, 2e-3)),
    ],
)
def test_a_parameter_contains_its_values_and_no_others(
    name: str, inside: tuple[object, ...], outside: tuple[object, ...]
) -> None:
    parameter = PARAMETERS[name]
    assert [value for value in inside if not parameter.contains(value)] == []
    assert [value for value in outside if parameter.contains(value)] == []


def test_a_parameter_has_a_readable_text() -> None:
    assert [str(parameter) for parameter in PARAMETERS.values()] == [
        "one of 0.1, 'mean', (0.0, 0.1)",
        "from 0.0 to 0.2",
        "from 1e-05 to 0.001",
    ]
