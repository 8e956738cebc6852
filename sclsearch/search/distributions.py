"""Optuna distributions of searched parameters."""

from collections.abc import Callable, Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from pydantic import TypeAdapter, ValidationError

from sclsearch.arguments import fault_texts
from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.spaces.schema import Entry
from sclsearch.spaces.space import Choice, Parameter


def stored_parameters(space: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the searched parameters of a stored space."""
    entries = {
        entry["name"]: {key: value for key, value in entry.items() if key != "name"}
        for entry in space["parameters"]
    }
    try:
        stored = TypeAdapter(dict[str, Entry]).validate_python(entries)
    except ValidationError as error:
        raise SclsearchError(
            f"stored space: {fault_texts(error)[0]}. Restore the study's record."
        ) from error
    return {name: entry.parameter() for name, entry in stored.items()}


def plain(value: Any) -> Any:
    """Return a value that Optuna accepts: lists become JSON."""
    return canonical(value) if isinstance(value, list | tuple | dict) else value


def distribution(parameter: Parameter, encoded: Callable[[Any], Any] = plain) -> BaseDistribution:
    """Return the Optuna distribution of a searched parameter, with choices as Optuna has them."""
    if isinstance(parameter, Choice):
        return CategoricalDistribution([encoded(value) for value in parameter.values])
    if parameter.kind == "int":
        return IntDistribution(int(parameter.low), int(parameter.high), step=parameter.step or 1)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.kind == "log")
