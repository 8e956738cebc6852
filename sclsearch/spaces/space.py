"""Search space: searched hyperparameters, fixed values and published configurations."""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from sclsearch.canonical import as_tuples, canonical, shown
from sclsearch.errors import SclsearchError

Values = Mapping[str, object]
Bound = Annotated[float, Field(strict=True)]
Whole = Annotated[int, Field(strict=True)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Choice:
    """Hyperparameter with listed values, in YAML `{type: choice, values: […]}`, in grid order."""

    values: Annotated[tuple[Any, ...], BeforeValidator(as_tuples), Field(min_length=1)]
    type: Literal["choice"] = "choice"

    def __post_init__(self) -> None:
        for n, value in enumerate(self.values):
            if any(same(value, earlier) for earlier in self.values[:n]):
                raise ValueError(f"values must differ, got {value!r} twice")

    @property
    def bounds(self) -> tuple[Any, ...]:
        return self.values

    @property
    def ordered(self) -> bool:
        """True for ascending numbers: then samplers know which values are close to each other."""
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)
        return numbers and list(self.values) == sorted(self.values)

    def contains(self, value: object) -> bool:
        return any(same(value, own) for own in self.values)

    def spec(self) -> dict[str, Any]:
        """Return the JSON content that identifies the parameter."""
        return {"type": self.type, "values": json.loads(canonical(self.values))}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Range:
    """Number between two inclusive bounds, in YAML `{type: float, low: …, high: …}`.

    The type `log` is a log-uniform float.
    """

    low: Bound
    high: Bound
    type: Literal["float", "log"]

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ValueError(f"low must be below high, got low={self.low!r}, high={self.high!r}")
        if self.type == "log" and self.low <= 0:
            raise ValueError(f"low of a log range must be above 0, got {self.low!r}")

    @property
    def bounds(self) -> tuple[Any, ...]:
        return self.low, self.high

    def contains(self, value: object) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high  # type: ignore[operator]

    def spec(self) -> dict[str, Any]:
        """Return the JSON content that identifies the parameter."""
        return {"type": self.type, "low": self.low, "high": self.high}


MOST_INTEGERS = 100
"""Most values of a hyperparameter of the type `int`."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Integers:
    """Every `step`-th integer from `low` to `high`, in YAML `{type: int, low: …, high: …}`."""

    low: Whole
    high: Whole
    type: Literal["int"]
    step: Annotated[Whole, Field(ge=1)] = 1

    def __post_init__(self) -> None:
        steps, rest = divmod(self.high - self.low, self.step)
        if rest or not 0 <= steps < MOST_INTEGERS:
            raise ValueError(
                f"high must be low plus 0 to {MOST_INTEGERS - 1} steps, got low={self.low}, "
                f"high={self.high}, step={self.step}"
            )

    @property
    def values(self) -> tuple[int, ...]:
        return tuple(range(self.low, self.high + 1, self.step))


Parameter = Choice | Range
Parameters = dict[str, Annotated[Choice | Range | Integers, Field(discriminator="type")]]


def same(one: object, other: object) -> bool:
    """Return True if two values are equal: 1 equals 1.0, a list equals a tuple, True is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def learning_rate_warning(rates: Mapping[str, object]) -> str:
    """Return a warning if studies do not tune the learning rate alike; else an empty text.

    `rates` has, by study or method, the `spec` of the searched learning rate, or its fixed value.
    """
    kinds: dict[str, list[str]] = {}
    for name, rate in rates.items():
        kind = searched_values(rate) if isinstance(rate, Mapping) else f"fixed at {shown(rate)}"
        kinds.setdefault(kind, []).append(name)
    if len(kinds) < 2:
        return ""
    listed = "; ".join(f"{', '.join(names)}: {kind}" for kind, names in kinds.items())
    return f"warning: the learning rate is not tuned alike ({listed}): scores may show that alone"


def searched_values(spec: Mapping[str, Any]) -> str:
    """Return the values or the range of a searched hyperparameter as text, from its `spec`."""
    if spec["type"] == "choice":
        return ", ".join(map(shown, spec["values"]))
    scale = " log" if spec["type"] == "log" else ""
    return f"{shown(spec['low'])} … {shown(spec['high'])}{scale}"


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """Search space of a method."""

    method: str
    source: str  # a paper and its section
    parameters: Mapping[str, Parameter]
    published: tuple[Values, ...]  # a search evaluates them first, in this order
    fixed: Values  # they replace a default and are not searched
    file: str
    note: str = ""  # name of the space and the reason for its choice, for readers of the results
    practical: bool = False  # no paper has its first configurations
    altered: bool = False  # the user set some values by hand

    @property
    def start(self) -> str:
        """Origin of the first configurations: `published` if all is as published, else `start`."""
        return "start" if self.practical or self.altered else "published"

    def with_settings(self, settings: Values) -> "Space":
        """Return the space with some values fixed by the user.

        The space no longer searches a fixed key, and published configurations lose it too. Those
        that are then outside the space, or equal an earlier one, are dropped.
        """
        kept = {name: p for name, p in self.parameters.items() if name not in settings}
        fixed, altered = {**self.fixed, **settings}, self.altered or bool(settings)
        space = dataclasses.replace(self, parameters=kept, fixed=fixed, altered=altered)
        searched = [{n: v for n, v in values.items() if n in kept} for values in self.published]
        distinct = {canonical(values): values for values in searched if space.contains(values)}
        return dataclasses.replace(space, published=tuple(distinct.values()))

    def matching(self, configurations: Iterable[Values]) -> list[Values]:
        """Return the searched fields of those configurations that the space contains."""
        found = [{n: as_tuples(c[n]) for n in self.parameters if n in c} for c in configurations]
        return [values for values in found if self.contains(values)]

    def starting_with(self, first: Iterable[Values]) -> "Space":
        """Return the space with first configurations, which it contains."""
        distinct = {canonical(one): one for one in [*first, *self.published]}
        altered = self.altered or bool(first)
        return dataclasses.replace(self, published=tuple(distinct.values()), altered=altered)

    def contains(self, values: Values) -> bool:
        return not self.field_errors(values)

    def field_errors(self, values: Values) -> list[tuple[str, str]]:
        """Return the errors of values as pairs of parameter name and reason; empty if valid."""
        faults = [(name, "is missing") for name in self.parameters if name not in values]
        for name, value in values.items():
            if parameter := self.parameters.get(name):
                if not parameter.contains(value):
                    where = "one of" if isinstance(parameter, Choice) else "in"
                    allowed = searched_values(parameter.spec())
                    faults.append((name, f"must be {where} {allowed}, got {value!r}"))
            elif name not in self.fixed:
                faults.append((name, "is neither in `space` nor in `fixed`"))
            elif not same(value, fixed := self.fixed[name]):
                faults.append((name, f"must be {fixed!r} as in `fixed`, got {value!r}"))
        return faults

    def grid(self) -> Iterator[dict[str, object]]:
        """Return an iterator over all configurations; raise SclsearchError if there is a range.

        The last parameter changes fastest.
        """
        for name, parameter in self.parameters.items():
            if isinstance(parameter, Range):
                raise SclsearchError(
                    f"--sampler grid: needs choices, but {name} in {self.file} is a range, "
                    f"{searched_values(parameter.spec())}. Pass --space paper, --set {name}=…, a "
                    "--space of your own with choices, or another sampler."
                )
        points = itertools.product(*(one.bounds for one in self.parameters.values()))
        return (dict(zip(self.parameters, point, strict=True)) for point in points)

    def size(self) -> int | None:
        """Return the number of configurations; None if it is infinite."""
        parameters = self.parameters.values()
        if any(isinstance(one, Range) for one in parameters):
            return None
        return math.prod(len(one.bounds) for one in parameters)

    def covering(self) -> list[Values]:
        """Return configurations that together contain every listed and every published value."""
        listed = {n: p.values for n, p in self.parameters.items() if isinstance(p, Choice)}
        first = {name: values[0] for name, values in listed.items()}
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
