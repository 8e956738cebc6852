"""Validation of search space files: first their form, then their values."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from sclsearch.encoders.models import name_fault
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods import method_class, method_name
from sclsearch.methods.base import Method
from sclsearch.methods.fields import as_tuples, field_errors, field_types
from sclsearch.spaces.schema import Fault, Section, SpaceFile, form_faults, parameter_of
from sclsearch.spaces.space import Choice, Parameter, Range, Space, Values

ValueCheck = Callable[[Values], Sequence[Fault]]


def read_spaces(
    raw: object, file: str, method: type[Method] | None
) -> tuple[dict[str | None, Space], list[Fault]]:
    """Return the search spaces in parsed YAML content by encoder name, or its errors.

    The key None has the space for encoders without a section. If `method` is None, the file may
    name any method.
    """
    try:
        content = SpaceFile.model_validate(raw)
    except ValidationError as error:
        return {}, form_faults(error)
    found, faults = _method(content.method, method)
    check: ValueCheck = partial(field_errors, found) if found else lambda _values: ()
    space, own = _space(content, file, check)
    faults += [*_null_faults(content.fixed, (), "fixed"), *own]
    spaces: dict[str | None, Space] = {None: space}
    for name, section in content.models.items():
        faults += _section_faults(content, section, name)
        spaces[name], section_faults = _space(_merged(content, section), file, check)
        # An error of the file's own keys is reported once, without the encoders that inherit it.
        faults += [
            (f"models.{name}.{at}", why) for at, why in section_faults if (at, why) not in own
        ]
    if found is None or faults:
        return {}, faults
    return {name: _typed(space, found) for name, space in spaces.items()}, []


def _method(name: str, method: type[Method] | None) -> tuple[type[Method] | None, list[Fault]]:
    if method is None:
        try:
            return method_class(name), []
        except SclsearchError as error:
            return None, [("method", f"{error} Pass --method FILE.py:CLASS for a method of yours.")]
    if name == (expected := method_name(method)):
        return method, []
    return method, [("method", f"must be {expected!r}, got {name!r}")]


def _section_faults(content: SpaceFile, section: Section, name: str) -> Iterator[Fault]:
    """Return the errors of an encoder's name and of the keys that its section removes."""
    if reason := name_fault(name):
        yield f"models.{name}", reason
    yield from _null_faults(section.fixed, content.fixed, f"models.{name}.fixed")
    yield from _null_faults(section.space, content.space, f"models.{name}.space")


def _null_faults(
    entries: Mapping[str, object], below: Collection[str], place: str
) -> Iterator[Fault]:
    for name, entry in entries.items():
        if entry is None and name not in below:
            yield f"{place}.{name}", "is null, and there is no key to remove"


def _merged(content: SpaceFile, section: Section) -> SpaceFile:
    """Return the file's keys overridden by an encoder's section."""
    fixed, space = {**content.fixed, **section.fixed}, {**content.space, **section.space}
    changes = {
        "note": section.note or content.note,
        "published": content.published if section.published is None else section.published,
        "fixed": {name: value for name, value in fixed.items() if value is not None},
        "space": {name: entry for name, entry in space.items() if entry is not None},
    }
    return content.model_copy(update=changes)


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
        note=content.note,
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
