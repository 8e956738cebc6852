"""Removal of a study, and of files in a storage that no study names."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.store.driver import check_no_driver
from sclsearch.store.local import DamagedError
from sclsearch.store.objects import for_each
from sclsearch.store.storage import Storage, storage_path
from sclsearch.store.studies import NAME, StudyStore, study_names

_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\..*\.part|preflight-.*\.json")
WAIT = "Wait for it, or stop it."

SEED_RUNS, WEIGHTS, RECORDS, TEMPORARY = "seed runs", "weights", "records", "temporary files"


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Files that a cleanup deletes.

    Attributes:
        files: Size in bytes of each file, by kind and by path relative to the storage. Kinds are
            `seed runs`, `weights`, `records` and `temporary files`.
        shared: Number of seed runs of the study that stay, because other studies share them.
        tracked: Number of MLflow runs that the cleanup deletes from the storage's own database.
    """

    files: Mapping[str, Mapping[str, int]]
    shared: int = 0
    tracked: int = 0

    @property
    def bytes(self) -> int:
        """Size of all files in bytes."""
        return sum(sum(sizes.values()) for sizes in self.files.values())


def study_to_remove(storage: Storage, name: str) -> StudyStore:
    """Return the store of a study with exactly this name, damaged or not.

    Raises:
        SclsearchError: The storage has no such study.
    """
    store = StudyStore(storage, name)
    if not store.folder.files():
        raise SclsearchError(
            f"Unknown study {name!r} in {storage}.{suggestion(name, study_names(storage))}"
        )
    return store


def plan_removal(storage: Storage, name: str) -> Cleanup:
    """Return the files of a study, with its seed runs that no other study shares.

    If a record of the study is damaged, its seed runs stay, and a garbage collection deletes them.
    """
    store = study_to_remove(storage, name)
    try:
        own, _ = store.seed_run_keys()
    except DamagedError:
        own = set()
    others = _named_keys(storage, without=name) if own else {}
    shared = own & set().union(*others.values())
    runs = run_files(storage)
    alone = {path: size for path, (key, size) in runs.items() if key in own - shared}
    inside = {
        f"studies/{name}/{path}": size
        for path, size in store.folder.files().items()
        if not path.startswith("driver")  # the claim of this process
    }
    weights = {path: size for path, size in inside.items() if "/weights/" in path}
    return Cleanup(
        files={
            SEED_RUNS: alone,
            WEIGHTS: weights,
            RECORDS: {path: size for path, size in inside.items() if path not in weights},
        },
        shared=len(shared & {key for key, _ in runs.values()}),
    )


def delete_study(storage: Storage, name: str, found: Cleanup) -> None:
    """Delete a study as `plan_removal` planned it.

    Its record goes last, so that an interrupted removal can be repeated.
    """
    delete_files(storage, found, last=f"studies/{name}/study.json")
    StudyStore(storage, name).folder.remove_folder()


def plan_garbage(storage: Storage) -> Cleanup:
    """Return seed runs and weights that no study names, and files of interrupted writes."""
    runs = run_files(storage)  # before the records: a study names a seed run before it trains it
    below = storage_path(storage) / "studies"
    inside = {f"studies/{path}": size for path, size in below.files().items()}
    named = _named_keys(storage)
    every = set().union(*named.values())
    unfinished = {path: size for path, size in inside.items() if _is_temporary(path)}
    unfinished |= {path: size for path, (_, size) in runs.items() if _is_temporary(path)}
    return Cleanup(
        files={
            SEED_RUNS: {
                path: size
                for path, (key, size) in runs.items()
                if key and key not in every and path not in unfinished
            },
            WEIGHTS: {
                path: size
                for path, size in inside.items()
                if path not in unfinished and _is_unnamed_weights(path, named)
            },
            TEMPORARY: unfinished,
        }
    )


def check_no_drivers(storage: Storage, show_message: Callable[[str], object]) -> None:
    """Raise SclsearchError if a driver of any study is alive.

    `show_message` receives the name of a driver that the function waits for.
    """
    for name in _study_folders(storage):
        check_no_driver(storage_path(storage) / "studies" / name, show_message, WAIT)


def delete_files(storage: Storage, found: Cleanup, last: str = "") -> None:
    """Delete the files of a cleanup, except the one that the caller deletes last."""
    place = storage_path(storage)
    for sizes in found.files.values():
        for_each(lambda path: path.remove(), [place / path for path in sizes if path != last])


def _study_folders(storage: Storage) -> list[str]:
    """Return the names of all folders of studies, even of those without a record."""
    return [name for name in (storage_path(storage) / "studies").names() if NAME.fullmatch(name)]


def _named_keys(storage: Storage, without: str = "") -> dict[str, set[str]]:
    """Return the keys of the seed runs of each study.

    Raises:
        DamagedError: Records are damaged or missing. The message names all of them.
    """
    named, faults = dict[str, set[str]](), list[str]()
    for name in _study_folders(storage):
        if name == without:
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


def _is_unnamed_weights(path: str, named: Mapping[str, set[str]]) -> bool:
    _, name, *rest = path.split("/")
    if rest[:1] != ["weights"] or name not in named:
        return False
    return rest[-1].removesuffix(".safetensors") not in named[name]
