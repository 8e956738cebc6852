"""Registry of the training methods. CONTRIBUTING.md lists what a new method needs."""

import inspect
import pkgutil
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.errors import SclsearchError, lookup

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

METHODS: Mapping[str, str] = {
    "ce": "sclsearch.methods.scl:CE",
    "scl": "sclsearch.methods.scl:SCL",
    "supcl-seq": "sclsearch.methods.supcl_seq:SupCLSeq",
    "simcse": "sclsearch.methods.supcl_seq:SimCSE",
    "dropout-aug": "sclsearch.methods.supcl_seq:DropoutAug",
    "lacon": "sclsearch.methods.lacon:LaCon",
    "lacon-fusion": "sclsearch.methods.lacon:LaConFusion",
    "leam": "sclsearch.methods.lacon:LEAM",
    "lsan": "sclsearch.methods.lacon:LSAN",
    "ce-cl": "sclsearch.methods.scl:CECL",
    "setfit": "sclsearch.methods.setfit:SetFit",
    "cmlm": "sclsearch.methods.cmlm:CMLM",
    "tapt": "sclsearch.methods.cmlm:TAPT",
    "cssl": "sclsearch.methods.cmlm:CSSL",
}
"""Class of each method by name, imported at its first use: the classes import torch."""


@dataclass(frozen=True, slots=True)
class NamedMethod:
    """Method class with its name and its reference."""

    name: str  # in reports and in the run store: the key in `METHODS`, or a custom class's name
    kind: "type[Method]"
    place: str  # for a later lookup: the key in `METHODS`, or `FILE.py:CLASS`
    digest: str = ""  # SHA-256 of a custom method's file, and of those beside it that it imports


def find_method(method: "str | type[Method]") -> NamedMethod:
    """Return a method, given its name, `FILE.py:CLASS`, or its class."""
    if isinstance(method, str) and not is_own(method):
        return NamedMethod(method, method_class(method), method)
    from sclsearch.methods.custom import (
        check_custom_method,
        load_custom_method,
        own_digest,
        source_file,
    )

    if not isinstance(method, str | type):
        raise SclsearchError(f"--method: must be a name, FILE.py:CLASS or a class, got {method!r}.")
    kind = load_custom_method(method) if isinstance(method, str) else method
    name = method_name(kind)
    if METHODS.get(name) == f"{kind.__module__}:{kind.__qualname__}":
        return NamedMethod(name, kind, name)
    file = source_file(kind)
    place = f"{file}:{name}"
    if name in METHODS:
        raise SclsearchError(
            f"--method {place}: {name} is the name of a built-in method. Rename the class."
        )
    check_custom_method(kind, method if isinstance(method, str) else place)
    return NamedMethod(name, kind, place, own_digest(file))


def find_recorded_method(
    recorded: str, digest: str, given: "str | type[Method] | None", where: str
) -> NamedMethod:
    """Return the method that a stored record or an export, `where`, names.

    A file outside the package is imported only if the caller has `given` it, and only after its
    digest matches the recorded one; otherwise the function raises SclsearchError.
    """
    if given is None and is_own(recorded):
        raise SclsearchError(
            f"{where}: names a method in a Python file, {recorded}, which is not imported without "
            "your consent. Read the file, then pass --method FILE.py:CLASS."
        )
    from sclsearch.methods.custom import own_digest

    given = recorded if given is None else given
    file = Path(str(given).rpartition(":")[0]).expanduser()
    changed = file.is_file() and own_digest(file) != digest
    if not changed:
        found = find_method(given)
        if (found.digest or found.name) == (digest or recorded):
            return found
    raise SclsearchError(
        f"{where}: --method {given}: must be {recorded}, the method of the training, with an "
        "unchanged file. Pass that file, or train again."
    )


def error_text(error: BaseException, method: NamedMethod) -> str:
    """Return type and message of an exception, and `FILE:LINE` of its origin, as one line.

    The origin is the last line in a custom method's file if there is one. An exception in torch
    alone would not tell the user which line of the method is wrong.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == method.place.rpartition(":")[0]]
    frame = (own or frames)[-1]
    message = traceback.format_exception_only(error)[-1].strip()
    return f"{message} ({Path(frame.filename).name}:{frame.lineno})"


def is_own(method: str) -> bool:
    """Return whether a name refers to a custom method, `FILE.py:CLASS`."""
    return method.rpartition(":")[0].endswith(".py")


def method_name(kind: "type[Method]") -> str:
    """Return the name of a method class: its key in `METHODS`, or a custom class's own name."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, known in METHODS.items() if known == place), kind.__name__)


def check_method_name(method: str) -> None:
    """Raise SclsearchError if a method name is unknown, without importing any method."""
    if method.endswith(".py"):
        raise SclsearchError(f"--method {method}: names no class. Pass FILE.py:CLASS.")
    if not is_own(method):
        lookup(METHODS, method, "method")


def method_class(name: str) -> "type[Method]":
    """Return the class of a built-in method."""
    kind: type[Method] = pkgutil.resolve_name(lookup(METHODS, name, "method"))
    return kind


def method_summaries() -> dict[str, str]:
    """Return the first docstring line of each built-in method."""
    return {name: str(inspect.getdoc(method_class(name))).splitlines()[0] for name in METHODS}
