"""Storage locations: a local folder or a path in an object store."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

from sclsearch.errors import SclsearchError
from sclsearch.store.local import LocalPath, try_to_write
from sclsearch.store.remote import PACKAGES, RemotePath

Storage = Path | str
DEFAULT_STORAGE = "sclsearch-storage"

_URI = re.compile(r"(?P<scheme>[A-Za-z0-9]{2,}):/(?P<slash>/?)(?P<rest>.*)")


class StoragePath(Protocol):
    """Path of a file or a folder in a storage: a `LocalPath` or a `RemotePath`.

    A file is written as a whole or not at all. `RemotePath` raises StorageError if its store does
    not respond. `LocalPath` raises DamagedError for a path that is not a regular file, and
    NotAFolderError for a folder that is not one.
    """

    @property
    def parallel_reads(self) -> int:
        """Number of files to read at a time."""

    @property
    def name(self) -> str:
        """Last component of the path."""

    @property
    def local(self) -> Path | None:
        """Path in the file system; None in an object store."""

    def __truediv__(self, name: str) -> Self:
        """Return the path of a file in this folder."""

    def prepare(self, *, make: bool) -> None:
        """Check that the storage can be reached; create a missing folder if `make` is True.

        Raises:
            OSError: A folder cannot be created or listed.
            StorageError: An object store does not respond, or has no such bucket.
        """

    def read(self, limit: int | None = None) -> bytes | None:
        """Return the bytes, None if the file is missing; `limit` bounds the size of local files."""

    def write(self, content: bytes) -> None:
        """Write the file; replace an existing one."""

    def create(self, content: bytes) -> bool:
        """Write the file unless it exists; return True if it was written."""

    def save_file(self, save: Callable[[Path], None]) -> None:
        """Store the file that `save` writes at the path of its argument."""

    def exists(self) -> bool:
        """Return True if the file exists, readable or not."""

    def names(self) -> list[str]:
        """Return the sorted names in the folder; an empty list for a missing folder."""

    def files(self) -> dict[str, int]:
        """Return the size in bytes of every file below the folder, by path relative to it."""

    def remove(self) -> None:
        """Delete the file if it exists."""

    def remove_folder(self) -> None:
        """Delete the folder and every file below it, if it exists."""

    def move_into(self, folder: str, name: str) -> Self:
        """Move the file into a subfolder of its folder, under an unused name; return its path."""

    def remove_parts(self) -> None:
        """Delete partially written files in the folder; call it only while no process writes."""

    def without_retries(self) -> Self:
        """Return the same path without retries of failed requests."""


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
            return LocalPath(Path(storage).expanduser().resolve())
        except RuntimeError as error:
            raise SclsearchError(f"--storage {storage}: {error} Give its whole path.") from error
    bucket = found["rest"].rstrip("/")
    scheme = found["scheme"].lower()
    if scheme not in PACKAGES or not found["slash"] or not bucket:
        raise SclsearchError(
            f"--storage {storage}: must be a folder, s3://bucket/folder or gs://bucket/folder. "
            "Give a URI as text and not as a Path."
        )
    return RemotePath(f"{scheme}://{bucket}")


def storage_folder(storage: Storage, *, make: bool = True) -> Storage:
    """Return the absolute storage, after creating its folder or checking its object store.

    Args:
        storage: A folder or URI, as for `storage_path`.
        make: True to create a missing folder.

    Raises:
        SclsearchError: The storage cannot be created or reached, or is not a folder.
    """
    place = storage_path(storage)
    try:
        place.prepare(make=make)
    except OSError as error:
        raise _not_writable(storage, error) from error
    return place.local or str(place)


def check_can_be_written(storage: Storage) -> None:
    """Check that a storage folder can be created and written, without creating it.

    Raises:
        SclsearchError: The nearest existing parent is not a folder or is not writable.
    """
    folder = storage_path(storage).local
    try:
        if folder is not None:
            try_to_write(folder)
    except OSError as error:
        raise _not_writable(storage, error) from error


def _not_writable(storage: Storage, error: OSError) -> SclsearchError:
    return SclsearchError(
        f"--storage {storage}: is not a folder that can be written: {error}. Name another."
    )


def storage_option(storage: Storage) -> str:
    """Return the option ` --storage …` for a suggested command; empty for the default storage."""
    place = storage_path(storage)
    return "" if place == storage_path(DEFAULT_STORAGE) else f" --storage {shlex.quote(str(place))}"
