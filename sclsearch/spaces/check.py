"""Validation of search space files; reports every error at once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sclsearch.encoders.models import name_fault
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods import method_class, method_name
from sclsearch.methods.base import Method
from sclsearch.methods.fields import as_tuples, field_errors, field_types
from sclsearch.spaces.schema import (
    Fault,
    Section,
    SpaceFile,
    read_form,
    read_parameter,
    unknown_keys,
    within,
)
from sclsearch.spaces.space import Choice, Parameter, Range, Space, Values

ValueCheck = Callable[[Values], Sequence[Fault]]


def read_spaces(
    raw: object, file: str, method: type[Method] | None
) -> tuple[dict[str | None, Space], list[Fault]]:
    """Return the search spaces in parsed YAML content by encoder name, or its errors.

    The key None has the space for encoders without a section. If `method` is None, the file may
    name any method.
    """
    content, faults = _content(raw)
    if content is None:
        return {}, faults
    if not content.source:
        faults.append(("source", "is missing"))
    found, method_faults = _method(content.method, method)
    check: ValueCheck = partial(field_errors, found) if found else lambda _values: ()
    space, own = _space(content, file, check)
    faults += [
        *method_faults,
        *_null_faults(content.space, (), "space"),
        *_null_faults(content.fixed, (), "fixed"),
        *own,
    ]
    spaces: dict[str | None, Space] = {None: space}
    for name, section in content.models.items():
        merged, section_faults = _merged(content, section, name)
        faults += section_faults
        spaces[name], merged_faults = _space(merged, file, check)
        place = within("models", name)
        # An error of the file's own keys is reported once, without the encoders that inherit it.
        faults += [(within(place, at), why) for at, why in merged_faults if (at, why) not in own]
    if found is None or faults:
        return {}, faults
    return {name: _typed(space, found) for name, space in spaces.items()}, []


def _content(raw: object) -> tuple[SpaceFile | None, list[Fault]]:
    """Return the validated keys of a file and its errors.

    If only `published` is malformed, the result lacks this key, so that checks can continue.
    """
    content, faults = read_form(raw, SpaceFile, ""), unknown_keys(raw, SpaceFile.model_fields, "")
    if not isinstance(content, list):
        return content, faults
    faults += content
    if not isinstance(raw, dict):
        return None, faults
    rest = {key: value for key, value in raw.items() if key != "published"}
    content = read_form(rest, SpaceFile, "")
    return None if isinstance(content, list) else content, faults


def _method(name: str, method: type[Method] | None) -> tuple[type[Method] | None, list[Fault]]:
    if not name:
        return method, [("method", "is missing")]
    if method is None:
        try:
            return method_class(name), []
        except SclsearchError as error:
            return None, [("method", str(error))]
    if name == (expected := method_name(method)):
        return method, []
    return method, [("method", f"must be {expected!r}, got {name!r}")]


def _merged(content: SpaceFile, raw: object, name: str) -> tuple[SpaceFile, list[Fault]]:
    """Return the file's keys overridden by an encoder's section, and the section's errors."""
    place = within("models", name)
    faults = [(place, reason)] if (reason := name_fault(name)) else []
    faults += unknown_keys(raw, Section.model_fields, place)
    section = read_form(raw, Section, place)
    if isinstance(section, list):
        return content, faults + section
    faults += _null_faults(section.space, content.space, within(place, "space"))
    faults += _null_faults(section.fixed, content.fixed, within(place, "fixed"))
    changes = {
        "note": section.note or content.note,
        "published": content.published if section.published is None else section.published,
        "fixed": {**content.fixed, **section.fixed},
        "space": {**content.space, **section.space},
    }
    return content.model_copy(update=changes), faults


def _null_faults(entries: Values, below: Collection[str], place: str) -> Iterator[Fault]:
    for name, entry in entries.items():
        if entry is None and name not in below:
            yield within(place, name), "has no value, and there is no key to remove"


def _space(content: SpaceFile, file: str, check: ValueCheck) -> tuple[Space, list[Fault]]:
    """Return the space of a file's keys, without those that are null, and all errors."""
    faults: list[Fault] = []
    parameters: dict[str, Parameter] = {}
    unread = set()
    for name, entry in content.space.items():
        if entry is None:
            continue
        parameter = read_parameter(entry, f"space.{name}")
        if isinstance(parameter, list):
            unread.add(name)
            faults += parameter
        else:
            parameters[name] = parameter
    if "chunk_tokens" in parameters:
        faults.append(("space.chunk_tokens", "sets the use of memory alone; move it to fixed"))
    space = Space(
        method=content.method,
        source=content.source,
        parameters=parameters,
        published=tuple(content.published),
        fixed={name: entry for name, entry in content.fixed.items() if entry is not None},
        file=file,
        note=content.note,
    )
    faults += [
        (f"space.{name}", reason)
        for name, parameter in parameters.items()
        for reason in dict.fromkeys(_bound_faults(name, parameter, check))
    ]
    faults += [
        (f"space.{name}.when", reason)
        for name, parameter in parameters.items()
        for key in parameter.when
        if key not in unread
        for reason in _when_faults(name, key, parameters)
    ]
    faults += [(f"fixed.{name}", reason) for name, reason in check(space.fixed)]
    faults += [
        (f"fixed.{name}", "must be fixed or searched, got both")
        for name in space.fixed
        if name in parameters or name in unread
    ]
    for number, values in enumerate(space.published):
        refused = dict(check(values))
        place = f"published[{number}]"
        faults += [(within(place, name), reason) for name, reason in refused.items()]
        faults += [
            (place, f"{name} {reason}")
            for name, reason in space.field_errors(values)
            if name not in unread and name not in refused
        ]
    return space, faults


def _bound_faults(name: str, parameter: Parameter, check: ValueCheck) -> Iterator[str]:
    bounds = parameter.values if isinstance(parameter, Choice) else (parameter.low, parameter.high)
    for value in bounds:
        for _, reason in check({name: value}):
            yield reason


def _when_faults(name: str, key: str, parameters: Mapping[str, Parameter]) -> list[str]:
    """Return the errors of the required values of parameter `key` in the condition of another."""
    names, condition, values = [*parameters], parameters.get(key), parameters[name].when[key]
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
    return replace(
        space,
        parameters=parameters,
        published=tuple({k: typed(k, v) for k, v in each.items()} for each in space.published),
        fixed={name: typed(name, value) for name, value in space.fixed.items()},
    ).with_settings({})
