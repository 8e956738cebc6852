"""Storage locations: a local folder or a path in an object store."""

import re
import shlex
from pathlib import Path

from sclsearch.errors import SclsearchError
from sclsearch.store.local import LocalPath, try_to_write
from sclsearch.store.remote import PACKAGES, RemotePath

Storage = Path | str
StoragePath = LocalPath | RemotePath
"""Path of a file or a folder in a storage; both types have the same methods."""
DEFAULT_STORAGE = "sclsearch-storage"

_URI = re.compile(r"(?P<scheme>[A-Za-z0-9]{2,}):/(?P<slash>/?)(?P<rest>.*)")


def storage_path(storage: Storage) -> StoragePath:
    """Return the absolute path of a folder, `s3://bucket/folder` or `gs://bucket/folder`.

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

    A missing folder is created if `make` is True.
    """
    place = storage_path(storage)
    try:
        place.prepare(make=make)
    except OSError as error:
        raise _not_writable(storage, error) from error
    return place.local or str(place)


def check_can_be_written(storage: Storage) -> None:
    """Check that a storage folder can be created and written, without creating it."""
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
