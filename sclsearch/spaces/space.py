"""Search space: searched hyperparameters, fixed values and published configurations."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sclsearch.canonical import canonical, shown
from sclsearch.errors import SclsearchError

Values = Mapping[str, object]
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


def learning_rate_warning(rates: Mapping[str, object]) -> str:
    """Return a warning if studies do not tune the learning rate alike; else an empty text.

    `rates` has, by study or method, the `spec` of the searched learning rate, or its fixed value.
    """
    kinds: dict[str, list[str]] = {}
    for name, rate in rates.items():
        kind = _rate_text(rate)
        kinds.setdefault(kind, []).append(name)
    if len(kinds) < 2:
        return ""
    listed = "; ".join(f"{', '.join(names)}: {kind}" for kind, names in kinds.items())
    return f"warning: the learning rate is not tuned alike ({listed}): scores may show that alone"


def _rate_text(rate: object) -> str:
    if not isinstance(rate, Mapping):
        return f"fixed at {shown(rate)}"
    if rate["type"] == "choice":
        return f"one of {', '.join(map(shown, rate['values']))}"
    return f"searched from {shown(rate['low'])} to {shown(rate['high'])}"


@dataclass(frozen=True, slots=True)
class Space:
    """Search space of a method.

    Attributes:
        method: Name of the method.
        source: Origin of the space: a paper and its section.
        parameters: Searched parameters by name. A parameter comes after those in its condition.
        published: Published parameter values, which a search evaluates first, in this order.
        fixed: Values that replace a default and are not searched.
        file: Path of the file, for error messages.
        note: Name of the space and the reason for its choice, for readers of the results.
        practical: True for a practical space, whose first configurations no paper has.
        altered: True if the user set some values by hand.
    """

    method: str
    source: str
    parameters: Mapping[str, Parameter]
    published: tuple[Values, ...]
    fixed: Values
    file: str
    note: str = ""
    practical: bool = False
    altered: bool = False

    @property
    def start(self) -> str:
        """Origin of the first configurations: `published` if all is as published, else `start`."""
        return "start" if self.practical or self.altered else "published"

    def with_settings(self, settings: Values) -> "Space":
        """Return the space with some values fixed by the user.

        The space no longer searches a fixed key, and published configurations lose it too. A
        parameter whose condition depends on a fixed key is then always or never searched. The space
        drops a published configuration if it lacks a value for a parameter that is now searched.
        """
        parameters: dict[str, Parameter] = {}
        fixed = {**self.fixed, **settings}
        for name, parameter in self.parameters.items():
            known = {key for key in parameter.when if key not in parameters}
            met = replace(parameter, when={k: parameter.when[k] for k in known})
            if name not in settings and active(met, fixed):
                left = {k: v for k, v in parameter.when.items() if k not in known}
                parameters[name] = replace(parameter, when=left)
        space = replace(
            self,
            parameters=parameters,
            fixed=fixed,
            altered=self.altered or bool(settings),
        )
        searched = [
            {name: value for name, value in values.items() if name in parameters}
            for values in self.published
        ]
        distinct = {canonical(values): values for values in searched if space.contains(values)}
        return replace(space, published=tuple(distinct.values()))

    def contains(self, values: Values) -> bool:
        """Return True if the values are a configuration of the space."""
        return not self.field_errors(values)

    def field_errors(self, values: Values) -> list[tuple[str, str]]:
        """Return the errors of values as pairs of parameter name and reason; empty if valid."""
        faults = []
        known = {name: values[name] for name in values if name not in self.parameters}
        for name, value in known.items():
            if name not in self.fixed:
                faults.append((name, "is neither in `space` nor in `fixed`"))
            elif not same(value, fixed := self.fixed[name]):
                faults.append((name, f"must be {fixed!r} as in `fixed`, got {value!r}"))
        for name, parameter in self.parameters.items():
            searched = active(parameter, {**self.fixed, **known})
            if searched != (name in values):
                reason = "is missing" if searched else "must be left out where its `when` is false"
                faults.append((name, reason))
            elif searched:
                known[name] = values[name]
                if not parameter.contains(values[name]):
                    faults.append((name, f"must be {parameter}, got {values[name]!r}"))
        return faults

    def grid(self) -> Iterator[dict[str, object]]:
        """Return an iterator over all configurations; raise SclsearchError if there is a range.

        The last parameter changes fastest.
        """
        for name, parameter in self.parameters.items():
            if not isinstance(parameter, Choice):
                raise SclsearchError(
                    f"--sampler grid: needs choices, but {name} in {self.file} is a range, "
                    f"{parameter}. Pass --space paper, --set {name}=…, a --space of your own with "
                    "choices, or another sampler."
                )
        return self._combinations(tuple(self.parameters), {})

    def size(self) -> int | None:
        """Return the number of configurations; None if it is infinite."""
        size = self._size(tuple(self.parameters), {})
        return None if math.isinf(size) else int(size)

    def covering(self) -> list[Values]:
        """Return configurations that together contain every listed and every published value.

        The function ignores conditions, so a result may combine values that no search combines.
        """
        listed = {name: parameter.listed() for name, parameter in self.parameters.items()}
        first = {name: values[0] for name, values in listed.items() if values}
        base = {**first, **(self.published[0] if self.published else {})}
        each = [{**base, name: value} for name, values in listed.items() for value in values]
        return [base, *self.published, *each]

    def spec(self) -> dict[str, Any]:
        """Return the JSON content that determines a search in the space.

        The parameters are a list, because their order affects a grid and a sampler's draws.
        """
        parameters = [{"name": name, **p.spec()} for name, p in self.parameters.items()]
        spec = {"parameters": parameters, "published": self.published, "fixed": self.fixed}
        written: dict[str, Any] = json.loads(canonical(spec))
        return written

    def _combinations(self, names: Sequence[str], values: Values) -> Iterator[dict[str, object]]:
        if not names:
            yield dict(values)
            return
        name, rest = names[0], names[1:]
        parameter = self.parameters[name]
        if not active(parameter, values):
            yield from self._combinations(rest, values)
        elif isinstance(parameter, Choice):
            for value in parameter.values:
                yield from self._combinations(rest, {**values, name: value})

    def _size(self, names: Sequence[str], values: Values) -> float:
        if not names:
            return 1
        name, rest = names[0], names[1:]
        parameter = self.parameters[name]
        if not active(parameter, values):
            return self._size(rest, values)
        is_condition = any(name in other.when for other in self.parameters.values())
        if isinstance(parameter, Choice) and is_condition:
            return sum(self._size(rest, {**values, name: value}) for value in parameter.values)
        return parameter.size() * self._size(rest, values)
