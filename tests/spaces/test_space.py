"""Tests of a space: grid, size, settings, specifications and conditions."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.spaces.space import Choice, Parameter, Range, Space, active

PROBE = {
    "mode": Choice(("eval", "train")),
    "tau": Choice((0.1, 0.3)),
    "rate": Choice((1e-3, 1e-2), when={"mode": ("eval",)}),
    "steps": Choice((1, 2, 3), when={"rate": (1e-2,)}),
}


def space(
    parameters: Mapping[str, Parameter], *published: Mapping[str, object], **fixed: object
) -> Space:
    return Space("scl", "a paper", parameters, published, fixed, "mine.yaml")


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Draw choices, some with a condition on an earlier one, and published points."""
    parameters: dict[str, Parameter] = {}
    for name in "abcd"[: draw(st.integers(0, 4))]:
        when: dict[str, tuple[object, ...]] = {}
        conditional = draw(st.booleans())
        if parameters and conditional:
            key = draw(st.sampled_from(sorted(parameters)))
            condition = parameters[key]
            assert isinstance(condition, Choice)
            chosen = draw(st.lists(st.sampled_from(condition.values), min_size=1, unique=True))
            when = {key: tuple(chosen)}
        values = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True))
        parameters[name] = Choice(tuple(values), when)
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
    for name, parameter in after.parameters.items():
        earlier = list(after.parameters)[: list(after.parameters).index(name)]
        assert set(parameter.when) <= set(earlier)


@given(spaces(), SETTINGS)
def test_applying_settings_twice_changes_nothing(
    base: Space, settings: Mapping[str, object]
) -> None:
    once = base.with_settings(settings)
    assert once.with_settings(settings) == once


def test_the_start_is_published_only_without_settings_in_a_papers_space() -> None:
    base = space(PROBE, {"mode": "train", "tau": 0.1})
    assert base.with_settings({}).start == "published"
    assert base.with_settings({"epochs": 3}).start == "start"
    assert base.with_settings({"epochs": 3}).with_settings({}).start == "start"
    assert replace(base, practical=True).start == "start"


def test_a_setting_that_decides_a_condition_keeps_or_removes_the_parameter() -> None:
    always = space(PROBE).with_settings({"mode": "eval"})
    assert list(always.parameters) == ["tau", "rate", "steps"]
    assert always.parameters["rate"].when == {}
    assert always.parameters["steps"].when == {"rate": (1e-2,)}
    never = space(PROBE).with_settings({"mode": "train"})
    assert list(never.parameters) == ["tau"]


def test_settings_remove_published_configurations_that_lack_a_searched_value() -> None:
    base = space(PROBE, {"mode": "train", "tau": 0.1}, {"mode": "eval", "tau": 0.3, "rate": 1e-3})
    assert base.with_settings({"mode": "eval"}).published == ({"tau": 0.3, "rate": 1e-3},)


def test_sizes_count_conditions_and_steps() -> None:
    assert space(PROBE).size() == 2 * (1 + 1 + 3)
    assert space({}).size() == 1
    assert space({**PROBE, "epochs": Range(2, 10, "int", 4)}).size() == 10 * 3
    assert space({**PROBE, "lam": Range(0.0, 1.0, "float")}).size() is None


def test_a_grid_over_a_range_is_refused_with_its_name() -> None:
    base = space({**PROBE, "lam": Range(0.0, 1.0, "float")})
    with pytest.raises(SclsearchError, match=r"^--sampler grid: .* lam in mine\.yaml is a range"):
        base.grid()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"mode": "eval", "tau": 0.1}, ("rate", "is missing")),
        ({"mode": "train"}, ("tau", "is missing")),
        (
            {"mode": "train", "tau": 0.2},
            ("tau", "must be one of 0.1, 0.3, got 0.2"),
        ),
        (
            {"mode": "train", "tau": 0.1, "rate": 1e-2},
            ("rate", "must be left out where its `when` is false"),
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
    "int": Range(3, 9, "int", 3, when={"mode": ("eval",)}),
}


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("choice", (0.1, "mean", [0.0, 0.1], (0, 0.1)), (0.2, "max", (0.1,), True)),
        ("float", (0.0, 0.1, 0.2, 0), (-0.1, 0.21, False, "0.1", None, math.nan)),
        ("log", (1e-5, 5e-4, 1e-3), (0.0, 9e-6, 2e-3)),
        ("int", (3, 6, 9, 6.0), (2, 4, 12, 6.5, True, math.nan, math.inf)),
    ],
)
def test_a_parameter_contains_its_values_and_no_others(
    name: str, inside: tuple[object, ...], outside: tuple[object, ...]
) -> None:
    parameter = PARAMETERS[name]
    assert [value for value in inside if not parameter.contains(value)] == []
    assert [value for value in outside if parameter.contains(value)] == []


def test_different_parameters_have_different_specs() -> None:
    changed = [
        *PARAMETERS.values(),
        Choice((0.1, "mean")),
        Range(0.0, 0.3, "float"),
        Range(1e-5, 1e-3, "float"),
        Range(3, 9, "int", when={"mode": ("eval",)}),
        Range(3, 9, "int", 3, when={"mode": ("train",)}),
        Range(3, 9, "int", 3),
    ]
    assert len({canonical(parameter.spec()) for parameter in changed}) == len(changed)


def test_a_parameter_has_a_readable_text() -> None:
    assert [str(parameter) for parameter in PARAMETERS.values()] == [
        "one of 0.1, 'mean', (0.0, 0.1)",
        "from 0.0 to 0.2",
        "from 1e-05 to 0.001",
        "whole, from 3 to 9 in steps of 3",
    ]


def test_a_parameter_is_active_if_every_condition_has_one_of_its_values() -> None:
    parameter = Choice((1,), when={"mode": ("eval", "train"), "views": ((0.0, 0.1),)})
    assert active(parameter, {"mode": "train", "views": [0.0, 0.1]})
    assert not active(parameter, {"mode": "train", "views": (0.1, 0.1)})
    assert not active(parameter, {"mode": "off", "views": (0.0, 0.1)})
    assert not active(parameter, {"mode": "train"})
