"""Search space: searched parameters, fixed values and published configurations."""

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
    """Search space of a method.

    Attributes:
        method: Name of the method.
        source: Origin of the space: a paper and its section.
        parameters: Searched parameters by name. A parameter comes after those in its condition.
        published: Published parameter values, which a search evaluates first, in this order.
        fixed: Values that replace a default and are not searched.
        file: Path of the file, for error messages.
        note: Note for readers of the results.
        altered: True if the user set some values by hand.
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
        """Origin of the first configurations: `published` if all is as published, else `start`."""
        return "start" if self.note or self.altered else "published"

    def with_settings(self, settings: Values) -> "Space":
        """Return the space with some values fixed by the user.

        The space no longer searches a fixed key, and published configurations lose it too. A
        parameter whose condition depends on a fixed key is then always or never searched. The space
        drops a published configuration if it lacks a value for a parameter that is now searched.
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
        """Return True if the values are a configuration of the space."""
        return not self.field_errors(values)

    def field_errors(self, values: Values) -> list[tuple[str, str]]:
        """Return the errors of values as pairs of parameter name and reason; empty if valid."""
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
        """Return an iterator over all configurations; the last parameter changes fastest.

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
