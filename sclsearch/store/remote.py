"""Objects in S3, Google Cloud Storage or Azure, by obstore, with retries for five minutes."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from sclsearch.errors import SclsearchError, first_line

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az")
PATIENCE_SECONDS = 300.0
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 15.0

_Answer = TypeVar("_Answer")
_REFUSED = ("PermissionDeniedError", "UnauthenticatedError")
_EXISTS = ("AlreadyExistsError", "PreconditionError")


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
        try:
            self.without_retries().names()
        except FileNotFoundError:
            raise StorageError(
                f"--storage {self}: its bucket does not exist. Create it, or name another."
            ) from None

    def read(self) -> bytes | None:
        with suppress(FileNotFoundError):
            return bytes(self._ask(lambda store: store.get(self._key).bytes()))
        return None

    def write(self, content: bytes) -> None:
        self._ask(lambda store: store.put(self._key, content))

    def create(self, content: bytes) -> bool:
        """Write the object unless it exists; return True if it was written.

        If the response to a write is lost, the retry finds the object and returns False.
        """
        try:
            self._create(content)
        except FileExistsError as error:
            if not self.exists():  # the store refuses for another reason
                raise StorageError(
                    f"{self}: cannot be created: {error}. Check the bucket."
                ) from error
            return False
        return True

    def _create(self, content: bytes) -> None:
        def put(store: "ObjectStore") -> object:
            return store.put(self._key, content, mode="create")

        try:
            self.without_retries()._ask(put)
        except UnavailableError as error:
            if "501 Not Implemented" not in str(error.__cause__):
                self._ask(put)
            # Some stores lack conditional writes. Objects with equal names are equal: no harm.
            elif self.exists():
                raise FileExistsError(self.uri) from error
            else:
                self.write(content)

    def save_file(self, save: Callable[[Path], object]) -> None:
        """Upload the file that `save` writes; an interrupted upload leaves no object."""
        with TemporaryDirectory(prefix="sclsearch-") as scratch:
            file = Path(scratch) / self.name
            save(file)
            self._ask(lambda store: store.put(self._key, file))

    def load_file(self, load: Callable[[Path], _Answer]) -> _Answer | None:
        """Return what `load` reads from a copy of the object; None if there is no object."""
        with TemporaryDirectory(prefix="sclsearch-") as scratch:
            file = Path(scratch) / self.name

            def fetch(store: "ObjectStore") -> None:
                with file.open("wb") as target:
                    target.writelines(store.get(self._key))

            try:
                self._ask(fetch)
            except FileNotFoundError:
                return None
            return load(file)

    def exists(self) -> bool:
        with suppress(FileNotFoundError):
            self._ask(lambda store: store.head(self._key))
            return True
        return False

    def files(self) -> dict[str, int]:
        found = self._ask(lambda store: store.list(f"{self._key}/").collect())
        return {one["path"].removeprefix(f"{self._key}/"): one["size"] for one in found}

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self._ask(lambda store: store.delete(self._key))

    def remove_folder(self) -> None:
        places = [f"{self._key}/{name}" for name in self.files()]
        self._ask(lambda store: store.delete(places))

    def names(self) -> list[str]:
        found = self._ask(lambda store: store.list_with_delimiter(f"{self._key}/"))
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        # A folder created by hand is itself an object and appears in its own listing.
        return sorted(path.removeprefix(f"{self._key}/") for path in paths if path != self._key)

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

    @property
    def _key(self) -> str:
        return self.uri.partition("://")[2].partition("/")[2]

    def _ask(self, question: Callable[["ObjectStore"], _Answer]) -> _Answer:
        """Return the store's answer.

        Raises:
            FileNotFoundError: The object or the bucket does not exist.
            FileExistsError: The object to create exists, or the store says so.
            StorageError: The store denies access, or does not respond.
        """
        try:
            return question(_store(self.uri[: -len(self._key) or None], self.patience))
        except Exception as error:
            kind, text = type(error).__name__, str(error)
            if isinstance(error, FileNotFoundError) or "status code: 404" in text:
                raise FileNotFoundError(self.uri) from error
            said = re.search(r"<Message>(.*?)</Message>", text)
            reason = (said[1] if said else first_line(error)).rstrip(".")
            if kind in _EXISTS:
                raise FileExistsError(reason) from error
            if type(error).__module__ != "obstore.exceptions":
                raise
            if kind in _REFUSED or re.search("status code: 4(?!08|29)", text):
                raise StorageError(
                    f"{self}: refuses these credentials: {reason}. Check the bucket, the "
                    "credentials and their permissions."
                ) from error
            tried = f", after {self.patience:g} s of retries" if self.patience else ""
            raise UnavailableError(
                f"{self}: its store does not respond: {reason}{tried}. Check the network and the "
                "store's address, then run the same command to resume."
            ) from error


@cache
def _store(bucket: str, patience: float) -> "ObjectStore":
    """Return the client of a bucket, such as `s3://bucket/`."""
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise SclsearchError(
            f"--storage {bucket}…: obstore is not installed. Run pip install 'sclsearch[cloud]' on "
            "every machine that trains."
        ) from error
    waits = {"init_backoff": timedelta(seconds=FIRST_WAIT_SECONDS), "base": 2.0}
    waits["max_backoff"] = timedelta(seconds=LONGEST_WAIT_SECONDS)
    retries: Any = {"max_retries": 1000 if patience else 0, "backoff": waits}
    retries["retry_timeout"] = timedelta(seconds=patience)
    options: Any = {"allow_http": True, "timeout": timedelta(seconds=30)}
    given: dict[str, Any] = {"retry_config": retries, "client_options": options}
    if bucket.startswith("s3"):
        given["credential_provider"] = _profile(bucket)
        if region := _region(bucket):
            given["region"] = region
    return from_url(bucket, **given)


def _region(bucket: str) -> str | None:
    """Return the region of a bucket of AWS, which its server tells everybody; None if it is set."""
    if {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"} & os.environ.keys():
        return None
    place = f"https://s3.amazonaws.com/{bucket.removeprefix('s3://').rstrip('/')}"
    try:
        with urlopen(Request(place, method="HEAD"), timeout=10) as answer:
            region = answer.headers["x-amz-bucket-region"]
    except HTTPError as error:  # also tells it: moved, or forbidden without credentials
        region = error.headers["x-amz-bucket-region"]
    except OSError:
        return None
    return str(region) if region else None


def _profile(bucket: str) -> Any:
    """Return the credentials that boto3 finds, such as those of a profile; None without boto3."""
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:  # obstore itself knows environment variables and instance roles
        return None
    try:
        return Boto3CredentialProvider(ttl=timedelta(minutes=5))
    except Exception as error:
        raise StorageError(
            f"--storage {bucket}…: boto3 finds no AWS credentials: {first_line(error)}. Set "
            "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        ) from error
