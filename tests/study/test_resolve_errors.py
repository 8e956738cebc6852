"""Tests of the errors of invalid study options."""

from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from tests.workspace import MakeSpec, Prepare, Resolved, WriteSpace

ERRORS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "a size on full data",
        {"train_size": 20, "protocol": "gunel-full"},
        {},
        "--protocol gunel-full: trains on all rows, got a training size. Leave out the size, or "
        "pass --protocol gunel-fewshot.",
    ),
    (
        "few shots without a size",
        {"protocol": "gunel-fewshot"},
        {},
        "--protocol gunel-fewshot: needs a training size. Pass --train-size N",
    ),
    (
        "set out of bounds",
        {"settings": {"lam": 1.5, "tau": 0}},
        {},
        "--set lam: must be at most 1, got 1.5\n--set tau: must be greater than 0, got 0",
    ),
    (
        "few seeds",
        {"shots": 5},
        {"seeds": 2},
        "--seeds: rule top-3 needs at least 3, got 2. Pass more --seeds, or another",
    ),
    (
        "grid over a range",
        {"sampler": "grid"},
        {},
        "--sampler grid: needs choices, but learning_rate in",
    ),
    (
        "seed of a grid",
        {"sampler": "grid", "search_seed": 5, "settings": {"learning_rate": 1e-3}},
        {},
        "--search-seed 5: has no effect on --sampler grid",
    ),
]


@pytest.mark.parametrize(
    ("spec", "options", "message"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS]
)
def test_an_invalid_option_is_an_error_with_advice(
    make_spec: MakeSpec,
    prepare: Prepare,
    spec: dict[str, Any],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(SclsearchError) as raised:
        prepare(make_spec(**spec), **{"seeds": None, **options})
    assert message in str(raised.value)


def test_max_length_may_be_a_choice_but_not_a_range(
    resolved: Resolved, write_space: WriteSpace
) -> None:
    head = "method: scl\nsource: a test\npublished: []\nspace:\n"
    choice = write_space(f"{head}  max_length: {{type: choice, values: [32, 16]}}\n")
    assert {16, 32} <= {*resolved(space=choice).lengths()}
    assert resolved(space=choice, settings={"max_length": 8}).lengths() == (8,)
    whole = write_space(f"{head}  max_length: {{type: float, low: 8, high: 16}}\n")
    with pytest.raises(SclsearchError, match=r"space.max_length: must be a valid integer, got 8.0"):
        resolved(space=whole)
