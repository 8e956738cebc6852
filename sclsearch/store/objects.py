"""JSON objects in files: whole or not there, never half."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError


def write(path: Path, value: Any) -> None:
    """Writes an object; a reader sees the old one or the new one."""
    _part(path, value).replace(path)


def create(path: Path, value: Any) -> bool:
    """Writes an object unless there is one; returns whether it was written."""
    if path.exists():
        return False
    part = _part(path, value)
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True


def read(path: Path) -> Any | None:
    """Returns an object, or None if there is none.

    Raises:
        SclsearchError: The file is there but holds no JSON; nothing of this project writes that.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SclsearchError(
            f"{path}: it must hold a JSON object, but: {error}. Move the file away: a seed run is "
            "trained again then."
        ) from error


def _part(path: Path, value: Any) -> Path:
    text = canonical(value) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return part
