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

_NOT_A_MAPPING = "must be a mapping of keys to values"
_MESSAGES: Mapping[str, str] = {
    "path_type": "must be a path",
    "dataclass_type": "must be a {class_name}",
    "tuple_type": "must be a list such as [0.1,0.2]",
    "missing": "must have more values",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be less than {lt:g}",
    "dict_type": _NOT_A_MAPPING,
    "model_type": _NOT_A_MAPPING,
    "model_attributes_type": _NOT_A_MAPPING,
    "union_tag_not_found": "must have the key {discriminator}",
    "too_short": "must have {min_length} or more items",
    "too_long": "must have {max_length} or fewer items",
    "string_too_short": "must have {min_length} or more characters",
    "string_type": "must be text",
    "invalid_key": "keys must be text",
}


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
            lines.append(f"--{option}: {all_reasons(error)}, got {_given(value)}.")
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
    texts = [(place_of(path_of(fault)), fault_reason(fault, known)) for fault in error.errors()]
    return [f"{place}: {reason}" if place else reason for place, reason in texts]


def path_of(fault: "ErrorDetails") -> list[str | int]:
    """Return the path of an invalid value, or of the mapping that has an invalid key."""
    path = [*fault["loc"]]
    if path[-1:] == ["[key]"]:
        return path[:-2]
    return path[:-1] if fault["type"] == "invalid_key" else path


def place_of(path: Iterable[str | int]) -> str:
    """Return a path of keys and list indices as one text, such as `published[0].tau`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def fault_reason(fault: "ErrorDetails", known: Iterable[str]) -> str:
    """Return what must hold and what there is, for one error that pydantic found."""
    if fault["type"] == "missing":
        return "is missing"
    if fault["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return f"unknown key.{suggestion(str(fault['loc'][-1]), known)}"
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "union_tag_invalid":
        key, tag, tags = (fault["ctx"][one] for one in ("discriminator", "tag", "expected_tags"))
        hint = suggestion(tag, re.findall(r"'(.*?)'", tags))
        return f"unknown {key[1:-1]} {tag!r}.{hint}"
    message = "keys must be text" if fault["loc"][-1:] == ("[key]",) else fault_message(fault)
    return f"{message}, got {value_text(fault['input'])}"


def value_text(value: object) -> str:
    """Return a value as short text; null for None, as in YAML and JSON."""
    return "null" if value is None else reprlib.repr(value)


def all_reasons(error: "ValidationError") -> str:
    """Return what must hold: for all items of a list, or one of the alternatives for a value."""
    found = error.errors()
    items = any(isinstance(key, int) for fault in found for key in fault["loc"])
    if items:  # invalid items do not count, so that the list seems too short as well
        found = [fault for fault in found if fault["type"] != "too_short"]
    return (" and " if items else " or ").join(dict.fromkeys(map(fault_message, found)))


def fault_message(fault: "ErrorDetails") -> str:
    """Return what must hold, for one error that pydantic found."""
    if fault["type"] in _MESSAGES:
        return _MESSAGES[fault["type"]].format(**fault.get("ctx", {}))
    # Pydantic's suffix, such as "unable to parse string as a number", only repeats the message.
    message = re.sub(r", (unable|got) .*|^Value error, ", "", fault["msg"])
    message = message.replace("Input should", "must", 1)
    return f"{message[0].lower()}{message[1:]}"
