"""Tests of `doctor`: all checks, their reasons, and offline mode."""

from pathlib import Path

import pytest

from sclsearch.cli.doctor import PACKAGES, Finding, findings
from sclsearch.store.storage import Storage
from tests.conftest import Call

CHECKS = [
    *("python", *PACKAGES, "cpu", "gpu", "model minilm"),
    *("hub", "data", "storage", "tracking"),
]
# The package `cli` has the command under the name of its module.
MODULE = "sclsearch.cli.doctor"


def found(
    storage: Storage, data: Path | None = None, tracking: str | None = "none"
) -> dict[str, Finding]:
    return {finding.what: finding for finding in findings(storage, data, tracking)}


@pytest.mark.slow
def test_the_doctor_prints_all_checks_and_leaves_no_files(sclsearch: Call, workdir: Path) -> None:
    before = list(workdir.iterdir())
    result = sclsearch("doctor")
    assert list(workdir.iterdir()) == before
    assert (result.returncode, result.stderr) == (0, "")
    checks = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert [line.split("  ")[0].strip() for line in checks] == CHECKS
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "…" not in result.stdout


@pytest.mark.slow
def test_a_failed_check_has_a_reason_and_a_needed_one_gives_exit_code_1(
    sclsearch: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "storage").touch()
    (workdir / "data").mkdir()
    checks = found(workdir / "storage", workdir / "data", "http://127.0.0.1:9")
    reasons = {name: check.detail for name, check in checks.items() if not check.works}
    assert "is not a folder that can be written" in reasons["storage"]
    assert reasons["data"].startswith(f"{workdir / 'data'} has none of the tasks' folders")
    assert reasons["tracking"] == "http://127.0.0.1:9 does not answer"
    assert "HF_HUB_OFFLINE is set" in reasons["hub"]
    assert "python" not in reasons
    assert sclsearch("doctor", "--storage", "storage", "--tracking", "none").returncode == 1
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "hf-mirror.com")
    assert "HF_ENDPOINT hf-mirror.com: is no URL" in found(workdir)["hub"].detail
