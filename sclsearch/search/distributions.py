"""Optuna distributions of searched parameters."""

from collections.abc import Callable, Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.spaces.schema import read_parameter
from sclsearch.spaces.space import Choice, Parameter


def stored_parameters(space: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the searched parameters of a stored space."""
    found = {}
    for entry in space["parameters"]:
        parameter = read_parameter({n: v for n, v in entry.items() if n != "name"}, entry["name"])
        if isinstance(parameter, list):
            place, reason = parameter[0]
            raise SclsearchError(f"stored space: {place}: {reason}. Restore the study's record.")
        found[entry["name"]] = parameter
    return found


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
