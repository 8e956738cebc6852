"""Type checks and selection of dataclass fields, and the texts of pydantic's errors.

Error messages name the command line's option; the Python API replaces it by the argument.
"""

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sclsearch.errors import SclsearchError, suggestion

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import ErrorDetails

_P = ParamSpec("_P")
_R = TypeVar("_R")

_NOT_A_MAPPING = "must be a mapping of keys to values"
_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "path_type": "must be a path",
        "tuple_type": "must be a list such as [a,b]",
        "missing": "must have more values",
        "greater_than_equal": "must be at least {ge:g}",
        "less_than_equal": "must be at most {le:g}",
        "less_than": "must be less than {lt:g}",
        "dict_type": _NOT_A_MAPPING,
        "model_type": _NOT_A_MAPPING,
        "model_attributes_type": _NOT_A_MAPPING,
        "union_tag_not_found": "must have the key {discriminator}",
        "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    }
)


_OPTIONS = MappingProxyType({"settings": "set", "custom_method": "method", "path": "task"})
_ARGUMENTS = MappingProxyType({"set": "settings"})
# Group 1 matches commands: text in backquotes or after the program's name. Their options stay.
_OPTION = re.compile(r"(`[^`]*`|\bsclsearch [^\n]*)|(?<![\w-])--([a-z]+(?:-[a-z]+)*)")


def arguments_named(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function with Python argument names instead of options in its errors."""

    @wraps(function)
    def named(*arguments: _P.args, **options: _P.kwargs) -> _R:
        try:
            return function(*arguments, **options)
        except SclsearchError as error:
            message = _OPTION.sub(_argument, str(error))
            raise type(error)(message).with_traceback(error.__traceback__) from error.__cause__

    return named


def _argument(found: re.Match[str]) -> str:
    return found[1] or _ARGUMENTS.get(found[2], found[2]).replace("-", "_")


def expanded(path: Path) -> Path:
    """Return a path with a leading `~` expanded; unchanged if the user does not exist."""
    with suppress(RuntimeError):
        return path.expanduser()
    return path


def fields_of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values whose keys are fields of a dataclass, as its keyword arguments."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}


def check_fields(thing: Any) -> None:
    """Validate a dataclass's fields against their types and convert the values.

    A dataclass calls it in `__post_init__`. Text becomes a path, a list becomes a tuple, and a
    leading `~` of a path is expanded. Fields with a quoted type are neither checked nor changed.

    Args:
        thing: The dataclass instance, frozen or not.

    Raises:
        SclsearchError: Values have a wrong type. The message has one line per field, which begins
            with its option.
    """
    from pydantic import ValidationError

    lines = []
    for name, check in _types(thing.__class__).items():
        value = getattr(thing, name)
        try:
            fitting = check.validate_python(value)
        except ValidationError as error:
            reasons = " or ".join(dict.fromkeys(map(fault_message, error.errors())))
            option = _OPTIONS.get(name, name).replace("_", "-")
            lines.append(f"--{option}: {reasons}, got {value!r}.")
        else:
            known = expanded(fitting) if isinstance(fitting, Path) else fitting
            object.__setattr__(thing, name, known)
    if lines:
        raise SclsearchError("\n".join(lines))


@cache
def _types(kind: type) -> "Mapping[str, TypeAdapter[Any]]":
    from pydantic import TypeAdapter

    return {
        field.name: TypeAdapter(field.type)
        for field in fields(kind)
        if not isinstance(field.type, str)
    }


def fault_texts(error: "ValidationError", known: Iterable[str] = ()) -> list[str]:
    """Return each error that pydantic found as `<place>: <reason>`.

    Args:
        error: The errors of a value.
        known: Valid keys, for the hint at an unknown key.
    """
    texts = [(place_of(fault["loc"]), fault_reason(fault, known)) for fault in error.errors()]
    return [f"{place}: {reason}" if place else reason for place, reason in texts]


def place_of(path: Iterable[str | int]) -> str:
    """Return a path of keys and list indices as one text, such as `published[0].tau`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def fault_reason(fault: "ErrorDetails", known: Iterable[str]) -> str:
    """Return what must hold and what there is, for one error that pydantic found."""
    if fault["type"] == "missing":
        return "is missing"
    if fault["type"] == "extra_forbidden":
        return f"unknown key.{suggestion(str(fault['loc'][-1]), known)}"
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    value = "nothing" if fault["input"] is None else reprlib.repr(fault["input"])
    return f"{fault_message(fault)}, got {value}"


def fault_message(fault: "ErrorDetails") -> str:
    """Return what must hold, for one error that pydantic found."""
    if fault["type"] in _MESSAGES:
        return _MESSAGES[fault["type"]].format(**fault.get("ctx", {}))
    # Pydantic's suffix, such as "unable to parse string as a number", only repeats the message.
    message = re.sub(r", (unable|got) .*", "", fault["msg"]).replace("Input should", "must", 1)
    return f"{message[0].lower()}{message[1:]}"
