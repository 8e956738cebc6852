"""Pydantic models of search space files: their keys and types."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from sclsearch.errors import suggestion
from sclsearch.spaces.space import Choice, Parameter, Range, same

MOST_VALUES = 1000
"""Largest number of values of a choice; the time to compare them grows quadratically."""
Fault = tuple[str, str]
"""Error of a file: the path of the key, such as `space.tau.low`, and the reason."""
Form = TypeVar("Form", bound=BaseModel)


class ChoiceEntry(BaseModel, strict=True):
    """YAML entry of a categorical parameter: `{type: choice, values: […]}`."""

    type: Literal["choice"]
    values: Annotated[list[Any], Field(min_length=1, max_length=MOST_VALUES)]
    when: dict[str, Any] = {}


class RangeEntry(BaseModel, strict=True):
    """YAML entry of a float parameter: `{type: float, low: …, high: …}`, or with type `log`."""

    type: Literal["float", "log"]
    low: float
    high: float
    when: dict[str, Any] = {}


class IntEntry(BaseModel, strict=True):
    """YAML entry of an integer parameter: `{type: int, low: …, high: …, step: …}`."""

    type: Literal["int"]
    low: int
    high: int
    step: Annotated[int, Field(ge=1)] = 1
    when: dict[str, Any] = {}


class Section(BaseModel, strict=True):
    """Overrides for one encoder in a search space file; null removes a key of the file."""

    note: str = ""
    published: list[dict[str, Any]] | None = None
    fixed: dict[str, Any] = {}
    space: dict[str, Any] = {}


class SpaceFile(BaseModel, strict=True):
    """Top level of a search space file.

    Other functions read the entries of `space` and `models` one by one, to report all errors.
    """

    method: str = ""
    source: str = ""
    note: str = ""
    published: list[dict[str, Any]] = []
    fixed: dict[str, Any] = {}
    space: dict[str, Any]
    models: dict[str, Any] = {}


ENTRIES: Mapping[str, type[ChoiceEntry | RangeEntry | IntEntry]] = MappingProxyType(
    {"choice": ChoiceEntry, "float": RangeEntry, "log": RangeEntry, "int": IntEntry}
)


def read_form(raw: object, form: type[Form], place: str) -> Form | list[Fault]:
    """Return the validated content of a file, section or entry; or a list of its type errors."""
    try:
        return form.model_validate(raw)
    except ValidationError as error:
        return [_fault(fault, place) for fault in error.errors()]


def unknown_keys(raw: object, known: Collection[str], place: str) -> list[Fault]:
    """Return one error per unknown key of a mapping."""
    return [
        (within(place, str(key)), f"unknown key.{suggestion(str(key), known)}")
        for key in (raw if isinstance(raw, dict) else ())
        if key not in known
    ]


def within(place: str, key: str | int) -> str:
    """Return the path of a key as `place.key`, or of a list index as `place[key]`."""
    if isinstance(key, int):
        return f"{place}[{key}]"
    return f"{place}.{key}" if place else key


def read_parameter(raw: object, place: str) -> Parameter | list[Fault]:
    """Return the parameter for an entry of `space`, or a list of the entry's errors."""
    kind = raw.get("type") if isinstance(raw, dict) else raw
    if not isinstance(kind, str) or kind not in ENTRIES:
        hint = suggestion(str(kind), ENTRIES)
        return [(place, f"must be a mapping with a `type`, got {kind!r}.{hint}")]
    form = ENTRIES[kind]
    entry, unknown = read_form(raw, form, place), unknown_keys(raw, form.model_fields, place)
    if isinstance(entry, list) or unknown:
        return unknown + (entry if isinstance(entry, list) else [])
    if reason := _bounds_reason(entry):
        return [(place, reason)]
    when = {
        name: tuple(values) if isinstance(values, list) else (values,)
        for name, values in entry.when.items()
    }
    if isinstance(entry, ChoiceEntry):
        return Choice(tuple(entry.values), when)
    step = entry.step if isinstance(entry, IntEntry) else None
    return Range(entry.low, entry.high, entry.type, step, when)


def _bounds_reason(entry: ChoiceEntry | RangeEntry | IntEntry) -> str:
    """Return why values or bounds contradict each other; empty if they do not."""
    if isinstance(entry, ChoiceEntry):
        for n, value in enumerate(entry.values):
            if any(same(value, earlier) for earlier in entry.values[:n]):
                return f"values must differ, got {value!r} twice"
    elif entry.low >= entry.high:
        return f"low must be below high, got low={entry.low!r}, high={entry.high!r}"
    elif entry.type == "log" and entry.low <= 0:
        return f"low of a log range must be above 0, got {entry.low!r}"
    elif isinstance(entry, IntEntry) and (entry.high - entry.low) % entry.step:
        return f"high - low must be a multiple of step={entry.step}, got high={entry.high}"
    return ""


def _fault(fault: ErrorDetails, place: str) -> Fault:
    for key in fault["loc"]:
        place = within(place, key)
    if fault["type"] == "missing":
        return place, "is missing"
    value = " ".join(repr(fault["input"]).split())
    value = value if len(value) <= 200 else f"{value[:198]} …"
    if fault["type"] == "model_type":
        value = "nothing" if fault["input"] is None else value
        return place, f"must be a mapping of keys to values, got {value}"
    return place, f"{fault['msg'][0].lower()}{fault['msg'][1:]}, got {value}"
