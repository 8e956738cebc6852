"""The doctor looks at everything a search needs, works offline, and says what is missing."""

import os
from itertools import islice
from pathlib import Path

import pytest

from sclsearch.cli.health import PACKAGES, findings
from sclsearch.study.resources import START_MPS
from tests.cli.conftest import Call

LOOKED_AT = [
    *("python", *PACKAGES, "cpu", "gpu", "model minilm"),
    *("hub", "data", "storage", "tracking"),
]


@pytest.mark.slow
def test_the_doctor_names_everything_and_leaves_nothing(sclsearch: Call, place: Path) -> None:
    before = list(place.iterdir())
    done = sclsearch("doctor")
    assert list(place.iterdir()) == before
    assert (done.returncode, done.stderr) == (0, "")
    told = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert [line.split("  ")[0].strip() for line in told] == LOOKED_AT
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    (place / "storage").touch()
    assert sclsearch("doctor", "--storage", "storage").returncode == 1


@pytest.mark.slow
def test_what_does_not_work_is_told_with_the_reason(place: Path) -> None:
    (place / "storage").touch()
    (place / "data").mkdir()
    found = {
        finding.what: finding
        for finding in findings(place / "storage", place / "data", "http://127.0.0.1:9")
    }
    assert list(found) == LOOKED_AT
    assert not found["storage"].works
    assert "is not a folder that can be written" in found["storage"].detail
    assert not found["data"].works
    assert (
        found["data"].detail == f"{place / 'data'} has none of the tasks' folders, CoLA/, RTE/, …"
    )
    assert not found["tracking"].works
    assert found["tracking"].detail == "http://127.0.0.1:9 does not answer"
    assert found["python"].works


@pytest.mark.parametrize("runs", [True, False, None])
def test_the_doctor_says_whether_mps_runs_where_it_can(
    place: Path, monkeypatch: pytest.MonkeyPatch, *, runs: bool | None
) -> None:
    monkeypatch.setattr("sclsearch.cli.health._gpu", lambda: "a GPU")
    monkeypatch.setattr("sclsearch.study.resources.mps_runs", lambda: runs)
    found = [f for f in findings(place, None, None) if f.what == "mps"]
    assert [(f.works, f.needed) for f in found] == ([] if runs is None else [(runs, False)])
    assert all((START_MPS in f.detail) != f.works for f in found)


def test_a_bucket_is_written_to_and_needs_tracking_named(place: Path, bucket: str) -> None:
    found = {finding.what: finding for finding in findings(f"{bucket}/a", None, None)}
    assert found["storage"].works, found["storage"].detail
    assert found["storage"].detail == f"{bucket}/a: 0 studies"
    assert not found["tracking"].works
    assert "an object store holds no database" in found["tracking"].detail
    (missing,) = (f for f in findings(f"{bucket}-no/a", None, "none") if f.what == "storage")
    assert not missing.works
    assert missing.detail.startswith(f"--storage {bucket}-no/a: its bucket does not exist")


def test_the_hub_is_not_asked_when_it_must_not_be(place: Path) -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    hub = next(f for f in findings(place, None, None) if f.what == "hub")
    assert not hub.works
    assert hub.detail == "HF_HUB_OFFLINE is set: its cache alone is used"


@pytest.mark.parametrize("endpoint", ["hf-mirror.com", "http://hf mirror.com"])
def test_an_address_of_the_hub_that_is_no_url_is_told(
    place: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    hub = next(f for f in findings(place, None, None) if f.what == "hub")
    assert not hub.works
    assert hub.detail.startswith(f"HF_ENDPOINT {endpoint}: is no URL such as https://…: ")


def test_data_and_storage_are_told_with_what_is_in_them(
    place: Path, finished: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "data" / "CoLA").mkdir(parents=True)
    monkeypatch.setenv("SCLSEARCH_DATA", str(place / "data"))
    looked = islice(findings(place / "sclsearch-storage", None, None), len(LOOKED_AT) - 1)
    found = {finding.what: finding.detail for finding in looked if finding.works}
    assert found["data"] == f"{place / 'data'}: cola"
    assert found["storage"] == f"{place / 'sclsearch-storage'}: 1 study"
