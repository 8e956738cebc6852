"""Removal of studies, and of files in a storage that no study names."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.store.lock import check_no_driver
from sclsearch.store.storage import (
    DamagedError,
    Storage,
    check_no_link,
    check_no_mount,
    for_each,
    storage_path,
)
from sclsearch.store.studies import NAME, StudyStore, study_names

_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\..*\.part")
WAIT = "Wait for it, or stop it."


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Files that a cleanup deletes."""

    files: Mapping[str, int]  # bytes by path relative to the storage
    shared: int = 0  # seed runs of the studies that stay, because other studies share them
    tracked: int = 0  # MLflow runs to delete from the storage's own database

    @property
    def bytes(self) -> int:
        return sum(self.files.values())


def study_to_remove(storage: Storage, name: str) -> StudyStore:
    """Return the store of a study with exactly this name, damaged or not."""
    store = StudyStore(storage, name)
    check_no_link(store.folder)
    if not store.folder.files():
        raise SclsearchError(
            f"Unknown study {name!r} in {storage}.{suggestion(name, study_names(storage))}"
        )
    return store


def plan_removal(storage: Storage, stores: Sequence[StudyStore], *, unused: bool) -> Cleanup:
    """Return the files of studies, with their seed runs that no other study shares.

    With `unused` also seed runs, weights and checkpoints that no study names, and files of
    interrupted writes.
    If a record of a study is damaged, its seed runs stay; later they are unused.
    """
    check_no_link(storage_path(storage) / "runs")
    for name in ("runs", "studies"):
        check_no_mount(storage_path(storage) / name)
    runs = run_files(storage)  # before the records: a study names a seed run before it trains it
    removed = {store.name for store in stores}
    own = set[str]()
    for store in stores:
        with suppress(DamagedError):
            own |= store.seed_run_keys()[0]
    named = _named_keys(storage, removed) if own or unused else {}
    needed = set().union(*named.values())
    files = {
        path: size
        for path, (key, size) in runs.items()
        if (key in own or (unused and key)) and key not in needed
    }
    for path, size in (storage_path(storage) / "studies").files().items():
        name, _, inside = path.partition("/")
        if name in removed:
            doomed = not inside.startswith("driver")  # the claim of this process
        else:
            doomed = unused and (_is_temporary(path) or _is_unused_tensors(name, inside, named))
        if doomed:
            files[f"studies/{path}"] = size
    if unused:
        files |= {path: size for path, (_, size) in runs.items() if _is_temporary(path)}
    return Cleanup(files, shared=len(own & needed & {key for key, _ in runs.values()}))


def delete_planned(storage: Storage, stores: Sequence[StudyStore], found: Cleanup) -> None:
    """Delete the files that `plan_removal` found.

    The record of a study goes last, so that an interrupted removal can be repeated.
    """
    place = storage_path(storage)
    records = {f"studies/{store.name}/study.json" for store in stores}
    for_each(lambda path: path.remove(), [place / path for path in found.files.keys() - records])
    for store in stores:
        store.folder.remove_folder()


def check_no_drivers(
    storage: Storage, show_message: Callable[[str], object], without: Collection[str]
) -> None:
    """Raise SclsearchError if a driver of any study is alive, except the studies in `without`.

    `show_message` receives the name of a driver that the function waits for.
    """
    for name in _study_folders(storage):
        if name not in without:
            check_no_driver(storage_path(storage) / "studies" / name, show_message, WAIT)


def _study_folders(storage: Storage) -> list[str]:
    return [name for name in (storage_path(storage) / "studies").names() if NAME.fullmatch(name)]


def _named_keys(storage: Storage, without: Collection[str]) -> dict[str, set[str]]:
    named, faults = dict[str, set[str]](), list[str]()
    for name in _study_folders(storage):
        if name in without:
            continue
        try:
            named[name], damaged = StudyStore(storage, name).seed_run_keys()
            faults += damaged
        except DamagedError as error:
            faults.append(str(error))
    if faults:
        raise DamagedError("\n".join(faults))
    return named


def run_files(storage: Storage) -> dict[str, tuple[str, int]]:
    """Return the key and the size of each file below `runs/`; the key is empty if there is none."""
    files = (storage_path(storage) / "runs").files()
    found = {}
    for path, size in files.items():
        key = _KEY.match(path.rpartition("/")[2].removeprefix("."))
        found[f"runs/{path}"] = (key[0] if key else "", size)
    return found


def _is_temporary(path: str) -> bool:
    return _TEMPORARY.fullmatch(path.rpartition("/")[2]) is not None


def _is_unused_tensors(study: str, path: str, named: Mapping[str, set[str]]) -> bool:
    folder, _, file = path.rpartition("/")
    key = file.partition(".")[0]
    ours = folder in {"weights", "checkpoints"} and _KEY.fullmatch(key) is not None
    return ours and study in named and key not in named[study]
