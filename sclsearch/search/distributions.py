"""Optuna distributions of searched parameters."""

from collections.abc import Callable, Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from pydantic import ValidationError

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.spaces.schema import StoredSpace, form_faults, parameter_of
from sclsearch.spaces.space import Choice, Parameter


def stored_parameters(space: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the searched parameters of a stored space."""
    entries = {
        entry["name"]: {key: value for key, value in entry.items() if key != "name"}
        for entry in space["parameters"]
    }
    try:
        stored = StoredSpace.model_validate({"space": entries})
    except ValidationError as error:
        place, reason = form_faults(error)[0]
        raise SclsearchError(
            f"stored {place}: {reason.rstrip('.')}. Restore the study's record."
        ) from error
    return {name: parameter_of(entry) for name, entry in stored.space.items()}


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
