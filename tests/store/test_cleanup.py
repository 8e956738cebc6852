"""Tests of removing studies and unused files."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.api import remove
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import storage_path, write
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyStore,
    seed_run_key,
    study_names,
)
from tests.store.test_studies import RECORD
from tests.store.together import another_driver

Write = Callable[[str, int], list[str]]


@pytest.fixture
def write_study(storage: str) -> Write:
    """Return a function that stores a study and returns the keys of its seed runs.

    Studies share the seed runs of configurations with equal numbers.
    """

    def write_study(name: str, configurations: int) -> list[str]:
        store = StudyStore(storage, name)
        record = replace(RECORD, name=name)
        store.create(record)
        replicate = ReplicateRecord(0, {"train": "t"}, {"order": 0}, ())
        store.add(replicate)
        keys = []
        for number in range(configurations):
            configuration = ConfigurationRecord(number, {}, {"epochs": number + 1}, "sampled")
            store.add(configuration)
            key = seed_run_key(record, configuration, replicate)
            write(storage_path(storage) / f"runs/{key}.json", {"of": key})
            keys.append(key)
        save_weights(store, keys[-1])
        return keys

    return write_study


def save_weights(store: StudyStore, key: str) -> None:
    def save(path: Path) -> None:
        path.write_bytes(b"12345")

    store.weights(key).save_file(save)


def keys_of(storage: str) -> set[str]:
    files = (storage_path(storage) / "runs").files()
    return {path.rpartition("/")[2][:64] for path in files}


def test_a_removal_keeps_the_seed_runs_that_another_study_shares(
    storage: str, write_study: Write
) -> None:
    keys = write_study("first", 3)
    shared = write_study("second", 1)
    write(storage_path(storage) / f"runs/retried/{keys[2]}-17.json", {})
    (storage_path(storage) / f"runs/rows/{keys[1]}.npz").write(b"rows")
    preview = remove("first", storage=storage, dry_run=True)
    folders = Counter(path.partition("/")[0] for path in preview.files)
    # The study, 3 configurations and their number, 1 replicate, and the weights of one seed run.
    assert folders == {"runs": 4, "studies": 7}
    assert (preview.shared, preview.tracked) == (1, 0)
    assert preview.files[f"studies/first/weights/{keys[2]}.safetensors"] == 5
    assert keys_of(storage) == {*keys}
    assert remove("first", storage=storage) == preview
    assert keys_of(storage) == {*shared} == {keys[0]}
    assert study_names(storage) == ["second"]
    assert (storage_path(storage) / "studies").names() == ["second"]


def test_an_interrupted_removal_is_completed_by_the_next(
    storage: str, write_study: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study("first", 2)
    folder = StudyStore(storage, "first").folder

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(folder), "remove_folder", interrupt)
        with pytest.raises(KeyboardInterrupt):
            remove("first", storage=storage)
    assert folder.files().keys() == {"study.json"}
    assert study_names(storage) == ["first"]
    assert remove("first", storage=storage).files.keys() == {"studies/first/study.json"}
    assert study_names(storage) == []


def test_unused_files_are_deleted_and_others_stay(storage: str, write_study: Write) -> None:
    keys = write_study("first", 2)
    root = storage_path(storage)
    unnamed = "f" * 64
    write(root / f"runs/{unnamed}.json", {})
    write(root / f"runs/damaged/{unnamed}-5.json", {})
    write(root / f"runs/.{keys[0]}.json.abc.part", {})
    save_weights(StudyStore(storage, "first"), unnamed)
    preview = remove(unused=True, storage=storage, dry_run=True)
    assert preview.files.keys() == {
        f"runs/{unnamed}.json",
        f"runs/damaged/{unnamed}-5.json",
        f"studies/first/weights/{unnamed}.safetensors",
        f"runs/.{keys[0]}.json.abc.part",
    }
    assert remove(unused=True, storage=storage) == preview
    assert keys_of(storage) == {*keys}
    assert (root / "studies/first/weights").names() == [f"{keys[-1]}.safetensors"]
    assert remove(unused=True, storage=storage).bytes == 0
    (root / "studies/.DS_Store").write(b"")
    assert remove(unused=True, storage=storage).bytes == 0


def test_nothing_is_deleted_while_a_search_runs(storage: str, write_study: Write) -> None:
    keys = write_study("first", 1)
    write(storage_path(storage) / f"runs/{'f' * 64}.json", {})
    folder = StudyStore(storage, "first").folder
    with another_driver(folder):
        message = r"^first: process \d+ on .* already runs this study\. Wait for it, or stop it\.$"
        with pytest.raises(SclsearchError, match=message):
            remove("first", storage=storage)
        with pytest.raises(SclsearchError, match=message):
            remove(unused=True, storage=storage)
    assert keys_of(storage) == {*keys, "f" * 64}
    assert len(remove(unused=True, storage=storage).files) == 1


def test_nothing_is_deleted_while_a_study_is_damaged(storage: str, write_study: Write) -> None:
    keys = write_study("first", 2)
    write_study("second", 1)
    (StudyStore(storage, "first").folder / "configurations" / "1.json").write(b"{")
    with pytest.raises(SclsearchError, match=r"configurations/1\.json: is not a JSON object"):
        remove(unused=True, storage=storage)
    with pytest.raises(SclsearchError, match=r"configurations/1\.json: is not a JSON object"):
        remove("second", storage=storage)
    assert keys_of(storage) == {*keys}


def test_a_study_without_its_record_can_be_removed(storage: str, write_study: Write) -> None:
    keys = write_study("first", 2)
    (StudyStore(storage, "first").folder / "study.json").remove()
    with pytest.raises(SclsearchError, match=r"studies/first/study\.json: was deleted\."):
        remove(unused=True, storage=storage)
    assert not any(path.startswith("runs") for path in remove("first", storage=storage).files)
    assert remove(unused=True, storage=storage).files.keys() == {f"runs/{key}.json" for key in keys}


def test_a_removal_needs_the_full_name_of_an_existing_study(
    storage: str, write_study: Write
) -> None:
    write_study("first", 1)
    with pytest.raises(SclsearchError, match=r"^Unknown study 'fir' .* Did you mean 'first'\?"):
        remove("fir", storage=storage)


def test_studies_and_the_unused_files_go_together(storage: str, write_study: Write) -> None:
    write_study("first", 2)
    keys = write_study("second", 1)
    write_study("third", 3)
    write(storage_path(storage) / f"runs/{'f' * 64}.json", {})
    remove("first", "third", unused=True, storage=storage)
    assert study_names(storage) == ["second"]
    assert keys_of(storage) == {*keys}
