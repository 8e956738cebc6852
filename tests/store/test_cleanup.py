"""Tests of removing studies and unused files; a deletion never leaves the storage."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from sclsearch.api import remove
from sclsearch.errors import SclsearchError
from sclsearch.store import storage as storage_module
from sclsearch.store.lock import sole_driver
from sclsearch.store.storage import LocalPath, StoragePath, new_folder, write
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyStore,
    seed_run_key,
    study_names,
)
from tests.studies import FIELDS, RECORD

Write = Callable[[str, int], list[str]]
UNNAMED = "f" * 64


@pytest.fixture
def write_study(folder: StoragePath) -> Write:
    """Return a function that stores a study and returns the keys of its seed runs.

    Studies share the seed runs of configurations with equal numbers; the last has its weights.
    """
    replicate = ReplicateRecord(0, {"train": "t"}, {"order": 0}, ())

    def write_study(name: str, configurations: int) -> list[str]:
        store, keys = StudyStore(str(folder), name), []
        store.create(replace(RECORD, name=name))
        store.add(replicate)
        for number in range(configurations):
            configuration = ConfigurationRecord(
                number, {}, {**FIELDS, "epochs": number + 1}, "sampled"
            )
            store.add(configuration)
            keys.append(seed_run_key(RECORD, configuration, replicate))
            write(folder / f"runs/{keys[-1]}.json", {"of": keys[-1]})
        store.weights(keys[-1]).write(b"12345")
        return keys

    return write_study


def keys_in(folder: StoragePath) -> set[str]:
    return {path.rpartition("/")[2][:64] for path in (folder / "runs").files()}


def test_a_removal_keeps_the_seed_runs_that_another_study_shares(
    folder: StoragePath, write_study: Write
) -> None:
    keys = write_study("first", 3)
    shared = write_study("second", 1)
    write(folder / f"runs/retried/{keys[2]}-17.json", {})
    (folder / f"runs/rows/{keys[1]}.npz").write(b"rows")
    preview = remove("first", storage=str(folder), dry_run=True)
    found = Counter(path.partition("/")[0] for path in preview.files)
    # The study, 3 configurations and their number, 1 replicate, and the weights of one seed run.
    assert found == {"runs": 4, "studies": 6}
    assert (preview.shared, preview.tracked) == (1, 0)
    assert preview.files[f"studies/first/weights/{keys[2]}.safetensors"] == 5
    assert keys_in(folder) == {*keys}
    assert remove("first", storage=str(folder)) == preview
    assert keys_in(folder) == {*shared} == {keys[0]}
    assert study_names(str(folder)) == (folder / "studies").names() == ["second"]
    with pytest.raises(SclsearchError, match=r"^Unknown study 'sec' .* Did you mean 'second'\?"):
        remove("sec", storage=str(folder))


def test_an_interrupted_removal_is_completed_by_the_next(
    folder: StoragePath, write_study: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study("first", 2)
    first = folder / "studies" / "first"
    with monkeypatch.context() as patched:
        patched.setattr(type(first), "remove_folder", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            remove("first", storage=str(folder))
    assert first.files().keys() == {"study.json"}
    assert remove("first", storage=str(folder)).files.keys() == {"studies/first/study.json"}
    assert study_names(str(folder)) == []


def test_unused_files_are_deleted_and_others_stay(folder: StoragePath, write_study: Write) -> None:
    keys = write_study("first", 2)
    unused = {
        f"runs/{UNNAMED}.json",
        f"runs/damaged/{UNNAMED}-5.json",
        f"studies/first/weights/{UNNAMED}.safetensors",
        f"studies/first/checkpoints/{UNNAMED}.pt",
        f"runs/.{keys[0]}.json.abc.part",
    }
    for path in unused:
        write(folder / path, {})
    StudyStore(str(folder), "first").checkpoint(keys[0]).write(b"")
    for foreign in (".DS_Store", "first/weights/mine.txt"):
        (folder / "studies" / foreign).write(b"")
    preview = remove(unused=True, storage=str(folder), dry_run=True)
    assert preview.files.keys() == unused
    assert remove(unused=True, storage=str(folder)) == preview
    assert keys_in(folder) == {*keys}
    assert {*(folder / "studies/first/weights").names()} == {
        f"{keys[-1]}.safetensors",
        "mine.txt",
    }
    assert (folder / "studies/first/checkpoints").names() == [f"{keys[0]}.pt"]
    write(folder / f"runs/{UNNAMED}.json", {})
    second = write_study("second", 1)
    remove("first", unused=True, storage=str(folder))
    assert study_names(str(folder)) == ["second"]
    assert keys_in(folder) == {*second}


def test_nothing_is_deleted_while_a_search_runs(folder: StoragePath, write_study: Write) -> None:
    keys = write_study("first", 1)
    write(folder / f"runs/{UNNAMED}.json", {})
    with sole_driver(folder / "studies" / "first"):
        for studies in (["first"], []):
            with pytest.raises(
                SclsearchError, match=r"^first: process \d+ on .* already runs this"
            ):
                remove(*studies, unused=not studies, storage=str(folder))
    assert keys_in(folder) == {*keys, UNNAMED}
    assert len(remove(unused=True, storage=str(folder)).files) == 1


def test_no_shared_file_is_deleted_while_a_study_is_damaged(
    folder: StoragePath, write_study: Write
) -> None:
    keys = write_study("first", 2)
    for name in ("second", "third"):
        write_study(name, 1)
    first, third = folder / "studies" / "first", folder / "studies" / "third"
    (first / "configurations" / "1.json").write(b"{")
    (third / "configurations" / "0.json").write(b"{")
    both = r"first/configurations/1\.json: is not .*\n.*third/configurations/0\.json: is not a JSON"
    for names, unused in (([], True), (["second"], False)):
        with pytest.raises(SclsearchError, match=both):
            remove(*names, unused=unused, storage=str(folder))
    (first / "study.json").remove()
    (third / "study.json").write(b"{")
    both = r"first/study\.json: was deleted\..*\n.*third/study\.json: is not a JSON object"
    with pytest.raises(SclsearchError, match=both):
        remove(unused=True, storage=str(folder))
    assert keys_in(folder) == {*keys}
    removed = remove("first", "third", storage=str(folder))
    assert not any(path.startswith("runs") for path in removed.files)
    assert remove(unused=True, storage=str(folder)).files.keys() == {f"runs/{keys[1]}.json"}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder outside the storage with files that look like those of a storage."""
    folder = tmp_path / "victim"
    (folder / "weights").mkdir(parents=True)
    for name in ("study.json", f"{UNNAMED}.json", ".x.part", f"weights/{UNNAMED}.safetensors"):
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def before(victim: Path) -> list[Path]:
    return sorted(victim.rglob("*"))


@pytest.mark.parametrize(
    ("link", "studies"), [("studies/k", ["k"]), ("studies", ["k"]), ("runs", [])]
)
def test_a_removal_refuses_links_that_lead_out_of_the_storage(
    link: str, studies: list[str], victim: Path, before: list[Path], tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    (storage / link).parent.mkdir(parents=True)
    (storage / link).symlink_to(victim if link != "studies" else tmp_path)
    (tmp_path / "k").symlink_to(victim)
    for dry_run in (True, False):
        with pytest.raises(SclsearchError, match="by a link"):
            remove(*studies, unused=link == "runs", storage=storage, dry_run=dry_run)
    assert sorted(victim.rglob("*")) == before
    (storage / link).unlink()
    (storage / link).symlink_to(Path(link).name)  # leads to itself
    with pytest.raises((SclsearchError, OSError), match=re.escape(str(storage / link))):
        remove(*studies, unused=link == "runs", storage=storage)


def test_a_removal_refuses_what_is_mounted_in_the_storage(
    victim: Path, before: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = tmp_path / "größe mine"
    StudyStore(storage, "k").create(RECORD)
    place = f"{storage}/studies/k/x".replace(" ", r"\040")
    monkeypatch.setattr(storage_module, "MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(f"42 27 254:0 {victim} {place} rw - ext4 /dev/vda rw\n")
    victim.rename(storage / "studies/k/x")
    with pytest.raises(SclsearchError, match=r"größe mine/studies/k/x: is mounted there"):
        remove("k", storage=storage)
    (storage / "studies/k/x").rename(victim)
    assert sorted(victim.rglob("*")) == before


def test_files_behind_links_within_a_study_stay(
    victim: Path, before: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "storage").symlink_to(tmp_path / "real")  # a link in itself works
    store = StudyStore(tmp_path / "storage", "k")
    store.create(RECORD)
    for name in ("weights", "other"):
        (tmp_path / "real/studies/k" / name).symlink_to(victim / "weights")
    store.delete_other_weights("0" * 64)
    assert sorted(victim.rglob("*")) == before
    remove("k", storage=tmp_path / "storage")
    assert not (tmp_path / "real/studies/k").exists()
    assert sorted(victim.rglob("*")) == before


def test_replacing_an_exported_folder_that_is_a_link_keeps_the_target(
    victim: Path, before: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "model").symlink_to(victim)
    with (
        pytest.raises(SclsearchError, match="cannot be replaced"),
        new_folder(tmp_path / "model", replace=True),
    ):
        pass
    assert sorted(victim.rglob("*")) == before
    assert LocalPath(tmp_path / "model").exists()
