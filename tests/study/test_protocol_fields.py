"""A protocol sets a method's own fields where the method has them, and nowhere else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.methods.fields import field_types
from sclsearch.study.study import FieldDefault, Study

Resolved = Callable[..., Study]
WriteSpace = Callable[[str], Path]

NOTHING_SEARCHED = "source: a test\npublished: []\nspace: {}\n"
FEW = {"protocol": "cmlm-fewshot", "train_size": 20}


@pytest.fixture(scope="module")
def of(write_space: WriteSpace) -> Callable[..., dict[str, Any]]:
    """Returns what makes the options of a method with a space of no parameters."""

    def of(method: str, fixed: str = "{}") -> dict[str, Any]:
        text = f"method: {method}\n{NOTHING_SEARCHED}fixed: {fixed}\n"
        return {"method": method, "space": write_space(text)}

    return of


@pytest.mark.parametrize("method", ["cmlm", "tapt"])
def test_a_few_shot_protocol_sets_the_epochs_of_both_phases_above_the_space(
    resolved: Resolved, of: Callable[..., dict[str, Any]], method: str
) -> None:
    defaults = resolved(**of(method, "{epochs: 2, post_epochs: 4}"), **FEW).defaults
    assert defaults["epochs"] == FieldDefault(350, "protocol")
    assert defaults["post_epochs"] == FieldDefault(200, "protocol")
    by_hand = resolved(**of(method), **FEW, settings={"post_epochs": 7}).defaults
    assert by_hand["post_epochs"] == FieldDefault(7, "--set")


def test_a_method_without_the_field_is_left_as_it_is(
    resolved: Resolved, of: Callable[..., dict[str, Any]]
) -> None:
    study = resolved(**of("ce"), **FEW)
    assert study.defaults["epochs"] == FieldDefault(350, "protocol")
    assert {*study.defaults} == {*field_types(study.method.kind)}


def test_on_full_data_the_space_stands_above_the_protocol(
    resolved: Resolved, of: Callable[..., dict[str, Any]]
) -> None:
    space = of("cmlm", "{post_learning_rate: 1e-4}")
    defaults = resolved(**space, protocol="cmlm-full").defaults
    assert defaults["learning_rate"] == FieldDefault(3e-5, "protocol")
    assert defaults["post_epochs"] == FieldDefault(3, "protocol")
    assert defaults["post_learning_rate"] == FieldDefault(1e-4, "space")
