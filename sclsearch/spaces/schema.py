"""Pydantic models of search space files: their keys, types and bounds."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from sclsearch.arguments import fault_reason, path_of, place_of
from sclsearch.spaces.space import Choice, Parameter, Range, same

MOST_VALUES = 1000
"""Largest number of values of a choice; the time to compare them grows quadratically."""
Fault = tuple[str, str]
"""Error of a file: the path of the key, such as `space.tau.low`, and the reason."""


def _as_tuple(values: object) -> tuple[object, ...]:
    return tuple(values) if isinstance(values, list) else (values,)


Condition = dict[str, Annotated[tuple[Any, ...], BeforeValidator(_as_tuple)]]
"""Other parameters and their required values; one value needs no list."""


class Form(BaseModel, strict=True, extra="forbid"):
    """Mapping of a search space file, which has known keys only."""


class ChoiceEntry(Form):
    """YAML entry of a categorical parameter: `{type: choice, values: […]}`."""

    type: Literal["choice"]
    values: Annotated[list[Any], Field(min_length=1, max_length=MOST_VALUES)]
    when: Condition = {}


class RangeEntry(Form):
    """YAML entry of a float parameter: `{type: float, low: …, high: …}`, or with type `log`."""

    type: Literal["float", "log"]
    low: float
    high: float
    when: Condition = {}


class IntEntry(Form):
    """YAML entry of an integer parameter: `{type: int, low: …, high: …, step: …}`."""

    type: Literal["int"]
    low: int
    high: int
    step: Annotated[int, Field(ge=1)] = 1
    when: Condition = {}


AnyEntry = ChoiceEntry | RangeEntry | IntEntry


def parameter_of(entry: AnyEntry) -> Parameter:
    """Return the parameter of an entry."""
    if isinstance(entry, ChoiceEntry):
        return Choice(tuple(entry.values), entry.when)
    step = entry.step if isinstance(entry, IntEntry) else None
    return Range(entry.low, entry.high, entry.type, step, entry.when)


def _check_entry(entry: AnyEntry) -> AnyEntry:
    """Raise ValueError if values or bounds contradict each other."""
    if isinstance(entry, ChoiceEntry):
        for n, value in enumerate(entry.values):
            if any(same(value, earlier) for earlier in entry.values[:n]):
                raise ValueError(f"values must differ, got {value!r} twice")
    elif entry.low >= entry.high:
        raise ValueError(f"low must be below high, got low={entry.low!r}, high={entry.high!r}")
    elif entry.type == "log" and entry.low <= 0:
        raise ValueError(f"low of a log range must be above 0, got {entry.low!r}")
    elif isinstance(entry, IntEntry) and (entry.high - entry.low) % entry.step:
        raise ValueError(
            f"high - low must be a multiple of step={entry.step}, got high={entry.high}"
        )
    return entry


Entry = Annotated[AnyEntry, Field(discriminator="type"), AfterValidator(_check_entry)]
"""YAML entry of a searched parameter."""


class SpaceFile(Form):
    """Top level of a search space file."""

    method: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    published: list[dict[str, Any]] = []
    fixed: dict[str, Any] = {}
    space: dict[str, Entry]


class StoredSpace(Form):
    """Searched parameters of a study's record."""

    space: dict[str, Entry]


ENTRIES: Mapping[str | int, type[Form]] = MappingProxyType(
    {"choice": ChoiceEntry, "float": RangeEntry, "log": RangeEntry, "int": IntEntry}
)
"""Models of the entries by their `type`."""


def form_faults(error: ValidationError) -> list[Fault]:
    """Return the errors that pydantic found in a search space file."""
    return [_fault(fault) for fault in error.errors()]


def _fault(fault: ErrorDetails) -> Fault:
    path = path_of(fault)
    form: type[Form] = SpaceFile
    match path:
        # Pydantic adds the type of an entry to the path.
        case ["space", _, kind, *_] if kind in ENTRIES:
            del path[2]
            form = ENTRIES[kind]
    return place_of(path), fault_reason(fault, form.model_fields)
