"""Objects of S3 or Google Cloud Storage; a store that does not answer is asked for minutes."""

import errno
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sclsearch.errors import SclsearchError

PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
PATIENCE_SECONDS = 300.0
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 15.0

_Answer = TypeVar("_Answer")
_LOG = logging.getLogger(__name__)
# What the libraries raise beside OSError, by name: they are not installed everywhere.
_LIBRARIES = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google")
_AWAY = {
    *("ConnectionError", "HTTPClientError", "ResponseParserError", "FlexibleChecksumError"),
    *("ClientError", "ChecksumError", "HttpError", "TransportError"),
}
_THERE_OR_NOT = (FileNotFoundError, FileExistsError)
_REFUSALS = {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES, getattr(errno, "EREMCHG", -1)}


class StorageError(SclsearchError):
    """An object store does not let us in, or did not answer for minutes."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A place in an object store.

    Every method may raise StorageError.

    Attributes:
        uri: `s3://bucket/folder/name`.
        patience: Seconds to ask on while the store does not answer.
    """

    uri: str
    patience: float = PATIENCE_SECONDS

    def __truediv__(self, name: str) -> "Remote":
        return replace(self, uri=f"{self.uri}/{name}")

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        """The last part."""
        return self.uri.rpartition("/")[2]

    def check(self) -> None:
        """Checks that the store answers at once and that the bucket exists."""
        without_retries = replace(self, patience=0.0)
        bucket = "/".join(self.uri.split("/")[:3])
        if not without_retries.names() and not without_retries._ask(
            lambda files: _is_there(files, bucket)
        ):
            raise StorageError(
                f"--storage {self}: its bucket must exist, but it does not. Create it, or name "
                "another."
            )

    def read(self) -> bytes | None:
        """Returns the object, or None if there is none."""
        try:
            return bytes(self._ask(lambda files: files.cat_file(self.uri)))
        except FileNotFoundError:
            return None

    def write(self, content: bytes) -> None:
        """Writes the object over the one that may be there."""
        self._ask(lambda files: files.pipe_file(self.uri, content))

    def create(self, content: bytes) -> bool:
        """Writes the object unless there is one; returns whether it was written.

        Where the answer to a write was lost on the way this is False: the object is there.
        """
        return self._ask(lambda files: _create(files, self.uri, content))

    def upload(self, file: Path) -> None:
        """Writes the object from a file; one that breaks off is not there."""
        self._ask(lambda files: files.put_file(str(file), self.uri))

    def remove(self) -> None:
        """Deletes the object if it is there."""
        try:
            self._ask(lambda files: files.rm_file(self.uri))
        except FileNotFoundError:
            return

    def names(self) -> list[str]:
        """Returns the names below this place, of objects and folders."""
        return self._ask(lambda files: _listed(files, self.uri))

    def _ask(self, question: Callable[[Any], _Answer]) -> _Answer:
        files = _files(self.uri.partition(":")[0])
        deadline = time.monotonic() + self.patience
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                return question(files)
            except _THERE_OR_NOT:
                raise
            except Exception as error:
                if not isinstance(error, OSError) and _library(error) not in _LIBRARIES:
                    raise
                self._give_up(error, late=time.monotonic() + wait > deadline)
                _LOG.warning("%s does not answer (%s); asked again", self, _line(error))
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _give_up(self, error: Exception, *, late: bool) -> None:
        """Raises what a person must hear of an error, unless another attempt may mend it."""
        if not _passes(error):
            raise StorageError(
                f"{self}: it must be open to these credentials, but: {_line(error)}. Check the "
                "bucket, the credentials and what they allow."
            ) from error
        if late:
            asked = f", asked for {self.patience:g} s" if self.patience else ""
            raise StorageError(
                f"{self}: its store must answer, but: {_line(error)}{asked}. Check the network "
                "and the store's address; the same command goes on."
            ) from error


@cache
def _files(scheme: str) -> Any:
    try:
        import fsspec

        own = {"max_concurrency": 1} if scheme == "s3" else {}
        # Listings are kept otherwise, and other machines write too.
        return fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **own)
    except ImportError as error:
        raise SclsearchError(
            f"--storage {scheme}://…: {PACKAGES[scheme]} must be installed, but it is not. pip "
            f"install 'sclsearch[{scheme}]', on every machine that trains."
        ) from error


def _create(files: Any, uri: str, content: bytes) -> bool:
    try:
        files.pipe_file(uri, content, mode="create")
    except FileExistsError:
        return False
    except (OSError, NotImplementedError) as error:
        if _passes(error):
            raise
        # Stores differ in how they say that it is there, and some cannot write on a condition;
        # objects of one name are equal, so it does no harm there if two write.
        if files.exists(uri):
            return False
        if not isinstance(error, NotImplementedError) and error.errno != errno.ENOSYS:
            raise
        files.pipe_file(uri, content)
    return True


def _is_there(files: Any, bucket: str) -> bool:
    try:
        files.ls(bucket, detail=False)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # to some a bucket shows no more than their own folder
    return True


def _listed(files: Any, uri: str) -> list[str]:
    try:
        found = files.ls(uri, detail=False)
    except FileNotFoundError:
        return []
    # A folder that was made by hand is an object of its own, in its own listing.
    above = f"{uri.partition('://')[2]}/"
    return sorted({path.removeprefix(above) for path in found if len(path) > len(above)})


def _passes(error: Exception) -> bool:
    """Returns whether the store may well answer the next time."""
    if isinstance(error, OSError):
        refused = isinstance(error, PermissionError) or error.errno in _REFUSALS
        return not refused and not str(error).startswith("Forbidden")  # as gcsfs has it
    return bool(_AWAY & {kind.__name__ for kind in type(error).__mro__})


def _library(error: Exception) -> str:
    return type(error).__module__.partition(".")[0]


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
