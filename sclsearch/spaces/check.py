"""Validation of search space files: first their form, then their values."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from sclsearch.arguments import fault_reason, path_of, place_of
from sclsearch.canonical import as_tuples
from sclsearch.errors import SclsearchError
from sclsearch.methods import method_class, method_name
from sclsearch.methods.base import Method
from sclsearch.methods.fields import field_errors, field_types
from sclsearch.spaces.space import Choice, Parameter, Parameters, Range, Space, Values

PARAMETERS: Mapping[object, type[Parameter]] = {"choice": Choice, "float": Range, "log": Range}
Fault = tuple[str, str]
"""Error of a file: the path of the key, such as `space.tau.low`, and the reason."""


class SpaceFile(BaseModel, strict=True, extra="forbid"):
    """Top level of a search space file."""

    method: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    published: list[dict[str, Any]] = []
    fixed: dict[str, Any] = {}
    space: Parameters


def read_space(raw: object, file: str, method: type[Method] | None) -> Space:
    """Return the search space in parsed YAML content.

    If `method` is None, the file may name any method.
    """
    try:
        content = SpaceFile.model_validate(raw)
    except ValidationError as error:
        raise _error(file, [_fault(fault) for fault in error.errors()]) from error
    found = method or _named(content.method, file)
    space = Space(
        method=content.method,
        source=content.source,
        parameters=content.space,
        published=tuple(content.published),
        fixed=content.fixed,
        file=file,
    )
    if faults := list(dict.fromkeys(_value_faults(space, found))):
        raise _error(file, faults)
    return _typed(space, found)


def _error(file: str, faults: list[Fault]) -> SclsearchError:
    lines = [f"{place}: {reason}" if place else reason for place, reason in faults]
    return SclsearchError("\n".join(f"{file}: {line}" for line in lines))


def _fault(fault: ErrorDetails) -> Fault:
    path, form = path_of(fault), [*SpaceFile.model_fields]
    if path[:1] == ["space"] and path[2:3] and path[2] in PARAMETERS:
        # Pydantic adds the type of a parameter to the path.
        form = [field.name for field in dataclasses.fields(PARAMETERS[path.pop(2)])]
    return place_of(path), fault_reason(fault, form)


def _named(name: str, file: str) -> type[Method]:
    try:
        return method_class(name)
    except SclsearchError as error:
        reason = f"{error} Pass --method FILE.py:CLASS for a method of yours."
        raise _error(file, [("method", reason)]) from error


def _value_faults(space: Space, method: type[Method]) -> Iterator[Fault]:
    if space.method != (expected := method_name(method)):
        yield "method", f"must be {expected!r}, got {space.method!r}"
    if "chunk_tokens" in space.parameters:
        yield "space.chunk_tokens", "sets the use of memory alone; move it to fixed"
    for name, parameter in space.parameters.items():
        for value in _bounds(parameter):
            for _, reason in field_errors(method, {name: value}):
                yield f"space.{name}", reason
    yield from ((f"fixed.{name}", reason) for name, reason in field_errors(method, space.fixed))
    for name in [name for name in space.fixed if name in space.parameters]:
        yield f"fixed.{name}", "must be fixed or searched, got both"
    for number, values in enumerate(space.published):
        yield from _published_faults(space, method, values, f"published[{number}]")


def _bounds(parameter: Parameter) -> tuple[object, ...]:
    return parameter.values if isinstance(parameter, Choice) else (parameter.low, parameter.high)


def _published_faults(
    space: Space, method: type[Method], values: Values, place: str
) -> Iterator[Fault]:
    refused = dict(field_errors(method, values))
    for name, reason in refused.items():
        yield f"{place}.{name}", reason
    for name, reason in space.field_errors(values):
        if name not in refused:
            yield place, f"{name} {reason}"


def _typed(space: Space, method: type[Method]) -> Space:
    """Return the space with values of the types of the method's fields: 1 of a float is 1.0."""
    types = field_types(method)

    def typed(values: Any) -> dict[str, object]:
        return {name: types[name].validate_python(as_tuples(v)) for name, v in values.items()}

    parameters = {
        name: Choice(tuple(typed({name: value})[name] for value in parameter.values))
        if isinstance(parameter, Choice)
        else parameter
        for name, parameter in space.parameters.items()
    }
    found = dataclasses.replace(
        space,
        parameters=parameters,
        published=tuple(map(typed, space.published)),
        fixed=typed(space.fixed),
    )
    return found.with_settings({})  # without the fixed values of published configurations
