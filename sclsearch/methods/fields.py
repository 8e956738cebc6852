"""Types, descriptions and validation of hyperparameters."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sclsearch.arguments import entries, fault_texts
from sclsearch.canonical import as_tuples
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Method, Training

BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
"""Signs of the bounds in a JSON schema."""
LARGEST = 100_000
"""Largest integer value of a field; a training with more epochs, for example, never ends."""


@cache
def field_types(method: type[Method]) -> Mapping[str, Any]:
    """Return the type of each hyperparameter: those of the method, then those of `Training`."""
    kinds: tuple[type[Any], ...] = (method, Training)
    hints = {n: h for one in kinds for n, h in get_type_hints(one, include_extras=True).items()}
    names = [field.name for one in kinds for field in fields(one)]
    choices = {name for name in names if get_origin(hints[name]) is Literal}
    return {n: hints[n] if n in choices else Annotated[hints[n], _WITHIN] for n in names}


def _bounded(value: object) -> object:
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"must be between -{LARGEST} and {LARGEST}, got {value!r}")
    return value


_WITHIN = AfterValidator(_bounded)


def mapping_type(types: Mapping[str, Any]) -> Any:
    """Return the type of a mapping for pydantic, which may have these keys and no others."""
    make: Any = TypedDict
    found = make("mapping_type", types, total=False)
    found.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    return found


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """Description of a hyperparameter for users."""

    name: str  # in YAML files, in `--set` and in MLflow
    kind: str  # type and bounds, for example `number > 0`
    default: object  # for the method; a protocol or a search space may replace it
    meaning: str  # its entry in the class's docstring
    shared: bool  # all methods have it


def description(method: type[Method]) -> str:
    """Return the docstring of a method without `Attributes`, which `describe_fields` returns."""
    return (inspect.getdoc(method) or "").partition("\n\nAttributes:\n")[0]


def describe_fields(method: type[Method]) -> list[FieldDescription]:
    """Return descriptions of all hyperparameters: those of the method, then those of `Training`."""
    owners: tuple[type[Any], ...] = (method, Training)
    return [
        FieldDescription(
            name=field.name,
            kind=_kind(TypeAdapter(field_types(method)[field.name]).json_schema()),
            default=method.training.get(field.name, field.default),
            meaning=_meanings(owner).get(field.name, ""),
            shared=owner is Training,
        )
        for owner in owners
        for field in fields(owner)
    ]


def _meanings(kind: type) -> dict[str, str]:
    bases = reversed(kind.__mro__)
    return {n: text for base in bases for n, text in entries(base, "Attributes").items()}


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    kind = "true | false" if schema.get("type") == "boolean" else str(schema.get("type", "any"))
    bounds = [f" {sign} {schema[key]:g}" for key, sign in BOUNDS.items() if key in schema]
    return kind + ",".join(bounds)


@cache
def value_schema(method: type[Method]) -> TypeAdapter[dict[str, object]]:
    """Return the validator of some hyperparameters of a method."""
    return TypeAdapter(mapping_type(field_types(method)))


def typed(method: type[Method], values: Mapping[str, object], where: str) -> dict[str, object]:
    """Return values converted to the types of their fields, for example 1 to 1.0.

    Raise SclsearchError with a line per unknown or invalid field, which begins with `where`.
    """
    try:
        found = value_schema(method).validate_python({n: as_tuples(v) for n, v in values.items()})
    except ValidationError as error:
        lines = fault_texts(error, field_types(method))
        raise SclsearchError("\n".join(f"{where}{line}" for line in lines)) from error
    return {name: found[name] for name in values}


def build(
    method: type[Method], values: Mapping[str, object], where: str
) -> tuple[Method, Training]:
    """Return the method and the training settings with the given hyperparameter values."""
    checked: dict[str, Any] = typed(method, values, f"{where}: ")
    shared = {f.name: checked.pop(f.name) for f in fields(Training) if f.name in checked}
    return method(**checked), Training(**shared)


def resolved(method: Method, training: Training) -> dict[str, object]:
    """Return all hyperparameters with their values, those of the method first."""
    things: tuple[Any, ...] = (method, training)
    return {field.name: getattr(thing, field.name) for thing in things for field in fields(thing)}
