"""JSON objects in a storage, with checksums."""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sclsearch.canonical import canonical, digest
from sclsearch.errors import SclsearchError
from sclsearch.store.local import ADVICE, DamagedError
from sclsearch.store.storage import StoragePath

CHECKSUM = "sha256"
"""Name of the field with the digest of all other fields; `write` adds it, `read` checks it."""
_T = TypeVar("_T")


def write(place: StoragePath, value: Mapping[str, Any]) -> None:
    """Write an object atomically: a reader sees either the old or the new object."""
    place.write(_encoded(value))


def create(place: StoragePath, value: Mapping[str, Any]) -> bool:
    """Write an object unless one exists; return True if it was written."""
    return place.create(_encoded(value))


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its checksum added."""
    return {**value, CHECKSUM: digest(value)}


def read(place: StoragePath, advice: str = ADVICE) -> dict[str, Any] | None:
    """Return a stored JSON object, or None if it does not exist.

    `advice` for the user ends the error of a damaged object.

    Raises:
        DamagedError: The content is not a JSON object, or its checksum does not match.
    """
    content = place.read()
    if content is None:
        return None
    try:
        value: dict[str, Any] = json.loads(content)
        checksum = value.pop(CHECKSUM, None)
        intact = checksum == digest(value)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{place}: is not a JSON object: {error}. {advice}") from error
    if not intact:
        raise DamagedError(f"{place}: its checksum differs: it was changed. {advice}")
    return value


def read_each(
    places: Sequence[StoragePath], advice: str = ADVICE
) -> list[dict[str, Any] | DamagedError | None]:
    """Return several objects, None for a missing and a DamagedError for a damaged object."""

    def read_one(place: StoragePath) -> dict[str, Any] | DamagedError | None:
        try:
            return read(place, advice)
        except DamagedError as error:
            return error

    return for_each(read_one, places)


def for_each(do: Callable[[StoragePath], _T], places: Sequence[StoragePath]) -> list[_T]:
    """Return the results of a function for paths of one storage; in parallel for a remote one."""
    threads = places[0].parallel_reads if places else 1
    if threads == 1:
        return [do(place) for place in places]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, places))


def check_writable(folder: StoragePath) -> None:
    """Check that a folder is writable: write, read and delete a test object."""
    mark = folder / f"sclsearch-check-{uuid.uuid4().hex}.json"
    try:
        write(mark, {"check": mark.name})
        found = read(mark)
        mark.remove()
    except OSError as error:
        raise SclsearchError(f"{folder}: is not writable: {error}.") from error
    if found != {"check": mark.name}:
        raise SclsearchError(f"{folder}: does not return what was written, but {found!r}.")


def _encoded(value: Mapping[str, Any]) -> bytes:
    return f"{canonical(sealed(value))}\n".encode()
