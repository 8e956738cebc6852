"""JSON objects in files or in an object store: whole or not there, never half."""

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
"""The size of the largest file that is read as a JSON object."""
MEND = "Move it away."
_T = TypeVar("_T")
# As some shared folders answer that have no hard links.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}  # folders of some shared file systems
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


CHECKSUM = "sha256"
"""Field of a record that holds the digest of all other fields."""


class DamagedError(SclsearchError):
    """An object is there and cannot be read."""


class NotAFolderError(SclsearchError):
    """A file, a link or a pipe is in the place of a folder of the storage."""


def write(place: StoragePath, value: Any) -> None:
    """Writes an object; a reader sees the old one or the new one."""
    if isinstance(place, Path):
        _rename(_part(place, value), place)
    else:
        place.write(_encoded(value))


def create(place: StoragePath, value: Any) -> bool:
    """Writes an object unless there is one; returns whether it was written."""
    if not isinstance(place, Path):
        return place.create(_encoded(value))
    if place.exists():
        return False
    return publish(_part(place, value), place)


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its checksum."""
    return {**record, CHECKSUM: digest(record)}


def unsealed(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its checksum; files of release 0.1.0 have none.

    Raises:
        ValueError: The checksum is not that of the record.
    """
    record = dict(stored)
    checksum = record.pop(CHECKSUM, None)
    if checksum not in (None, digest(record)):
        raise ValueError("its checksum differs: it was changed after it was written")
    return record


def publish(part: Path, place: Path) -> bool:
    """Renames a file that is completely written, unless there is one of the new name.

    Returns:
        Whether it got that name; the old one is gone either way.
    """
    try:
        os.link(part, place)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        part.replace(place)  # files of one name are equal: it does no harm if two write
    finally:
        part.unlink(missing_ok=True)
    _sync(place.parent)
    return True


def read(place: StoragePath, mend: str = MEND) -> Any | None:
    """Returns an object, or None if there is none.

    Args:
        place: Where it is.
        mend: What a person is told to do if it is damaged.

    Raises:
        DamagedError: It holds no JSON object; nothing of this project writes that.
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
    """Returns what is stored, or None if there is nothing."""
    return _file(place) if isinstance(place, Path) else place.read()


def read_all(places: Sequence[StoragePath], mend: str = MEND) -> list[Any | None]:
    """Returns several objects, None where there is none; many at a time from an object store."""
    return _each(lambda place: read(place, mend), places)


def read_each(places: Sequence[StoragePath], mend: str = MEND) -> list[Any | None]:
    """Return several objects as `read_all` does, with the error in place of each damaged one."""

    def ask(place: StoragePath) -> Any | None:
        try:
            return read(place, mend)
        except DamagedError as error:
            return error

    return _each(ask, places)


def which(places: Sequence[StoragePath]) -> list[StoragePath]:
    """Returns those places where something is stored, whole or damaged."""
    found = _each(_is_there, places)
    return [place for place, there in zip(places, found, strict=True) if there]


def _is_there(place: StoragePath) -> bool:
    if not isinstance(place, Path):
        return place.read() is not None
    if os.path.lexists(place):
        return True
    with suppress(OSError):  # as in `_file`
        os.scandir(place.parent).close()
    return os.path.lexists(place)


def names(folder: StoragePath) -> list[str]:
    """Returns the names in a folder, sorted, by one listing; none if it is not there."""
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
    """Deletes an object if it is there."""
    if isinstance(place, Path):
        place.unlink(missing_ok=True)
    else:
        place.remove()


def move(place: StoragePath, there: StoragePath) -> None:
    """Move an object to a place where there is none."""
    if isinstance(place, Path) and isinstance(there, Path):
        there.parent.mkdir(parents=True, exist_ok=True)
        _rename(place, there)
    elif not isinstance(place, Path) and not isinstance(there, Path):
        there.write(place.read() or b"")
        place.remove()


def remove_parts(folder: StoragePath) -> None:
    """Deletes what processes that were killed left half written in a folder."""
    if isinstance(folder, Path):
        for part in folder.glob(".*.part"):
            part.unlink(missing_ok=True)


def keep_file(place: StoragePath, save: Callable[[Path], None]) -> None:
    """Lets a file be written where it belongs; a reader sees all of it or none.

    Args:
        place: Where; who writes there at the same time does no harm.
        save: Writes the file that it is given.
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
    """Writes an object, reads it and deletes it.

    Raises:
        SclsearchError: One of them failed.
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
    """Returns the place, not asked again where an object store does not answer."""
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
        # An NFS client remembers for a minute that a file is not there, until it opens the folder.
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
    """Return the error for what is in the place of a folder."""
    there = next((one for one in (path, *path.parents) if os.path.lexists(one)), path)
    return NotAFolderError(f"{there}: it must be a folder, but it is not. {MEND}")


def _encoded(value: Any) -> bytes:
    return f"{canonical(value)}\n".encode()


def _rename(part: Path, path: Path) -> None:
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk, so that a power failure loses none."""
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
    except BaseException:  # a full disk would keep it
        part.unlink(missing_ok=True)
        raise
    return part


def _part_of(path: Path) -> Path:
    """Returns where a file is written before it gets its name, in its folder, which is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
