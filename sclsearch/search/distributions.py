"""Optuna distributions of searched parameters."""

from collections.abc import Callable
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from sclsearch.canonical import canonical
from sclsearch.spaces.space import Choice, Parameter


def plain(value: Any) -> Any:
    """Return a value that Optuna accepts: lists become JSON."""
    return canonical(value) if isinstance(value, list | tuple | dict) else value


def distribution(parameter: Parameter, encoded: Callable[[Any], Any] = plain) -> BaseDistribution:
    """Return the Optuna distribution of a searched parameter, with choices as Optuna has them."""
    if isinstance(parameter, Choice):
        return CategoricalDistribution([encoded(value) for value in parameter.values])
    return FloatDistribution(parameter.low, parameter.high, log=parameter.type == "log")
