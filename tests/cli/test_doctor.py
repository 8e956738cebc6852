"""Tests of `doctor`: all checks, their reasons, and its exit code."""

from pathlib import Path

import pytest

from tests.conftest import Call


@pytest.mark.slow
def test_the_doctor_prints_all_checks_and_leaves_no_files(sclsearch: Call, workdir: Path) -> None:
    before = list(workdir.iterdir())
    result = sclsearch("doctor")
    assert list(workdir.iterdir()) == before
    assert (result.returncode, result.stderr) == (0, "")
    checks = [line.split()[0] for line in result.stdout.splitlines()[1:] if line[0] != " "]
    assert checks == ["packages", "cpu", "gpu", "minilm", "storage"]
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_storage_that_does_not_work_has_a_reason_and_gives_exit_code_1(
    sclsearch: Call, workdir: Path
) -> None:
    (workdir / "storage").touch()
    result = sclsearch("doctor", "--storage", "storage")
    assert result.returncode == 1
    assert "storage" in result.stdout.splitlines()[-1]
