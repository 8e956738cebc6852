"""Parameters hold what they say, tell bools from numbers, and write themselves as JSON."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import canonical
from sclsearch.spaces.space import Choice, Parameter, Range, active, same

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


def test_the_number_of_values_is_counted() -> None:
    sizes = {name: parameter.size() for name, parameter in PARAMETERS.items()}
    assert sizes == {"choice": 3, "float": math.inf, "log": math.inf, "int": 3}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_spec_is_what_json_would_read_back(name: str) -> None:
    spec = PARAMETERS[name].spec()
    assert json.loads(canonical(spec)) == spec


def test_specs_tell_all_parameters_apart() -> None:
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


def test_a_parameter_reads_as_words() -> None:
    assert [str(parameter) for parameter in PARAMETERS.values()] == [
        "one of 0.1, 'mean', (0.0, 0.1)",
        "from 0.0 to 0.2",
        "from 1e-05 to 0.001",
        "whole, from 3 to 9 in steps of 3",
    ]


def test_a_condition_holds_where_every_other_parameter_has_one_of_its_values() -> None:
    parameter = Choice((1,), when={"mode": ("eval", "train"), "views": ((0.0, 0.1),)})
    assert active(parameter, {"mode": "train", "views": [0.0, 0.1]})
    assert not active(parameter, {"mode": "train", "views": (0.1, 0.1)})
    assert not active(parameter, {"mode": "off", "views": (0.0, 0.1)})
    assert not active(parameter, {"mode": "train"})


@given(st.recursive(st.integers() | st.text(), st.lists, max_leaves=5))
def test_a_list_means_the_same_as_its_tuple(value: object) -> None:
    def as_tuple(thing: object) -> object:
        return tuple(map(as_tuple, thing)) if isinstance(thing, list) else thing

    assert same(value, as_tuple(value))
    assert not same(value, [value])
