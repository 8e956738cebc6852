"""Canonical JSON, SHA-256 digests, identities of seed runs, and short display forms of values."""

import errno
import hashlib
import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def canonical(value: Any) -> str:
    """Return a value as JSON with sorted keys and without white space.

    Raises:
        ValueError: A float is NaN or infinite.
        TypeError: A value has no JSON form.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON as hexadecimal text."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class NotARegularFileError(OSError):
    """Error for a path to a pipe, a socket or a device, where a read may block forever."""


def check_regular(path: Path) -> None:
    """Raise NotARegularFileError for a pipe, socket or device; OSError for a missing path."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise NotARegularFileError(errno.EINVAL, "not a regular file", str(path))


def read_file(path: Path, most: int = 2**30) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        OSError: The file is missing, no regular file, or has more than `most` bytes.
    """
    check_regular(path)
    if (size := path.stat().st_size) > most:
        raise OSError(errno.EFBIG, f"must have at most {most} bytes, got {size}", str(path))
    return path.read_bytes()


def settings(values: Mapping[str, Any]) -> str:
    """Return hyperparameters as one line of text, for example `tau=0.3 lam=0.9`."""
    return " ".join(f"{name}={shown(value)}" for name, value in values.items())


def shown(value: Any) -> str:
    """Return a value as short text: floats with four significant digits, lists as `[0.1,0.2]`."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(shown, value))}]"
    return str(value)


def one_line(text: str, most: int = 80) -> str:
    """Return a text, such as a user's label, on one line and with at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def safe_cell(value: object) -> object:
    """Return a value for CSV; a text that a spreadsheet would compute gets an apostrophe."""
    computed = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t"))
    return f"'{value}" if computed else value


def printable(text: str) -> str:
    """Return a text with visible escapes instead of characters that control a terminal.

    Line breaks and tabs stay. Characters that reverse the direction of a text count as control
    characters.
    """
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def as_tuples(value: object) -> object:
    """Return the value with all lists, which come from YAML and JSON, converted to tuples."""
    if isinstance(value, list | tuple):
        return tuple(as_tuples(item) for item in value)
    return value


def counted(number: int, name: str) -> str:
    """Return a count with its noun, for example `1 seed` or `3 seeds`."""
    return f"{number} {name}{'' if number == 1 else 's'}"
