"""A search space: what a search may choose, what stays fixed, what the paper chose."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.spaces.parameters import Choice, Parameter, active, same

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Space:
    """The configurations of a search.

    Attributes:
        method: Name of the method.
        source: Where the space comes from: a paper and its section.
        parameters: What is searched, by name; a condition comes before what depends on it.
        published: Values of the parameters that are evaluated first, in this order.
        fixed: Values that are not searched and not left to the defaults either.
        file: Where it was read from, for errors.
        note: What a reader of the figures must know.
        altered: Whether some values were set by hand.
    """

    method: str
    source: str
    parameters: Mapping[str, Parameter]
    published: tuple[Values, ...]
    fixed: Values
    file: str
    note: str = ""
    altered: bool = False

    @property
    def start(self) -> str:
        """What configurations that come first are: `published`, if nothing differs, or `start`."""
        return "start" if self.note or self.altered else "published"

    def with_settings(self, settings: Values) -> "Space":
        """Returns the space with some values set by hand.

        A set key is no longer searched but fixed, in the published configurations too. A parameter
        that is searched only at certain values of a set key is then searched always or never. A
        published configuration leaves if it has no value for what is now always searched.
        """
        parameters: dict[str, Parameter] = {}
        for name, parameter in self.parameters.items():
            known = {key for key in parameter.when if key not in parameters}
            met = replace(parameter, when={k: parameter.when[k] for k in known})
            if name not in settings and active(met, settings):
                left = {k: v for k, v in parameter.when.items() if k not in known}
                parameters[name] = replace(parameter, when=left)
        space = replace(
            self,
            parameters=parameters,
            fixed={**self.fixed, **settings},
            altered=self.altered or bool(settings),
        )
        searched = [
            {name: value for name, value in values.items() if name in parameters}
            for values in self.published
        ]
        distinct = {canonical(values): values for values in searched if space.contains(values)}
        return replace(space, published=tuple(distinct.values()))

    def contains(self, values: Values) -> bool:
        """Returns whether the values are a configuration of the space."""
        return not self.field_errors(values)

    def field_errors(self, values: Values) -> list[tuple[str, str]]:
        """Returns why values are no configuration of the space, as pairs of name and reason."""
        faults = [
            (name, reason)
            for name, value in values.items()
            if name not in self.parameters and (reason := self._fixed_reason(name, value))
        ]
        known = {name: values[name] for name in values if name not in self.parameters}
        for name, parameter in self.parameters.items():
            if not active(parameter, known):
                if name in values:
                    told = f"where its `when` does not hold, but there is {values[name]!r}"
                    faults.append((name, f"must be left out {told}"))
            elif name not in values:
                faults.append((name, "is missing"))
            else:
                known[name] = values[name]
                if not parameter.contains(values[name]):
                    faults.append((name, f"must be {parameter}, but there is {values[name]!r}"))
        return faults

    def grid(self) -> Iterator[dict[str, object]]:
        """Returns all configurations, the last parameter changing fastest.

        Raises:
            SclsearchError: A parameter is a range.
        """
        for name, parameter in self.parameters.items():
            if not isinstance(parameter, Choice):
                raise SclsearchError(
                    f"--sampler grid: {name} must have values to choose from, but in {self.file} "
                    f"it is a range, {parameter}. Set it by --set {name}=…, make it a choice in a "
                    "--space of your own, or take another sampler."
                )
        return self._combinations(tuple(self.parameters), {})

    def size(self) -> int | None:
        """Returns the number of configurations, None if there are infinitely many."""
        size = self._size(tuple(self.parameters), {})
        return None if math.isinf(size) else int(size)

    def covering(self) -> list[Values]:
        """Returns values that between them have all listed ones, and the published ones.

        Conditions are not looked at: they may have what never occurs together.
        """
        listed = {name: parameter.listed() for name, parameter in self.parameters.items()}
        first = {name: values[0] for name, values in listed.items() if values}
        base = {**first, **(self.published[0] if self.published else {})}
        each = [{**base, name: value} for name, values in listed.items() for value in values]
        return [base, *self.published, *each]

    def spec(self) -> dict[str, Any]:
        """Returns what determines a search in the space, as JSON has it.

        The parameters are a list, since their order counts in a grid and in a sampler's draws.
        """
        parameters = [{"name": name, **p.spec()} for name, p in self.parameters.items()]
        spec = {"parameters": parameters, "published": self.published, "fixed": self.fixed}
        written: dict[str, Any] = json.loads(canonical(spec))
        return written

    def _fixed_reason(self, name: str, value: object) -> str:
        if name not in self.fixed:
            return "must be in `space` or in `fixed`, but it is in neither"
        fixed = self.fixed[name]
        return "" if same(value, fixed) else f"must be {fixed!r} as fixed, but there is {value!r}"

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
        if isinstance(parameter, Choice) and self._is_condition(name):
            return sum(self._size(rest, {**values, name: value}) for value in parameter.values)
        return parameter.size() * self._size(rest, values)

    def _is_condition(self, name: str) -> bool:
        return any(name in parameter.when for parameter in self.parameters.values())
