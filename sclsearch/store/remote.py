"""Objects in S3 or Google Cloud Storage, with retries for up to five minutes."""

import errno
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

from sclsearch.errors import SclsearchError

PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
PATIENCE_SECONDS = 300.0
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 15.0

_Answer = TypeVar("_Answer")
_LOG = logging.getLogger(__name__)
# Libraries whose exceptions count as storage errors, by name, because they may not be installed.
_LIBRARIES = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google")
_AWAY = {
    *("ConnectionError", "HTTPClientError", "ResponseParserError", "FlexibleChecksumError"),
    *("ClientError", "ChecksumError", "HttpError", "TransportError"),
}
_THERE_OR_NOT = (FileNotFoundError, FileExistsError)
_REFUSALS = {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES, getattr(errno, "EREMCHG", -1)}


class StorageError(SclsearchError):
    """Error for an object store that denies access or stays unavailable after all retries."""


class UnavailableError(StorageError):
    """Error for an object store that does not respond; a later try may succeed."""


@dataclass(frozen=True, slots=True)
class RemotePath:
    """Storage path in an object store; its methods are those of `LocalPath`.

    Every method that accesses the store may raise StorageError.
    """

    parallel_reads: ClassVar[int] = 32

    uri: str  # such as s3://bucket/folder/name
    patience: float = PATIENCE_SECONDS  # seconds of retries while the store does not respond

    def __truediv__(self, name: str) -> "RemotePath":
        return replace(self, uri=f"{self.uri}/{name}")

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def local(self) -> None:
        return

    def prepare(self, *, make: bool) -> None:  # noqa: ARG002 (buckets are never created)
        """Check, without retries, that the store responds and the bucket exists."""
        hasty = self.without_retries()
        bucket = "/".join(self.uri.split("/")[:3])
        if not hasty.names() and not hasty._ask(lambda files: _bucket_exists(files, bucket)):
            raise StorageError(
                f"--storage {self}: its bucket does not exist. Create it, or name another."
            )

    def read(self) -> bytes | None:
        try:
            return bytes(self._ask(lambda files: files.cat_file(self.uri)))
        except FileNotFoundError:
            return None

    def write(self, content: bytes) -> None:
        self._ask(lambda files: files.pipe_file(self.uri, content))

    def create(self, content: bytes) -> bool:
        """Write the object unless it exists; return True if it was written.

        If the response to a write is lost, the retry finds the object and returns False.
        """
        return self._ask(lambda files: _create(files, self.uri, content))

    def save_file(self, save: Callable[[Path], object]) -> None:
        """Upload the file that `save` writes; an interrupted upload leaves no object."""
        with TemporaryDirectory(prefix="sclsearch-") as scratch:
            file = Path(scratch) / self.name
            save(file)
            self._ask(lambda files: files.put_file(str(file), self.uri))

    def load_file(self, load: Callable[[Path], _Answer]) -> _Answer | None:
        """Return what `load` reads from a copy of the object; None if there is no object."""
        with TemporaryDirectory(prefix="sclsearch-") as scratch:
            file = Path(scratch) / self.name
            try:
                self._ask(lambda files: files.get_file(self.uri, str(file)))
            except FileNotFoundError:
                return None
            return load(file)

    def exists(self) -> bool:
        try:
            self._ask(lambda files: files.info(self.uri))
        except FileNotFoundError:
            return False
        return True

    def files(self) -> dict[str, int]:
        found = self._ask(lambda files: files.find(self.uri, detail=True))
        above = f"{self.uri.partition('://')[2]}/"
        return {path.removeprefix(above): int(info["size"]) for path, info in found.items()}

    def remove(self) -> None:
        try:
            self._ask(lambda files: files.rm_file(self.uri))
        except FileNotFoundError:
            return

    def remove_folder(self) -> None:
        with suppress(FileNotFoundError):
            self._ask(lambda files: files.rm(self.uri, recursive=True))

    def names(self) -> list[str]:
        return self._ask(lambda files: _listed(files, self.uri))

    def move_into(self, folder: str, name: str) -> "RemotePath":
        content = self.read()
        if content is None:
            raise FileNotFoundError(self.uri)
        target = replace(self, uri=f"{self.uri.rpartition('/')[0]}/{folder}/{name}")
        target.write(content)
        if self.read() != content:  # another process has written it meanwhile
            target.remove()
            raise FileNotFoundError(self.uri)
        self.remove()
        return target

    def without_retries(self) -> "RemotePath":
        return replace(self, patience=0.0)

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
                _LOG.warning("%s does not respond (%s); retrying", self, _line(error))
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _give_up(self, error: Exception, *, late: bool) -> None:
        """Raise StorageError if a retry cannot fix the error or the retry time is over."""
        if not _passes(error):
            raise StorageError(
                f"{self}: refuses these credentials: {_line(error)}. Check the bucket, the "
                "credentials and their permissions."
            ) from error
        if late:
            tried = f", after {self.patience:g} s of retries" if self.patience else ""
            raise UnavailableError(
                f"{self}: its store does not respond: {_line(error)}{tried}. Check the network "
                "and the store's address, then run the same command to resume."
            ) from error


@cache
def _files(scheme: str) -> Any:
    try:
        import fsspec

        # Few retries: ours follow, and who does not want ours does not want to wait.
        few = {"retries": {"total_max_attempts": 3}}
        own = {"max_concurrency": 1, "config_kwargs": few} if scheme == "s3" else {}
        # Turn off fsspec's listing cache, because other machines write to the store too.
        files = fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **own)
    except ImportError as error:
        raise SclsearchError(
            f"--storage {scheme}://…: {PACKAGES[scheme]} is not installed. Run pip install "
            f"'sclsearch[{scheme}]' on every machine that trains."
        ) from error
    if scheme == "s3":
        files.retries = 1
    return files


def _create(files: Any, uri: str, content: bytes) -> bool:
    try:
        files.pipe_file(uri, content, mode="create")
    except FileExistsError:
        return False
    except (OSError, NotImplementedError) as error:
        if _passes(error):
            raise
        # Stores report an existing object by different errors, and some lack conditional writes.
        # Objects with equal names are equal, so two writers do no harm.
        if files.exists(uri):
            return False
        if not isinstance(error, NotImplementedError) and error.errno != errno.ENOSYS:
            raise
        files.pipe_file(uri, content)
    return True


def _bucket_exists(files: Any, bucket: str) -> bool:
    try:
        files.ls(bucket, detail=False)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # some credentials may list only their own folder of the bucket
    return True


def _listed(files: Any, uri: str) -> list[str]:
    try:
        found = files.ls(uri, detail=False)
    except FileNotFoundError:
        return []
    # A folder created by hand is itself an object and appears in its own listing.
    above = f"{uri.partition('://')[2]}/"
    return sorted({path.removeprefix(above) for path in found if len(path) > len(above)})


def _passes(error: Exception) -> bool:
    """Return True if the error is transient, so that a retry may succeed."""
    if isinstance(error, OSError):
        refused = isinstance(error, PermissionError) or error.errno in _REFUSALS
        return not refused and not str(error).startswith("Forbidden")  # gcsfs reports it this way
    return bool(_AWAY & {kind.__name__ for kind in type(error).__mro__})


def _library(error: Exception) -> str:
    return type(error).__module__.partition(".")[0]


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
