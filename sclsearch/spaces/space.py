"""Search space: searched hyperparameters, fixed values and published configurations."""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from sclsearch.canonical import as_tuples, canonical, shown
from sclsearch.errors import SclsearchError

Values = Mapping[str, object]
T = TypeVar("T")
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
MOST_VALUES = 1_000
"""Most listed values of a hyperparameter."""


@dataclass(frozen=True, config=STRICT)
class Choice(Generic[T]):
    """Hyperparameter with listed values, in YAML `{type: choice, values: […]}`, in grid order."""

    values: Annotated[tuple[T, ...], Field(min_length=1, max_length=MOST_VALUES)]
    type: Literal["choice"] = "choice"

    def __post_init__(self) -> None:
        for n, value in enumerate(self.values):
            if any(same(value, earlier) for earlier in self.values[:n]):
                raise ValueError(f"values must differ, got {value!r} twice")

    @property
    def ordered(self) -> bool:
        """True for ascending numbers: then samplers know which values are close to each other."""
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)
        return numbers and list(self.values) == sorted(self.values)  # type: ignore[type-var]

    def contains(self, value: object) -> bool:
        return any(same(value, own) for own in self.values)


@dataclass(frozen=True, config=STRICT)
class Range(Generic[T]):
    """Number between two inclusive bounds, in YAML `{type: float, low: …, high: …}`.

    The type `log` is a log-uniform float.
    """

    low: T
    high: T
    type: Literal["float", "log"]

    def __post_init__(self) -> None:
        bounds: list[Any] = [self.low, self.high]
        floats = all(isinstance(bound, float) for bound in bounds)
        if not floats or bounds[0] >= bounds[1] or (self.type == "log" and bounds[0] <= 0):
            raise ValueError(
                "must be the bounds of a float, low below high, and above 0 in a log range, got "
                f"low={self.low!r}, high={self.high!r}"
            )

    def contains(self, value: object) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high  # type: ignore[operator]


MOST_INTEGERS = 100
"""Most values of a hyperparameter of the type `int`."""


@dataclass(frozen=True, config=STRICT)
class Integers:
    """Every `step`-th integer from `low` to `high`, in YAML `{type: int, low: …, high: …}`."""

    low: int
    high: int
    type: Literal["int"]
    step: Annotated[int, Field(ge=1)] = 1

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


Parameter = Choice[Any] | Range[float]


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
        return not any(self.faults(values))

    def faults(self, values: Values) -> Iterator[str]:
        """Yield the reasons why values are no configuration of the space."""
        yield from (f"{name} is missing" for name in self.parameters if name not in values)
        for name, value in values.items():
            if name not in self.parameters and name not in self.fixed:
                yield f"{name} is neither in `space` nor in `fixed`"
            elif name not in self.parameters and not same(value, self.fixed[name]):
                yield f"{name} must be {self.fixed[name]!r} as in `fixed`, got {value!r}"
            elif name in self.parameters and not self.parameters[name].contains(value):
                allowed = searched_values(dataclasses.asdict(self.parameters[name]))
                among = "one of" if name in self._choices else "in"
                yield f"{name} must be {among} {allowed}, got {value!r}"

    def grid(self) -> Iterator[dict[str, object]]:
        """Return an iterator over all configurations; raise SclsearchError if there is a range.

        The last parameter changes fastest.
        """
        for name, parameter in self.parameters.items():
            if isinstance(parameter, Range):
                raise SclsearchError(
                    f"--sampler grid: needs choices, but {name} in {self.file} is a range, "
                    f"{searched_values(dataclasses.asdict(parameter))}. Pass --space paper, --set "
                    f"{name}=…, a --space of your own with choices, or another sampler."
                )
        points = itertools.product(*(one.values for one in self._choices.values()))
        return (dict(zip(self.parameters, point, strict=True)) for point in points)

    def size(self) -> int | None:
        """Return the number of configurations; None if it is infinite."""
        if len(self._choices) < len(self.parameters):
            return None
        return math.prod(len(one.values) for one in self._choices.values())

    def covering(self) -> list[Values]:
        """Return configurations that together contain every listed and every published value."""
        listed = {name: one.values for name, one in self._choices.items()}
        first = {name: values[0] for name, values in listed.items()}
        base = {**first, **(self.published[0] if self.published else {})}
        each = [{**base, name: value} for name, values in listed.items() for value in values]
        return [base, *self.published, *each]

    @property
    def _choices(self) -> "dict[str, Choice[Any]]":
        return {n: one for n, one in self.parameters.items() if isinstance(one, Choice)}

    def spec(self) -> dict[str, Any]:
        """Return the JSON content that determines a search in the space.

        The parameters are a list, because their order affects a grid and a sampler's draws.
        """
        parameters = [
            {"name": name, **dataclasses.asdict(one)} for name, one in self.parameters.items()
        ]
        spec = {"parameters": parameters, "published": self.published, "fixed": self.fixed}
        written: dict[str, Any] = json.loads(canonical(spec))
        return written
