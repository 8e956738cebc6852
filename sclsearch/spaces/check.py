"""Validation of search space files; reports every error at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sclsearch.encoders.models import name_fault
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods import method_class, method_name
from sclsearch.methods.base import Method
from sclsearch.methods.fields import as_tuples, field_errors, field_types
from sclsearch.spaces.parameters import Choice, Parameter, Range
from sclsearch.spaces.schema import (
    Fault,
    Section,
    SpaceFile,
    read_form,
    read_parameter,
    unknown_keys,
    within,
)
from sclsearch.spaces.space import Space, Values

ValueCheck = Callable[[Values], Sequence[Fault]]


@dataclass(frozen=True, slots=True)
class Draft:
    """Search space during validation, and the parameters with unreadable entries."""

    space: Space
    unread: frozenset[str] = frozenset()


def read_spaces(
    raw: object, file: str, method: type[Method] | None
) -> tuple[dict[str | None, Space], list[Fault]]:
    """Return the search spaces of a file by encoder name, or the errors of the file.

    The key None has the space for encoders without a section.

    Args:
        raw: The parsed YAML content.
        file: Path of the file, as error messages show it.
        method: Required method class. None accepts the method that the file names.
    """
    content, faults = _content(raw)
    if content is None:
        return {}, faults
    if not content.source:
        faults.append(("source", "is missing"))
    found, method_faults = _method(content.method, method)
    faults += method_faults
    check: ValueCheck = partial(field_errors, found) if found else lambda _values: ()
    empty = Space(content.method, content.source, {}, (), {}, file, content.note)
    base, more = _draft(Draft(empty), content, "")
    own = more + _faults(base, check)
    faults += own
    drafts: dict[str | None, Draft] = {None: base}
    for name, section in content.models.items():
        draft, section_faults = _section(base, section, name, check, own)
        faults += section_faults
        drafts[name] = draft
    if found is None or faults:
        return {}, faults
    return {name: _typed(draft.space, found) for name, draft in drafts.items()}, []


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
    return method, [("method", f"must be {expected!r}, but there is {name!r}")]


def _section(
    base: Draft, raw: object, name: str, check: ValueCheck, known: Sequence[Fault]
) -> tuple[Draft, list[Fault]]:
    """Return the space of one encoder and its errors, without errors of the file's base space."""
    place = within("models", name)
    faults = [(place, reason)] if (reason := name_fault(name)) else []
    faults += unknown_keys(raw, Section.model_fields, place)
    content = read_form(raw, Section, place)
    if isinstance(content, list):
        return base, faults + content
    draft, more = _draft(base, content, place)
    merged = [fault for fault in _faults(draft, check) if fault not in known]
    return draft, faults + more + [(within(place, where), reason) for where, reason in merged]


def _draft(base: Draft, content: SpaceFile | Section, place: str) -> tuple[Draft, list[Fault]]:
    """Return the base space with a file's or section's entries merged in; null removes a key."""
    faults: list[Fault] = []
    parameters: dict[str, Parameter] = {}
    unread = set()
    for name, entry in _given(content.space).items():
        parameter = read_parameter(entry, within(place, f"space.{name}"))
        if isinstance(parameter, list):
            unread.add(name)
            faults += parameter
        else:
            parameters[name] = parameter
    faults += [
        *_not_there(
            base.space.parameters.keys() | base.unread, content.space, within(place, "space")
        )
    ]
    faults += [*_not_there(base.space.fixed.keys(), content.fixed, within(place, "fixed"))]
    published = base.space.published if content.published is None else tuple(content.published)
    space = replace(
        base.space,
        parameters=_laid_over(base.space.parameters, content.space, parameters),
        fixed=_laid_over(base.space.fixed, content.fixed, _given(content.fixed)),
        published=published,
        note=content.note or base.space.note,
    )
    return Draft(space, base.unread - content.space.keys() | unread), faults


def _given(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in entries.items() if entry is not None}


def _laid_over(below: Mapping[str, Any], raw: Values, above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merged entries, without keys that are null or unreadable in `raw`."""
    return {
        name: entry
        for name, entry in {**below, **above}.items()
        if name in above or name not in raw
    }


def _not_there(below: Set[str], raw: Values, place: str) -> Iterator[Fault]:
    for name, entry in raw.items():
        if entry is None and name not in below:
            yield within(place, name), "has no value, and there is none to take away"


def _faults(draft: Draft, check: ValueCheck) -> list[Fault]:
    """Return the errors in a space's values, with paths relative to its section of the file."""
    space = draft.space
    faults = [
        (f"space.{name}", reason)
        for name, parameter in space.parameters.items()
        for reason in dict.fromkeys(_bound_faults(name, parameter, check))
    ]
    faults += [
        (f"space.{name}.when", reason)
        for name in space.parameters
        for reason in _when_faults(name, draft)
    ]
    faults += [(f"fixed.{name}", reason) for name, reason in check(space.fixed)]
    faults += [
        (f"fixed.{name}", "must be fixed or searched, but it is in `space` as well")
        for name in space.fixed
        if name in space.parameters or name in draft.unread
    ]
    for number, values in enumerate(space.published):
        faults += _published_faults(f"published[{number}]", values, draft, check)
    return faults


def _bound_faults(name: str, parameter: Parameter, check: ValueCheck) -> Iterator[str]:
    bounds = parameter.values if isinstance(parameter, Choice) else (parameter.low, parameter.high)
    for value in bounds:
        for _, reason in check({name: value}):
            yield reason


def _when_faults(name: str, draft: Draft) -> Iterator[str]:
    parameters = draft.space.parameters
    names = [*parameters]
    for key, values in parameters[name].when.items():
        if key in draft.unread:
            continue
        if key not in parameters:
            yield f"{key} must be in `space`, but it is not.{suggestion(key, parameters)}"
        elif names.index(key) >= names.index(name):
            yield f"{key} must come before {name}, but it does not"
        else:
            yield from _condition_faults(key, parameters[key], values)


def _condition_faults(key: str, condition: Parameter, values: Sequence[object]) -> Iterator[str]:
    if not isinstance(condition, Choice):
        yield f"{key} must have `type: choice`, but it is a range"
        return
    if not values:
        yield f"{key} must have a value, but the list is empty"
    for value in values:
        if not condition.contains(value):
            yield f"{key} must be {condition}, but there is {value!r}"


def _published_faults(
    place: str, values: Values, draft: Draft, check: ValueCheck
) -> Iterator[Fault]:
    refused = dict(check(values))
    for name, reason in refused.items():
        yield within(place, name), reason
    for name, reason in draft.space.field_errors(values):
        if name not in draft.unread and name not in refused:
            yield place, f"{name} {reason}"


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
