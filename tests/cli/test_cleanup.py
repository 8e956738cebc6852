"""Tests of `rm`: dry runs, consent and deletion."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace import Call


@pytest.fixture
def files(workdir: Path, finished: tuple[str, ...]) -> Callable[[], int]:
    """Return a function that counts the files of a storage with one finished study."""
    return lambda: sum(path.is_file() for path in (workdir / "sclsearch-storage").rglob("*"))


def test_a_dry_run_counts_the_files_of_a_study_and_deletes_none(
    sclsearch: Call, files: Callable[[], int]
) -> None:
    before = files()
    result = sclsearch("rm", "mine", "--dry-run")
    first, last = result.stdout.splitlines()
    assert first.startswith(f"{before} files, ")
    assert first.endswith(f": 4 of seed runs, {before - 4} of studies")
    assert last == "MLflow: 0 runs in the storage's own database"
    assert files() == before


def test_a_study_is_deleted_with_consent_only(
    sclsearch: Call, files: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files()
    refused = sclsearch("rm", "mine")
    assert refused.returncode == 2
    assert refused.stderr.startswith("rm: standard input is not a terminal, so it cannot ask.")
    assert files() == before
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert sclsearch("rm", "mine").stdout.endswith("Deleted.\n")
    assert files() == 0


def test_unused_files_are_deleted_alone(
    sclsearch: Call, workdir: Path, files: Callable[[], int]
) -> None:
    clean = sclsearch("rm", "--unused")
    assert clean.returncode == 0
    assert "Deleted" not in clean.stdout
    before = files()
    (workdir / "sclsearch-storage" / "runs" / f"{'a' * 64}.json").touch()
    assert sclsearch("rm", "--unused", "--dry-run").stdout.startswith("1 file, ")
    assert files() == before + 1
    assert sclsearch("rm", "--unused", "--yes").stdout.endswith("Deleted.\n")
    assert files() == before


def test_neither_a_study_nor_unused_is_an_error(sclsearch: Call, workdir: Path) -> None:
    sclsearch("rm").assert_refused("studies: names none. Name one, or pass --unused.")
