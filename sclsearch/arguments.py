"""Type checks and selection of dataclass fields, and the texts of pydantic's errors.

Error messages name the command line's option; the Python API replaces it by the argument.
"""

import inspect
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache, wraps
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from sclsearch.errors import SclsearchError, suggestion

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import ErrorDetails

_P = ParamSpec("_P")
_R = TypeVar("_R")

DATA, OWN = "Data", "Own files"

_WORDS: Mapping[str, str] = {
    "Input should": "must",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid dictionary": "a mapping",
    "an object": "a mapping",
    "a valid tuple": "a list",
    "a valid array": "a list",
    "a valid string": "text",
}
"""Phrases of pydantic's messages, and ours."""

_OPTIONS: Mapping[str, str] = {"settings": "set", "custom_method": "method", "path": "task"}
_ARGUMENTS: Mapping[str, str] = {"set": "settings", "from": "from_study"}
# Group 1 matches commands: text in backquotes or after the program's name. Their options stay.
_OPTION = re.compile(r"(`[^`]*`|\bsclsearch [^\n]*)|(?<![\w-])--([a-z]+(?:-[a-z]+)*)")


@dataclass(frozen=True, slots=True)
class Option:
    """Declaration of a dataclass's field as an option, in the metadata of its `Annotated` type.

    Its meaning, its default and an example are the field's entry in the docstring of the class.
    """

    panel: str  # heading of its group in `--help`
    more: bool = False  # whether only `--help-all` shows it
    name: str = ""  # on the command line; empty if it is the field's
    metavar: str | None = None  # form of the value in `--help`
    envvar: str | None = None  # environment variable that gives the default
    kind: Any = None  # type on the command line; None if it is the field's


def declared(*kinds: type) -> dict[str, tuple["Field[Any]", Option, str]]:
    """Return the fields of dataclasses that are options, by name, with their options and texts."""
    return {
        one.name: (one, option, entries(kind, "Attributes")[one.name])
        for kind in kinds
        for one in fields(kind)
        for option in get_args(one.type)
        if isinstance(option, Option)
    }


@cache
def entries(thing: Any, section: str) -> Mapping[str, str]:
    """Return the entries of a section at the end of a docstring, such as `Attributes`, by name."""
    text = (inspect.getdoc(thing) or "").partition(f"\n\n{section}:\n")[2]
    found = re.findall(r"^ {4}([a-z-][\w/ -]*): (.+(?:\n {6,}.+)*)", text, re.MULTILINE)
    return {name: " ".join(entry.split()) for name, entry in found}


def with_options(
    *kinds: type, **defaults: object
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that lists the options of dataclasses in a function's signature and help.

    They replace `**options: Unpack[KEYWORDS]`: those that `KEYWORDS` names, with its types.
    `defaults` are those that differ from the fields' defaults.
    """

    def decorated(function: Callable[_P, _R]) -> Callable[_P, _R]:
        whole, lines = inspect.signature(function), [function.__doc__ or "", "    Options:"]
        *first, last = whole.parameters.values()
        keywords = get_args(last.annotation)[0].__annotations__
        shown = [one.replace(annotation=type_text(one.annotation)) for one in first]
        for name, (field, _, text) in declared(*kinds).items():
            if name in keywords:
                default = defaults.get(name, {} if field.default is MISSING else field.default)
                option = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
                shown.append(option.replace(annotation=type_text(keywords[name])))
                lines.append(f"        {name}: {text}")
        function.__signature__ = whole.replace(parameters=shown)  # type: ignore[attr-defined]
        function.__doc__ = "\n".join(lines)
        return function

    return decorated


def type_text(kind: Any) -> str:
    """Return a type as text, without modules and without the metadata of `Annotated`."""
    if get_origin(kind) is Annotated:
        return type_text(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return " | ".join(dict.fromkeys(map(type_text, get_args(kind))))
    text = inspect.formatannotation(kind).replace("NoneType", "None")
    text = getattr(kind, "__forward_arg__", kind if isinstance(kind, str) else text)
    return re.sub(r"\b(\w+\.)+(?=\w)", "", text)


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
    The error has one line per field, which begins with its option.
    """
    from pydantic import ValidationError

    lines = []
    for name, check in _types(thing.__class__).items():
        value = getattr(thing, name)
        option = _OPTIONS.get(name, name).replace("_", "-")
        try:
            fitting = check.validate_python(value)
            known = expanded(fitting) if isinstance(fitting, Path) else fitting
            object.__setattr__(thing, name, known)
            str(known).encode()
        except ValidationError as error:
            reasons = " or ".join(dict.fromkeys(map(_reason, error.errors())))
            lines.append(f"--{option}: {reasons}, got {_given(value)}.")
        except UnicodeEncodeError:  # a path with bytes of another encoding
            lines.append(f"--{option}: must be valid UTF-8, got {str(value)!r}.")
    if lines:
        raise SclsearchError("\n".join(lines))


def _given(value: object) -> str:
    plain = value is None or isinstance(value, str | int | float | Sequence | Mapping | Path)
    return repr(value) if plain else f"an object of type {type(value).__name__}"


@cache
def _types(kind: type) -> "Mapping[str, TypeAdapter[Any]]":
    from pydantic import TypeAdapter

    types: dict[str, Any] = {field.name: field.type for field in fields(kind)}
    return {
        name: TypeAdapter(found)
        for name, found in types.items()
        if not isinstance((get_args(found) or (found,))[0], str | ForwardRef)
    }


def fault_texts(error: "ValidationError", known: Iterable[str] = ()) -> list[str]:
    """Return each error that pydantic found as `<place>: <reason>`; `known` are valid keys."""
    return [_fault_text(fault, known) for fault in error.errors()]


def _fault_text(fault: "ErrorDetails", known: Iterable[str]) -> str:
    keys, reason = fault["loc"], _reason(fault)
    if fault["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        reason = f"unknown key.{suggestion(str(keys[-1]), known)}"
    elif fault["type"] == "missing":
        reason = "is missing"
    elif fault["type"] != "value_error":
        reason += f", got {'null' if fault['input'] is None else reprlib.repr(fault['input'])}"
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return f"{place.removeprefix('.')}: {reason}" if place else reason


def _reason(fault: "ErrorDetails") -> str:
    """Return what must hold, for one error that pydantic found."""
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    # Pydantic's suffix, such as "unable to parse string as a number", only repeats the message.
    message = re.sub(", (unable|got) .*", "", fault["msg"])
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return f"{message[0].lower()}{message[1:]}"


def option_words(options: Mapping[str, object]) -> list[str]:
    """Return the words of a command line for options by name, without those that are None."""
    given = ((name, str(value)) for name, value in options.items() if value is not None)
    return [word for pair in given for word in pair]
