"""What a caller gives for a dataclass's fields: checked against their types, named as options."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "path_type": "it must be a path",
        "missing": "it must have more values",
        "greater_than_equal": "it must be at least {ge:g}",
        "less_than_equal": "it must be at most {le:g}",
        "less_than": "it must be less than {lt:g}",
    }
)


def expanded(path: Path) -> Path:
    """Returns a path with a user's folder for a leading `~`; as it is if there is no such user."""
    with suppress(RuntimeError):
        return path.expanduser()
    return path


def check_fields(thing: Any, names: Mapping[str, str]) -> None:
    """Checks a dataclass's fields, for its `__post_init__`; what fits is made of the field's type.

    A text becomes a path, a leading `~` of a path a user's folder, a list a tuple. Fields whose
    type is quoted are left as they are.

    Args:
        thing: The dataclass, frozen or not.
        names: What fields are called in errors, where it is not `--field-name`.

    Raises:
        SclsearchError: Fields do not fit; the message has a line for each.
    """
    from pydantic import ValidationError

    faults = []
    for name, check in _types(thing.__class__).items():
        value = getattr(thing, name)
        try:
            fitting = check.validate_python(value)
        except ValidationError as error:
            reasons = " or ".join(dict.fromkeys(map(_reason, error.errors())))
            where = names.get(name, f"--{name.replace('_', '-')}")
            faults.append(f"{where}: {reasons}, but it is {value!r}.")
        else:
            known = expanded(fitting) if isinstance(fitting, Path) else fitting
            object.__setattr__(thing, name, known)
    if faults:
        raise SclsearchError("\n".join(faults))


@cache
def _types(kind: type) -> "Mapping[str, TypeAdapter[Any]]":
    from pydantic import TypeAdapter

    return {
        field.name: TypeAdapter(field.type)
        for field in fields(kind)
        if not isinstance(field.type, str)
    }


def _reason(fault: Mapping[str, Any]) -> str:
    if fault["type"] in REASONS:
        return REASONS[fault["type"]].format(**fault.get("ctx", {}))
    # How pydantic came to see it, "unable to parse string as a number", tells nothing more.
    message = re.sub(r", (unable|got) .*", "", str(fault["msg"]))
    return message.replace("Input should be", "it must be", 1)
