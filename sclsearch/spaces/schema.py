"""Pydantic models of search space files: their keys and types."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from sclsearch.errors import suggestion
from sclsearch.spaces.parameters import Choice, Parameter, Range, same

MOST_VALUES = 1000
"""Largest number of values of a choice; the time to compare them grows quadratically."""
Fault = tuple[str, str]
Form = TypeVar("Form", bound=BaseModel)


class ChoiceEntry(BaseModel, strict=True):
    """YAML entry of a categorical parameter: `{type: choice, values: […]}`."""

    type: Literal["choice"]
    values: Annotated[list[Any], Field(min_length=1, max_length=MOST_VALUES)]
    when: dict[str, Any] = {}

    @model_validator(mode="after")
    def check_distinct(self) -> "ChoiceEntry":
        """Raise a validation error if two values are equal."""
        for n, value in enumerate(self.values):
            if any(same(value, earlier) for earlier in self.values[:n]):
                _refuse(f"values must differ, but {value!r} is there twice")
        return self


class RangeEntry(BaseModel, strict=True):
    """YAML entry of a float parameter: `{type: float, low: …, high: …}`, or with type `log`."""

    type: Literal["float", "log"]
    low: float
    high: float
    when: dict[str, Any] = {}

    @model_validator(mode="after")
    def check_bounds(self) -> "RangeEntry":
        """Raise a validation error if the range is empty, or if a log range is not positive."""
        _check_order(self.low, self.high)
        if self.type == "log" and self.low <= 0:
            _refuse(f"low > 0 must hold for a log range, but low={self.low!r}")
        return self


class IntEntry(BaseModel, strict=True):
    """YAML entry of an integer parameter: `{type: int, low: …, high: …, step: …}`."""

    type: Literal["int"]
    low: int
    high: int
    step: Annotated[int, Field(ge=1)] = 1
    when: dict[str, Any] = {}

    @model_validator(mode="after")
    def check_bounds(self) -> "IntEntry":
        """Raise a validation error if the range is empty, or if no step reaches `high`."""
        _check_order(self.low, self.high)
        if (self.high - self.low) % self.step:
            _refuse(
                f"high - low must be a multiple of step={self.step}, but there is no step on "
                f"high={self.high}"
            )
        return self


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
        return [(place, f"must be a mapping with a `type`, but there is {kind!r}.{hint}")]
    form = ENTRIES[kind]
    entry, unknown = read_form(raw, form, place), unknown_keys(raw, form.model_fields, place)
    if isinstance(entry, list) or unknown:
        return unknown + (entry if isinstance(entry, list) else [])
    when = {name: _alternatives(values) for name, values in entry.when.items()}
    if isinstance(entry, ChoiceEntry):
        return Choice(tuple(entry.values), when)
    step = entry.step if isinstance(entry, IntEntry) else None
    return Range(entry.low, entry.high, entry.type, step, when)


def _alternatives(values: object) -> tuple[object, ...]:
    return tuple(values) if isinstance(values, list) else (values,)


def _check_order(low: float, high: float) -> None:
    if low >= high:
        _refuse(f"low < high must hold, but low={low!r}, high={high!r}")


def _refuse(reason: str) -> NoReturn:
    # Pass the reason as an argument: pydantic would interpret its braces as a template.
    raise PydanticCustomError("refused", "{reason}", {"reason": reason})


def _fault(fault: ErrorDetails, place: str) -> Fault:
    for key in fault["loc"]:
        place = within(place, key)
    message = fault["msg"][0].lower() + fault["msg"][1:]
    if fault["type"] == "missing":
        return place, "is missing"
    if fault["type"] == "refused":
        return place, message
    if fault["type"] == "model_type":
        there = "nothing" if fault["input"] is None else _short(fault["input"])
        return place, f"there must be a mapping of keys to values, but there is {there}"
    return place, f"{message}, but there is {_short(fault['input'])}"


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:198]} …"
