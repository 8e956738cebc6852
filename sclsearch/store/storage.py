"""Storage locations, a folder or a path in an object store, and the JSON objects in them."""

import errno
import json
import os
import re
import shlex
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

from sclsearch.canonical import NotARegularFileError, canonical, digest, read_file
from sclsearch.errors import SclsearchError
from sclsearch.store.remote import SCHEMES, RemotePath
from sclsearch.store.schema import parsed

ADVICE = "Move it away."
# Errors of shared file systems that cannot flush a folder, or that do not support hard links.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_NOT_READABLE = {errno.EFBIG, errno.ELOOP}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
MOUNTS = Path("/proc/self/mountinfo")
"""File with the folders where something is mounted."""
_T = TypeVar("_T")


class DamagedError(SclsearchError):
    """Error for a stored object that is unreadable or invalid."""


@dataclass(frozen=True, slots=True)
class LocalPath:
    """Storage path in a folder. A file is written as a whole or not at all.

    `RemotePath` has the same methods. Here a path that is not a regular file raises DamagedError.
    """

    parallel_reads: ClassVar[int] = 1
    """Number of files to read at a time."""

    path: Path

    def __truediv__(self, name: str) -> "LocalPath":
        return LocalPath(self.path / name)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def local(self) -> Path:
        """The path, for code that needs a file system."""
        return self.path

    def prepare(self, *, make: bool) -> None:
        """Create the folder, or check that it can be listed if it exists."""
        if make:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        else:
            next(nearest(self.path).path.iterdir(), None)

    def read(self) -> bytes | None:
        """Return the file's bytes, or None if it does not exist."""
        try:
            return self._content()
        except FileNotFoundError:
            # An NFS client caches a missing file for a minute; listing the folder refreshes it.
            with suppress(FileNotFoundError):
                os.scandir(self.path.parent).close()
                return self._content()
            if self.path.is_symlink():
                raise DamagedError(f"{self}: is a broken link. {ADVICE}") from None
            return None

    def write(self, content: bytes) -> None:
        """Write the file atomically: a reader sees either the old or the new content."""
        self.save_file(lambda part: part.write_bytes(content))

    def create(self, content: bytes) -> bool:
        """Write the file unless it exists; return True if it was written."""
        if self.path.exists():
            return False
        with self._part() as part:
            part.write_bytes(content)
            _sync(part)
            return publish(part, self.path)

    def exists(self) -> bool:
        """Return True if the path exists, even as a broken link."""
        if os.path.lexists(self.path):
            return True
        with suppress(OSError):  # refreshes the NFS client's cache, as in `read`
            os.scandir(self.path.parent).close()
        return os.path.lexists(self.path)

    def names(self) -> list[str]:
        """Return the sorted names in the folder, without hidden files; empty without a folder."""
        try:
            return sorted(one.name for one in self.path.iterdir() if not one.name.startswith("."))
        except FileNotFoundError:
            return []

    def files(self) -> dict[str, int]:
        """Return the bytes of every file below the folder, hidden ones too, by relative path."""
        found = {}
        for folder, _, names in os.walk(self.path):
            for name in names:
                place = Path(folder, name)
                with suppress(FileNotFoundError):  # a writer may have renamed its temporary file
                    found[str(place.relative_to(self.path))] = place.lstat().st_size
        return found

    def remove(self) -> None:
        check_no_link(LocalPath(self.path.parent))
        self.path.unlink(missing_ok=True)

    def remove_folder(self) -> None:
        check_no_link(self)
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def move_into(self, folder: str, name: str) -> "LocalPath":
        """Move the file into a subfolder of its folder, under an unused name; return its path."""
        target = self.path.parent / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        _rename(self.path, target)
        return LocalPath(target)

    def save_file(self, save: Callable[[Path], object]) -> None:
        """Store the file that `save` writes; a reader sees the whole file or none."""
        with self._part() as part:
            save(part)
            _sync(part)
            _rename(part, self.path)

    def load_file(self, load: Callable[[Path], _T]) -> _T | None:
        """Return what `load` reads from the file; None if the file does not exist."""
        if not self.exists():
            return None
        if not self.path.is_file():
            raise DamagedError(f"{self}: is not a file. {ADVICE}")
        return load(self.path)

    def without_retries(self) -> "LocalPath":
        """Return the same path: a file system needs no retries."""
        return self

    def _content(self) -> bytes:
        try:
            return read_file(self.path)
        except (NotARegularFileError, IsADirectoryError) as error:
            raise DamagedError(f"{self}: is not a file. {ADVICE}") from error
        except OSError as error:
            if error.errno not in _NOT_READABLE:
                raise
            raise DamagedError(f"{self}: cannot be read: {error.strerror}. {ADVICE}") from error

    @contextmanager
    def _part(self) -> Iterator[Path]:
        """Yield the path of a temporary file, which is deleted if it still exists at the end."""
        part = self.path.with_name(f".{self.name}.{uuid.uuid4().hex}.part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield part
            finally:
                part.unlink(missing_ok=True)
        except PermissionError as error:
            folder = next(path for path in part.parents if os.access(path, os.F_OK))
            reason = f"{error.strerror}, its permissions are {permissions(folder)}"
            raise PermissionError(error.errno, reason, str(folder)) from error


@contextmanager
def new_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to write into, and rename it to `folder` if the body succeeds.

    `folder` must be missing or empty, unless `replace` is True.
    """
    with TemporaryDirectory(prefix=".sclsearch-", dir=folder.parent) as near:
        # Use a subfolder: the temporary folder itself is readable only by its owner.
        part = Path(near) / folder.name
        part.mkdir()
        yield part
        try:
            if replace and folder.exists():
                shutil.rmtree(folder)
            part.rename(folder)
        except OSError as error:
            raise SclsearchError(
                f"{folder}: cannot be replaced: {error.strerror}. Name a new folder inside it."
            ) from error


def check_no_link(folder: "StoragePath") -> None:
    """Raise SclsearchError if a folder of a storage is a link or behind one.

    Nothing is deleted there, because it may belong to others.
    """
    place = folder.local
    if place is None:
        return
    real = os.path.realpath(place)  # `Path.resolve` raises RuntimeError for a link to itself
    if place.is_symlink() or real != str(place):
        raise SclsearchError(
            f"{place}: leads to {real}, by a link. Nothing is deleted behind links: "
            "remove the link or the files by hand."
        )


def check_no_mount(folder: "StoragePath") -> None:
    """Raise SclsearchError if something is mounted inside a folder of a storage, as in a link."""
    place, mounts = folder.local, list[str]()
    with suppress(OSError):  # other systems than Linux
        mounts = [line.split()[4] for line in MOUNTS.read_text(encoding="utf-8").splitlines()]
    for point in mounts:
        inside = Path(re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), point))
        if place is not None and place in inside.parents:
            raise SclsearchError(f"{inside}: is mounted there. Nothing is deleted: unmount it.")


def publish(part: Path, place: Path) -> bool:
    """Give a completely written file its name, unless a file has it; return True if it got it.

    The caller deletes the old name.
    """
    try:
        os.link(part, place)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:  # without hard links, an empty file reserves the name
            os.close(os.open(place, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        part.replace(place)
    _sync(place.parent)
    return True


def permissions(path: Path) -> str:
    """Return the permissions and the owner of a path, such as `drwxr-xr-x of user 0`."""
    found = path.stat()
    return f"{stat.filemode(found.st_mode)} of user {found.st_uid}"


def nearest(place: Path) -> LocalPath:
    """Return the path, or the nearest folder above it that exists."""
    return LocalPath(next(path for path in (place, *place.parents) if path.exists()))


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


Storage = Path | str
StoragePath = LocalPath | RemotePath
"""Path of a file or a folder in a storage; both types have the same methods."""
DEFAULT_STORAGE = "sclsearch-storage"

_URI = re.compile(r"(?P<scheme>[A-Za-z0-9]{2,}):/(?P<slash>/?)(?P<rest>.*)")


def storage_path(storage: Storage) -> StoragePath:
    """Return the absolute path of a folder, or a URI such as `s3://bucket/folder`.

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
            raise SclsearchError(f"--storage {storage}: {error} Pass an absolute path.") from error
    bucket = found["rest"].rstrip("/")
    scheme = found["scheme"].lower()
    if scheme not in SCHEMES or not found["slash"] or not bucket:
        raise SclsearchError(
            f"--storage {storage}: must be a folder, s3://bucket/folder, gs://bucket/folder or "
            "az://container/folder. Give a URI as text and not as a Path."
        )
    return RemotePath(f"{scheme}://{bucket}")


def storage_folder(storage: Storage, *, make: bool = True, check: bool = False) -> Storage:
    """Return the absolute storage, after creating its folder or checking its object store.

    A missing folder is created if `make` is True; `check` tests whether it can be.
    """
    place = storage_path(storage)
    try:
        place.prepare(make=make)
        if check and place.local is not None:
            try_writing(nearest(place.local))
    except OSError as error:
        raise SclsearchError(
            f"--storage {storage}: is not a folder that can be written: {error}. Name another."
        ) from error
    return place.local or str(place)


def storage_option(storage: Storage) -> str:
    """Return the option ` --storage …` for a suggested command; empty for the default storage."""
    place = storage_path(storage)
    return "" if place == storage_path(DEFAULT_STORAGE) else f" --storage {shlex.quote(str(place))}"


CHECKSUM = "sha256"
"""Name of the field with the digest of all other fields; `write` adds it, `read` checks it."""


def write(place: StoragePath, value: Mapping[str, Any]) -> None:
    """Write an object atomically: a reader sees either the old or the new object."""
    place.write(_encoded(value))


def create(place: StoragePath, value: Mapping[str, Any]) -> bool:
    """Write an object unless one exists; return True if it was written."""
    return place.create(_encoded(value))


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its checksum added."""
    return {**value, CHECKSUM: digest(value)}


def read(place: StoragePath, kind: type[_T], advice: str = ADVICE) -> _T | None:
    """Return a stored JSON object as an instance of a type, or None if it does not exist.

    `advice` for the user ends the error of a damaged object.

    Raises:
        DamagedError: The content is not a JSON object of the type, or its checksum does not match.
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
    try:
        return parsed(kind, value, str(place))
    except (ValueError, LookupError, SclsearchError) as error:
        raise DamagedError(
            f"{place}: is not of this version: {str(error).rstrip('.')}. {advice}"
        ) from error


def read_each(
    places: Sequence[StoragePath], kind: type[_T], advice: str = ADVICE
) -> list[_T | DamagedError | None]:
    """Return several objects, None for a missing and a DamagedError for a damaged object."""

    def read_one(place: StoragePath) -> _T | DamagedError | None:
        try:
            return read(place, kind, advice)
        except DamagedError as error:
            return error

    return for_each(read_one, places)


def discard(place: StoragePath) -> None:
    """Delete a file that nothing needs, if it can be: a clean-up never fails a search."""
    with suppress(OSError, SclsearchError):
        place.without_retries().remove()


def for_each(do: Callable[[StoragePath], _T], places: Sequence[StoragePath]) -> list[_T]:
    """Return the results of a function for paths of one storage; in parallel for a remote one."""
    threads = places[0].parallel_reads if places else 1
    if threads == 1:
        return [do(place) for place in places]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, places))


def check_writable(folder: StoragePath) -> None:
    """Raise SclsearchError if a folder is not writable."""
    try:
        try_writing(folder)
    except OSError as error:
        raise SclsearchError(f"{folder}: is not writable: {error}. Name another.") from error


def try_writing(folder: StoragePath) -> None:
    """Write, read and delete a test object; raise OSError if that fails."""
    mark = folder / f"sclsearch-check-{uuid.uuid4().hex}.json"
    write(mark, {"check": mark.name})
    found = read(mark, dict)
    discard(mark)
    if found != {"check": mark.name}:
        raise SclsearchError(f"{folder}: does not return what was written, but {found!r}.")


def _encoded(value: Mapping[str, Any]) -> bytes:
    return f"{canonical(sealed(value))}\n".encode()
