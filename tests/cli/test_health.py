"""Tests of `doctor`: all checks, their reasons, and offline mode."""

import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from sclsearch.cli.doctor import PACKAGES, Finding, findings, spaces
from sclsearch.ray_backend.start import START_MPS
from sclsearch.spaces.load import space_files
from tests.workspace import Call

CHECKS = [
    *("python", *PACKAGES, "cpu", "gpu", "model minilm"),
    *("hub", "data", "storage", "tracking"),
]


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
    (workdir / "storage").touch()
    assert sclsearch("doctor", "--storage", "storage").returncode == 1


@pytest.mark.slow
def test_a_failed_check_has_a_reason(workdir: Path) -> None:
    (workdir / "storage").touch()
    (workdir / "data").mkdir()
    found = {
        finding.what: finding
        for finding in findings(workdir / "storage", workdir / "data", "http://127.0.0.1:9")
    }
    assert list(found) == CHECKS
    assert not found["storage"].works
    assert "is not a folder that can be written" in found["storage"].detail
    assert not found["data"].works
    assert (
        found["data"].detail == f"{workdir / 'data'} has none of the tasks' folders, CoLA/, RTE/, …"
    )
    assert not found["tracking"].works
    assert found["tracking"].detail == "http://127.0.0.1:9 does not answer"
    assert found["python"].works


@pytest.mark.parametrize("runs", [True, False, None])
def test_the_doctor_checks_mps_only_where_it_can_run(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, *, runs: bool | None
) -> None:
    # The package `cli` has the command under the name of its module.
    monkeypatch.setattr(sys.modules["sclsearch.cli.doctor"], "_gpu", lambda: "a GPU")
    monkeypatch.setattr("sclsearch.ray_backend.start.mps_is_running", lambda: runs)
    found = [f for f in findings(workdir, None, None) if f.what == "mps"]
    assert [(f.works, f.needed) for f in found] == ([] if runs is None else [(runs, False)])
    assert all((START_MPS in f.detail) != f.works for f in found)


def test_a_bucket_is_checked_by_writing_and_needs_explicit_tracking(
    workdir: Path, bucket: str
) -> None:
    found = {finding.what: finding for finding in findings(f"{bucket}/a", None, None)}
    assert found["storage"].works, found["storage"].detail
    assert found["storage"].detail == f"{bucket}/a: 0 studies"
    assert not found["tracking"].works
    assert "an object store holds no database" in found["tracking"].detail
    (missing,) = (f for f in findings(f"{bucket}-no/a", None, "none") if f.what == "storage")
    assert not missing.works
    assert missing.detail.startswith(f"--storage {bucket}-no/a: its bucket does not exist")


def test_the_hub_is_not_contacted_in_offline_mode(workdir: Path) -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    hub = next(f for f in findings(workdir, None, None) if f.what == "hub")
    assert not hub.works
    assert hub.detail == "HF_HUB_OFFLINE is set: only the local cache is used"


@pytest.mark.parametrize("endpoint", ["hf-mirror.com", "http://hf mirror.com"])
def test_an_invalid_url_of_the_hub_is_reported(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    hub = next(f for f in findings(workdir, None, None) if f.what == "hub")
    assert not hub.works
    assert hub.detail.startswith(f"HF_ENDPOINT {endpoint}: is no URL such as https://…: ")


def test_data_and_storage_are_printed_with_their_contents(
    workdir: Path, finished: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "data" / "CoLA").mkdir(parents=True)
    monkeypatch.setenv("SCLSEARCH_DATA", str(workdir / "data"))
    checked = islice(findings(workdir / "sclsearch-storage", None, None), len(CHECKS) - 1)
    found = {finding.what: finding.detail for finding in checked if finding.works}
    assert found["data"] == f"{workdir / 'data'}: cola"
    assert found["storage"] == f"{workdir / 'sclsearch-storage'}: 1 study"


def test_all_built_in_search_spaces_are_validated_on_request(
    sclsearch: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spaces() == Finding("spaces", True, f"{len(space_files())} files", needed=True)
    broken = tmp_path / "broken.yaml"
    broken.write_text("method: scl\n")
    monkeypatch.setattr(sys.modules["sclsearch.cli.doctor"], "space_files", lambda: [broken])
    result = sclsearch("doctor", "--all", "--tracking", "none")
    assert result.returncode == 1
    assert "broken.yaml: source: is missing" in " ".join(result.stdout.split())
