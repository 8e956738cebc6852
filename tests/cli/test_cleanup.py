"""Tests of `rm` and `gc`: dry runs, consent and deletion."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace import Call


@pytest.fixture
def files(workdir: Path, finished: tuple[str, ...]) -> Callable[[], int]:
    """Return a function that counts the files of a storage with one finished study."""
    return lambda: sum(path.is_file() for path in (workdir / "sclsearch-storage").rglob("*"))


def test_a_dry_run_lists_the_files_of_a_study_and_deletes_none(
    sclsearch: Call, files: Callable[[], int]
) -> None:
    before = files()
    result = sclsearch("rm", "mine", "--dry-run")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[:3] for row in rows if row[:2] == ["seed", "runs"]] == [["seed", "runs", "4"]]
    assert rows[-2][:2] == ["together", str(before)]
    assert rows[-1][:2] == ["MLflow:", "no"]
    found = json.loads(sclsearch("rm", "mine", "--dry-run", "--json").stdout)
    assert sum(map(len, found["files"].values())) == files() == before
    assert found["deleted"] is False


def test_a_study_is_deleted_with_consent_only(
    sclsearch: Call, files: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files()
    refused = sclsearch("rm", "mine")
    assert refused.returncode == 2
    assert refused.stderr.startswith("rm: standard input is not a terminal, so it cannot ask.")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert sclsearch("rm", "mine").returncode == 0
    assert files() == before
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    result = sclsearch("rm", "mine")
    assert result.stdout.endswith("Deleted study mine.\n")
    assert files() == 0


def test_garbage_is_deleted_with_consent_only(
    sclsearch: Call, workdir: Path, files: Callable[[], int]
) -> None:
    clean = sclsearch("gc")
    assert clean.returncode == 0
    assert "Deleted" not in clean.stdout
    before = files()
    (workdir / "sclsearch-storage" / "runs" / f"{'a' * 64}.json").touch()
    assert sclsearch("gc", "--dry-run").returncode == 0
    assert files() == before + 1
    assert sclsearch("gc").returncode == 2
    assert sclsearch("gc", "--yes").stdout.endswith("Deleted these files.\n")
    assert files() == before
