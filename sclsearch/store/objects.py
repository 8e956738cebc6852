"""Atomic reads and writes of JSON objects in a folder or an object store."""

import errno
import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from sclsearch.canonical import NotARegularFileError, canonical, check_regular, digest
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import StoragePath

READERS = 32
MOST_BYTES = 2**28
"""Largest size of a JSON object file, in bytes."""
MEND = "Move it away."
_T = TypeVar("_T")
# Errors of shared file systems that cannot flush a folder, or that do not support hard links.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


CHECKSUM = "sha256"
"""Name of the record field with the digest of all other fields."""


class DamagedError(SclsearchError):
    """Error for a stored object that is unreadable or invalid."""


class NotAFolderError(SclsearchError):
    """Error for a storage folder whose path is a file, a link or a pipe."""


def write(place: StoragePath, value: Any) -> None:
    """Write an object atomically: a reader sees either the old or the new object."""
    if isinstance(place, Path):
        _rename(_part(place, value), place)
    else:
        place.write(_encoded(value))


def create(place: StoragePath, value: Any) -> bool:
    """Write an object unless one exists; return True if it was written."""
    if not isinstance(place, Path):
        return place.create(_encoded(value))
    if place.exists():
        return False
    return publish(_part(place, value), place)


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its checksum added."""
    return {**record, CHECKSUM: digest(record)}


def unsealed(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its checksum, after verifying it.

    Files of release 0.1.0 have no checksum and pass.

    Raises:
        ValueError: The checksum does not match the record.
    """
    record = dict(stored)
    checksum = record.pop(CHECKSUM, None)
    if checksum not in (None, digest(record)):
        raise ValueError("its checksum differs: it was changed after it was written")
    return record


def publish(part: Path, place: Path) -> bool:
    """Rename a completely written file, unless a file with the new name exists.

    Returns:
        True if the file has the new name. The old name no longer exists in either case.
    """
    try:
        os.link(part, place)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        part.replace(place)  # files with equal names are equal, so two writers do no harm
    finally:
        part.unlink(missing_ok=True)
    _sync(place.parent)
    return True


def read(place: StoragePath, mend: str = MEND) -> Any | None:
    """Return a stored JSON object, or None if it does not exist.

    Args:
        place: Path of the object.
        mend: Advice for the user, appended to the error of a damaged object.

    Raises:
        DamagedError: The content is not a JSON object. This package never writes such content.
    """
    content = _file(place, MOST_BYTES) if isinstance(place, Path) else place.read()
    if content is None:
        return None
    try:
        value = json.loads(content.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{place}: it must hold a JSON object, but: {error}. {mend}") from error
    if not isinstance(value, dict):
        there = type(value).__name__
        raise DamagedError(f"{place}: it must hold a JSON object, but it holds a {there}. {mend}")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def read_bytes(place: StoragePath) -> bytes | None:
    """Return the bytes of a stored object, or None if it does not exist."""
    return _file(place) if isinstance(place, Path) else place.read()


def read_all(places: Sequence[StoragePath], mend: str = MEND) -> list[Any | None]:
    """Return several objects, None for each missing one; read an object store in parallel."""
    return _each(lambda place: read(place, mend), places)


def read_each(places: Sequence[StoragePath], mend: str = MEND) -> list[Any | None]:
    """Return several objects like `read_all`, with a DamagedError in place of a damaged object."""

    def ask(place: StoragePath) -> Any | None:
        try:
            return read(place, mend)
        except DamagedError as error:
            return error

    return _each(ask, places)


def which(places: Sequence[StoragePath]) -> list[StoragePath]:
    """Return the paths that exist, including paths of damaged objects."""
    found = _each(_is_there, places)
    return [place for place, there in zip(places, found, strict=True) if there]


def _is_there(place: StoragePath) -> bool:
    if not isinstance(place, Path):
        return place.read() is not None
    if os.path.lexists(place):
        return True
    with suppress(OSError):  # refreshes the NFS client's cache, as in `_file`
        os.scandir(place.parent).close()
    return os.path.lexists(place)


def names(folder: StoragePath) -> list[str]:
    """Return the sorted names in a folder by one listing; an empty list for a missing folder."""
    if not isinstance(folder, Path):
        return folder.names()
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        raise _no_folder(folder) from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _no_folder(folder) from error


def remove(place: StoragePath) -> None:
    """Delete an object if it exists."""
    if isinstance(place, Path):
        place.unlink(missing_ok=True)
    else:
        place.remove()


def move(place: StoragePath, there: StoragePath) -> None:
    """Move an object to an unused path of the same storage."""
    if isinstance(place, Path) and isinstance(there, Path):
        there.parent.mkdir(parents=True, exist_ok=True)
        _rename(place, there)
    elif not isinstance(place, Path) and not isinstance(there, Path):
        there.write(place.read() or b"")
        place.remove()


def remove_parts(folder: StoragePath) -> None:
    """Delete the partially written files that killed processes left in a folder."""
    if isinstance(folder, Path):
        for part in folder.glob(".*.part"):
            part.unlink(missing_ok=True)


def keep_file(place: StoragePath, save: Callable[[Path], None]) -> None:
    """Store a file atomically: a reader sees the whole file or none.

    Args:
        place: Path in the storage. Simultaneous writers do no harm.
        save: Function that writes the file at the path of its argument.
    """
    if isinstance(place, Path):
        part = _part_of(place)
        try:
            save(part)
            _sync(part)
            _rename(part, place)
        finally:
            part.unlink(missing_ok=True)
        return
    with TemporaryDirectory(prefix="sclsearch-") as scratch:
        file = Path(scratch) / place.name
        save(file)
        place.upload(file)


def check_writable(folder: StoragePath) -> None:
    """Check that a folder is writable: write, read and delete a test object.

    Raises:
        SclsearchError: One of the three operations failed.
    """
    mark = folder / f"sclsearch-check-{uuid.uuid4().hex}.json"
    try:
        write(mark, {"check": mark.name})
        found = read(mark)
        remove(mark)
    except OSError as error:
        raise SclsearchError(f"{folder}: it must be writable, but: {error}.") from error
    if found != {"check": mark.name}:
        raise SclsearchError(
            f"{folder}: what is written must be read again, but what came back is {found!r}."
        )


def without_retries(place: StoragePath) -> StoragePath:
    """Return the same path without retries of failed object store requests."""
    return place if isinstance(place, Path) else replace(place, patience=0.0)


def _each(ask: Callable[[StoragePath], _T], places: Sequence[StoragePath]) -> list[_T]:
    if all(isinstance(place, Path) for place in places):
        return [ask(place) for place in places]
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(ask, places))


def _file(path: Path, most: int | None = None) -> bytes | None:
    try:
        return _content(path, most)
    except FileNotFoundError:
        # An NFS client caches a missing file for a minute; opening the folder refreshes the cache.
        with suppress(FileNotFoundError):
            os.scandir(path.parent).close()
            return _content(path, most)
        if path.is_symlink():
            raise DamagedError(f"{path}: its link leads to no file. {MEND}") from None
        return None


def _content(path: Path, most: int | None) -> bytes:
    try:
        check_regular(path)
        size = path.stat().st_size
        if most is not None and size > most:
            raise DamagedError(
                f"{path}: it must have at most {most:,} bytes, but it has {size:,}. {MEND}"
            )
        return path.read_bytes()
    except (NotARegularFileError, IsADirectoryError) as error:
        raise DamagedError(f"{path}: it must be a file, but it is not. {MEND}") from error
    except NotADirectoryError as error:
        raise _no_folder(path.parent) from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        if not path.is_symlink():
            raise _no_folder(path.parent) from error
        raise DamagedError(
            f"{path}: it must be a file, but its links go in a circle. {MEND}"
        ) from error


def _no_folder(path: Path) -> NotAFolderError:
    """Return the error for a path that must be a folder; it names the existing part."""
    there = next((one for one in (path, *path.parents) if os.path.lexists(one)), path)
    return NotAFolderError(f"{there}: it must be a folder, but it is not. {MEND}")


def _encoded(value: Any) -> bytes:
    return f"{canonical(value)}\n".encode()


def _rename(part: Path, path: Path) -> None:
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk to survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def _part(path: Path, value: Any) -> Path:
    content = _encoded(value)
    part = _part_of(path)
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:  # delete the partial file, for example after a full disk
        part.unlink(missing_ok=True)
        raise
    return part


def _part_of(path: Path) -> Path:
    """Return a unique temporary path beside a file; create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
