"""One way to write a value as JSON, to name it by its hash, and to show it."""

import errno
import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def canonical(value: Any) -> str:
    """Returns JSON with sorted keys and no white space; refuses NaN and infinities.

    Raises:
        ValueError: A float is not finite.
        TypeError: A value has no JSON form.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """Returns the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class NotARegularFileError(OSError):
    """A path leads to a pipe, a socket or a device, which may block for ever when it is read."""


def check_regular(path: Path) -> None:
    """Raise NotARegularFileError for a pipe, a socket or a device; OSError if nothing is there."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise NotARegularFileError(errno.EINVAL, "not a regular file", str(path))


def settings(values: Mapping[str, Any]) -> str:
    """Returns `tau=0.3 lam=0.9`."""
    return " ".join(f"{name}={shown(value)}" for name, value in values.items())


def shown(value: Any) -> str:
    """Returns a value as it is read best: floats with four digits, `[0.1,0.2]`."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(shown, value))}]"
    return str(value)


def counted(number: int, name: str) -> str:
    """Returns `1 seed` or `3 seeds`."""
    return f"{number} {name}{'' if number == 1 else 's'}"
