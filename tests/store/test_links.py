"""Tests that a deletion never leaves the storage."""

from pathlib import Path

import pytest

from sclsearch.api import remove
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import LocalPath, new_folder
from sclsearch.store.studies import StudyStore
from tests.studies import RECORD

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
