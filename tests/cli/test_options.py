"""Tests of the options of commands: parsers of values, and copies of the Python API's types."""

from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import pytest

from sclsearch.cli.options import parse_settings
from sclsearch.cli.show import show
from sclsearch.errors import SclsearchError
from sclsearch.reports.table import TableFormat, TableRows
from sclsearch.tasks.custom import CustomTask


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("learning_rate=1e-5", 1e-5),
        ("dropouts=[0.0, 0.1]", [0.0, 0.1]),
        ("pooling=mean", "mean"),
        (" tau = 1", 1),
        ("note=a=b", "a=b"),
    ],
)
def test_a_setting_is_read_as_yaml(pair: str, value: object) -> None:
    [(_, found)] = parse_settings([pair]).items()
    assert found == value
    assert type(found) is type(value)


def test_options_of_single_hyperparameters_are_settings_and_set_once() -> None:
    assert parse_settings(["tau=1"], epochs=3, learning_rate=None) == {"epochs": 3, "tau": 1}
    assert parse_settings(None) == {}
    with pytest.raises(SclsearchError, match=r"^--set epochs: is set twice"):
        parse_settings(["epochs=2"], epochs=3)
    with pytest.raises(SclsearchError, match=r"^--set tau: is set twice"):
        parse_settings(["tau=1", " tau =1"])


@pytest.mark.parametrize("text", ["0.8,0.2", "0.7,0.1,0.1,0.1", "a,b,c"])
def test_invalid_shares_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SclsearchError, match=r"^--fractions: must "):
        CustomTask(tmp_path, fractions=text)  # type: ignore[arg-type]


def _choices(annotation: Any) -> set[object]:
    """Return the values of literal types and their unions."""
    parts = get_args(annotation)
    return set().union(*map(_choices, parts)) if parts else {annotation}


@pytest.mark.parametrize(
    ("command", "option", "choices"),
    [
        (show, "format_", Literal["terminal"] | TableFormat),
        (show, "rows", TableRows | None),
    ],
)
def test_the_choices_of_a_command_are_those_of_the_python_api(
    command: Any, option: str, choices: Any
) -> None:
    assert _choices(get_type_hints(command)[option]) == _choices(choices)
