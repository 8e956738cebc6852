"""Validation of search space files: first their form, then their values."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods import method_class, method_name
from sclsearch.methods.base import Method
from sclsearch.methods.fields import as_tuples, field_errors, field_types
from sclsearch.spaces.schema import Fault, SpaceFile, form_faults, parameter_of
from sclsearch.spaces.space import Choice, Parameter, Range, Space, Values

ValueCheck = Callable[[Values], Sequence[Fault]]


def read_space(
    raw: object, file: str, method: type[Method] | None
) -> tuple[Space | None, list[Fault]]:
    """Return the search space in parsed YAML content, or None and its errors.

    If `method` is None, the file may name any method.
    """
    try:
        content = SpaceFile.model_validate(raw)
    except ValidationError as error:
        return None, form_faults(error)
    found, faults = _method(content.method, method)
    check: ValueCheck = partial(field_errors, found) if found else lambda _values: ()
    space, own = _space(content, file, check)
    faults += own
    if found is None or faults:
        return None, faults
    return _typed(space, found), []


def _method(name: str, method: type[Method] | None) -> tuple[type[Method] | None, list[Fault]]:
    if method is None:
        try:
            return method_class(name), []
        except SclsearchError as error:
            return None, [("method", f"{error} Pass --method FILE.py:CLASS for a method of yours.")]
    if name == (expected := method_name(method)):
        return method, []
    return method, [("method", f"must be {expected!r}, got {name!r}")]


def _space(content: SpaceFile, file: str, check: ValueCheck) -> tuple[Space, list[Fault]]:
    """Return the space of a file's keys, and its errors."""
    parameters = {name: parameter_of(entry) for name, entry in content.space.items()}
    space = Space(
        method=content.method,
        source=content.source,
        parameters=parameters,
        published=tuple(content.published),
        fixed=content.fixed,
        file=file,
    )
    faults: list[Fault] = []
    if "chunk_tokens" in parameters:
        faults.append(("space.chunk_tokens", "sets the use of memory alone; move it to fixed"))
    for name, parameter in parameters.items():
        bound_faults = dict.fromkeys(_bound_faults(name, parameter, check))
        faults += [(f"space.{name}", reason) for reason in bound_faults]
        for key in parameter.when:
            when_faults = _when_faults(name, key, space, check)
            faults += [(f"space.{name}.when", reason) for reason in when_faults]
    faults += [(f"fixed.{name}", reason) for name, reason in check(space.fixed)]
    faults += [
        (f"fixed.{name}", "must be fixed or searched, got both")
        for name in space.fixed
        if name in parameters
    ]
    for number, values in enumerate(space.published):
        place, refused = f"published[{number}]", dict(check(values))
        faults += [(f"{place}.{name}", reason) for name, reason in refused.items()]
        faults += [
            (place, f"{name} {reason}")
            for name, reason in space.field_errors(values)
            if name not in refused
        ]
    return space, faults


def _bound_faults(name: str, parameter: Parameter, check: ValueCheck) -> Iterator[str]:
    bounds = parameter.values if isinstance(parameter, Choice) else (parameter.low, parameter.high)
    for value in bounds:
        for _, reason in check({name: value}):
            yield reason


def _when_faults(name: str, key: str, space: Space, check: ValueCheck) -> list[str]:
    """Return the errors of the required values of `key` in the condition of a parameter."""
    parameters = space.parameters
    names, condition, values = [*parameters], parameters.get(key), parameters[name].when[key]
    if condition is None and key in space.fixed:
        return [f"{key} {reason}" for value in values for _, reason in check({key: value})]
    if condition is None:
        return [f"{key} is not in `space`.{suggestion(key, parameters)}"]
    if names.index(key) >= names.index(name):
        return [f"{key} must come before {name}"]
    if not isinstance(condition, Choice):
        return [f"{key} must have `type: choice`, got a range"]
    if not values:
        return [f"{key} must have a value, got an empty list"]
    return [f"{key} must be {condition}, got {v!r}" for v in values if not condition.contains(v)]


def _typed(space: Space, method: type[Method]) -> Space:
    """Return the space with values converted to the types of the method's fields.

    For example, 1 becomes 1.0 for a float field. Values of an `int` range stay integers for every
    field type, because samplers draw integers.
    """
    types = field_types(method)

    def typed(name: str, value: Any) -> object:
        parameter = space.parameters.get(name)
        if isinstance(parameter, Range) and parameter.kind == "int":
            return int(value)
        return types[name].validate_python(as_tuples(value))

    parameters: dict[str, Parameter] = {}
    for name, parameter in space.parameters.items():
        when = {k: tuple(typed(k, value) for value in v) for k, v in parameter.when.items()}
        parameters[name] = replace(parameter, when=when)
        if isinstance(parameter, Choice):
            parameters[name] = Choice(tuple(typed(name, v) for v in parameter.values), when)
    found = replace(
        space,
        parameters=parameters,
        published=tuple({k: typed(k, v) for k, v in each.items()} for each in space.published),
        fixed={name: typed(name, value) for name, value in space.fixed.items()},
    )
    # Conditions on fixed keys are resolved, and published configurations outside the space removed.
    return found.with_settings({})
