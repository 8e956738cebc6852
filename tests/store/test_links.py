"""Tests that a deletion never leaves the storage."""

from pathlib import Path

import pytest

from sclsearch.api import remove
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import LocalPath, new_folder
from sclsearch.store.studies import StudyStore
from tests.store.conftest import RECORD

KEY = "f" * 64


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder outside the storage with files that look like those of a storage."""
    folder = tmp_path / "victim"
    (folder / "weights").mkdir(parents=True)
    for name in ("study.json", f"{KEY}.json", ".x.part", f"weights/{KEY}.safetensors"):
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def before(victim: Path) -> list[Path]:
    return sorted(victim.rglob("*"))


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("link", "studies", "unused"),
    [("studies/k", ["k"], False), ("studies", ["k"], False), ("runs", [], True)],
)
def test_a_removal_refuses_links_that_lead_out_of_the_storage(
    link: str,
    studies: list[str],
    unused: bool,
    dry_run: bool,
    victim: Path,
    before: list[Path],
    tmp_path: Path,
) -> None:
    storage = tmp_path / "storage"
    (storage / link).parent.mkdir(parents=True)
    target = victim if link != "studies" else victim.parent
    (storage / link).symlink_to(target)
    if link == "studies":
        (victim.parent / "k").symlink_to(victim)
    with pytest.raises(SclsearchError, match="by a link"):
        remove(*studies, unused=unused, storage=storage, dry_run=dry_run)
    assert sorted(victim.rglob("*")) == before


def test_weights_behind_a_link_stay(victim: Path, before: list[Path], tmp_path: Path) -> None:
    store = StudyStore(tmp_path / "storage", "k")
    store.create(RECORD)
    (tmp_path / "storage/studies/k/weights").symlink_to(victim / "weights")
    store.delete_other_weights("0" * 64)
    assert sorted(victim.rglob("*")) == before


def test_a_link_within_a_study_is_deleted_and_its_target_stays(
    victim: Path, before: list[Path], tmp_path: Path
) -> None:
    store = StudyStore(tmp_path / "storage", "k")
    store.create(RECORD)
    (tmp_path / "storage/studies/k/other").symlink_to(victim)
    remove("k", storage=tmp_path / "storage")
    assert not (tmp_path / "storage/studies/k").exists()
    assert sorted(victim.rglob("*")) == before


def test_a_storage_that_is_a_link_itself_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "storage").symlink_to(tmp_path / "real")
    StudyStore(tmp_path / "storage", "k").create(RECORD)
    remove("k", storage=tmp_path / "storage")
    assert not (tmp_path / "real/studies/k").exists()


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
