"""Hyperparameters of a search space: categorical choices and numeric ranges."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sclsearch.canonical import canonical

When = Mapping[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Categorical hyperparameter with a list of values.

    Attributes:
        values: The values, in grid order; lists are tuples here.
        when: Condition for searching this parameter: other parameters and their required values.
            Empty if the parameter is always searched.
    """

    values: tuple[object, ...]
    when: When = field(default_factory=dict)

    def contains(self, value: object) -> bool:
        """Return True if the value is one of the choices."""
        return any(same(value, own) for own in self.values)

    def listed(self) -> tuple[object, ...]:
        """Return all values."""
        return self.values

    def size(self) -> float:
        """Return the number of values."""
        return len(self.values)

    def spec(self) -> dict[str, Any]:
        """Return the JSON content that identifies the parameter."""
        return _spec({"type": "choice", "values": self.values}, self.when)

    def __str__(self) -> str:
        """Return a description of the parameter for error messages, to follow `must be`."""
        return f"one of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True, slots=True)
class Range:
    """Numeric hyperparameter between two inclusive bounds.

    Attributes:
        low: Lowest value.
        high: Highest value.
        kind: `float`, `log` for a log-uniform float, or `int`.
        step: Distance between neighboring values, for `int` only; None means 1.
        when: Condition for searching this parameter: other parameters and their required values.
            Empty if the parameter is always searched.
    """

    low: float
    high: float
    kind: Literal["float", "log", "int"]
    step: int | None = None
    when: When = field(default_factory=dict)

    def contains(self, value: object) -> bool:
        """Return True if the value is a number within the range and on one of its steps."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        inside = self.low <= value <= self.high
        if self.kind != "int":
            return inside
        return inside and (value - self.low) % (self.step or 1) == 0

    def listed(self) -> tuple[object, ...]:
        """Return all values of an `int` range; an empty tuple for other kinds."""
        if self.kind != "int":
            return ()
        return tuple(range(int(self.low), int(self.high) + 1, self.step or 1))

    def size(self) -> float:
        """Return the number of values of an `int` range; infinity for other kinds."""
        return (self.high - self.low) // (self.step or 1) + 1 if self.kind == "int" else math.inf

    def spec(self) -> dict[str, Any]:
        """Return the JSON content that identifies the parameter."""
        step = {"step": self.step or 1} if self.kind == "int" else {}
        return _spec({"type": self.kind, "low": self.low, "high": self.high, **step}, self.when)

    def __str__(self) -> str:
        """Return a description of the parameter for error messages, to follow `must be`."""
        kind = "whole, " if self.kind == "int" else ""
        step = f" in steps of {self.step}" if self.step not in {None, 1} else ""
        return f"{kind}from {self.low!r} to {self.high!r}{step}"


Parameter = Choice | Range


def active(parameter: Parameter, values: Mapping[str, object]) -> bool:
    """Return True if a parameter's condition holds for the values of earlier parameters."""
    return all(
        name in values and any(same(values[name], allowed) for allowed in condition)
        for name, condition in parameter.when.items()
    )


def same(one: object, other: object) -> bool:
    """Return True if two values are equal: 1 equals 1.0, a list equals a tuple, True is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _spec(entry: Mapping[str, Any], when: When) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(canonical({**entry, **({"when": when} if when else {})}))
    return written
