"""Tests of `rm`: dry runs, consent and deletion."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from tests.conftest import Call

Count = Callable[[], int]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def files(storage: Path, finished: tuple[str, ...]) -> Count:
    """Return a function that counts the files of a storage with one finished study."""
    return lambda: sum(path.is_file() for path in storage.rglob("*"))


def test_a_study_is_deleted_with_consent_only_and_a_dry_run_counts_its_files(
    sclsearch: Call, files: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files()
    first, second, *paths = sclsearch("rm", "mine", "--dry-run").stdout.splitlines()
    assert first.startswith(f"{before} files, ")
    runs = sum(path.startswith("runs/") for path in paths)
    assert first.endswith(f": {runs} of seed runs, {before - runs} of studies")
    assert second == "MLflow: 0 runs in the storage's own database"
    assert len(paths) == before
    sclsearch("rm", "mine").assert_refused("standard input is not a terminal", "Pass --yes")
    monkeypatch.setattr("sys.stdin", Terminal("n\ny\n"))
    assert sclsearch("rm", "mine").returncode == 1
    assert files() == before
    assert sclsearch("rm", "mine").stdout.endswith("Deleted.\n")
    assert files() == 0


def test_unused_files_are_deleted_alone(sclsearch: Call, storage: Path, files: Count) -> None:
    assert "Deleted" not in sclsearch("rm", "--unused").stdout
    before = files()
    (storage / "runs" / f"{'a' * 64}.json").touch()
    assert sclsearch("rm", "--unused", "--dry-run").stdout.startswith("1 file, ")
    assert files() == before + 1
    assert sclsearch("rm", "--unused", "--yes").stdout.endswith("Deleted.\n")
    assert files() == before
