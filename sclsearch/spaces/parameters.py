"""What a search may choose: one of some values, or a number between two bounds."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sclsearch.canonical import canonical

When = Mapping[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values.

    Attributes:
        values: The values, in the order of the grid; a list is a tuple here.
        when: Other parameters with the values at which this one is searched; empty for always.
    """

    values: tuple[object, ...]
    when: When = field(default_factory=dict)

    def contains(self, value: object) -> bool:
        """Returns whether the value is one of the choices."""
        return any(same(value, own) for own in self.values)

    def listed(self) -> tuple[object, ...]:
        """Returns every value."""
        return self.values

    def size(self) -> float:
        """Returns the number of values."""
        return len(self.values)

    def spec(self) -> dict[str, Any]:
        """Returns what determines the parameter, as JSON has it."""
        return _spec({"type": "choice", "values": self.values}, self.when)

    def __str__(self) -> str:
        """Returns the parameter in words that follow `must be`."""
        return f"one of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two bounds, both of them allowed.

    Attributes:
        low: The least value.
        high: The greatest value.
        kind: `float`, `log` for a number whose logarithm is searched evenly, or `int`.
        step: Distance of neighbours, in `int` only, where None is 1.
        when: Other parameters with the values at which this one is searched; empty for always.
    """

    low: float
    high: float
    kind: Literal["float", "log", "int"]
    step: int | None = None
    when: When = field(default_factory=dict)

    def contains(self, value: object) -> bool:
        """Returns whether the value is a number in the range and on its steps."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        inside = self.low <= value <= self.high
        if self.kind != "int":
            return inside
        return inside and (value - self.low) % (self.step or 1) == 0

    def listed(self) -> tuple[object, ...]:
        """Returns every value if they are whole, otherwise none."""
        if self.kind != "int":
            return ()
        return tuple(range(int(self.low), int(self.high) + 1, self.step or 1))

    def size(self) -> float:
        """Returns the number of values, infinity unless they are whole."""
        return (self.high - self.low) // (self.step or 1) + 1 if self.kind == "int" else math.inf

    def spec(self) -> dict[str, Any]:
        """Returns what determines the parameter, as JSON has it."""
        step = {"step": self.step or 1} if self.kind == "int" else {}
        return _spec({"type": self.kind, "low": self.low, "high": self.high, **step}, self.when)

    def __str__(self) -> str:
        """Returns the parameter in words that follow `must be`."""
        kind = "whole, " if self.kind == "int" else ""
        step = f" in steps of {self.step}" if self.step not in {None, 1} else ""
        return f"{kind}from {self.low!r} to {self.high!r}{step}"


Parameter = Choice | Range


def active(parameter: Parameter, values: Mapping[str, object]) -> bool:
    """Returns whether a parameter is searched, given the values of those before it."""
    return all(
        name in values and any(same(values[name], allowed) for allowed in condition)
        for name, condition in parameter.when.items()
    )


def same(one: object, other: object) -> bool:
    """Returns whether two values mean the same: 1 is 1.0 and a list is a tuple, True is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _spec(entry: Mapping[str, Any], when: When) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(canonical({**entry, **({"when": when} if when else {})}))
    return written
