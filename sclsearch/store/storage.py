"""Storage locations: a local folder or a path in an object store."""

import errno
import os
import re
import shlex
from pathlib import Path
from tempfile import TemporaryFile

from sclsearch.errors import SclsearchError
from sclsearch.store.remote import PACKAGES, Remote

Storage = Path | str
StoragePath = Path | Remote
DEFAULT_STORAGE = "sclsearch-storage"

_URI = re.compile(r"(?P<scheme>[A-Za-z0-9]{2,}):/(?P<slash>/?)(?P<rest>.*)")


def storage_path(storage: Storage) -> StoragePath:
    """Return the absolute path of a storage.

    Args:
        storage: A folder, `s3://bucket/folder` or `gs://bucket/folder`.

    Raises:
        SclsearchError: The storage is empty, another URI, or a URI that was a `Path`. `Path`
            removes slashes from URIs.
    """
    found = _URI.fullmatch(str(storage))
    if not str(storage) or "\0" in str(storage):
        raise SclsearchError(f"--storage: must be a folder or a URI, got {storage!r}. Name one.")
    if found is None:
        try:
            return Path(storage).expanduser().resolve()
        except RuntimeError as error:
            raise SclsearchError(f"--storage {storage}: {error} Give its whole path.") from error
    bucket = found["rest"].rstrip("/")
    scheme = found["scheme"].lower()
    if scheme not in PACKAGES or not found["slash"] or not bucket:
        raise SclsearchError(
            f"--storage {storage}: it must be a folder, s3://bucket/folder or gs://bucket/folder, "
            "as text and not as a Path."
        )
    return Remote(f"{scheme}://{bucket}")


def storage_folder(storage: Storage, *, make: bool = True) -> Storage:
    """Return the absolute storage, after creating its folder or checking its object store.

    Args:
        storage: A folder or URI, as for `storage_path`.
        make: True to create a missing folder.

    Raises:
        SclsearchError: The storage cannot be created or reached, or is not a folder.
    """
    place = storage_path(storage)
    if isinstance(place, Remote):
        place.check()
        return str(place)
    try:
        if make:
            place.mkdir(parents=True, exist_ok=True)
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        else:
            next(_nearest(place).iterdir(), None)
    except OSError as error:
        raise _not_writable(storage, error) from error
    return place


def check_can_be_written(storage: Storage) -> None:
    """Check that a storage folder can be created and written, without creating it.

    Raises:
        SclsearchError: The nearest existing parent is not a folder or is not writable.
    """
    place = storage_path(storage)
    if isinstance(place, Remote):
        return
    try:
        try_to_write(place)
    except OSError as error:
        raise _not_writable(storage, error) from error


def try_to_write(place: Path) -> None:
    """Write a temporary file in the nearest existing folder; raise OSError if that fails."""
    there = _nearest(place)
    next(there.iterdir(), None)
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    # The superuser passes the check above in folders that accept no files, such as /proc.
    with TemporaryFile(dir=there) as file:
        file.write(b"0")


def _nearest(place: Path) -> Path:
    """Return the path if it exists, otherwise its nearest existing parent."""
    return next(path for path in (place, *place.parents) if path.exists())


def _not_writable(storage: Storage, error: OSError) -> SclsearchError:
    return SclsearchError(
        f"--storage {storage}: it must be a folder that can be written, but: {error}."
    )


def storage_option(storage: Storage) -> str:
    """Return the option ` --storage …` for a suggested command; empty for the default storage."""
    place = storage_path(storage)
    return "" if place == storage_path(DEFAULT_STORAGE) else f" --storage {shlex.quote(str(place))}"
