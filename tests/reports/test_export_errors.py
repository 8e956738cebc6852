"""Tests of export errors: the message, the remedy, and no partial files."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import sclsearch
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.store.storage import sealed
from tests.reports.conftest import WriteStudy
from tests.reports.trained import Trained, same


@pytest.fixture
def study(trained: Trained, tmp_path: Path) -> Trained:
    """Return a copy of the study that the test may damage."""
    return Trained(shutil.copytree(trained.storage, tmp_path / "storage"), trained.encoder)


def test_an_empty_folder_is_accepted_and_a_nonempty_one_is_refused(
    trained: Trained, tmp_path: Path
) -> None:
    (tmp_path / "encoder").mkdir()
    trained.export(tmp_path / "encoder")
    before = (tmp_path / "encoder" / CARD).stat().st_mtime_ns
    (tmp_path / "file").touch()
    for name in ("encoder", "file"):
        with pytest.raises(SclsearchError) as caught:
            trained.export(tmp_path / name)
        assert str(caught.value) == (
            f"{tmp_path / name}: exists and is not an empty folder. Name another one."
        )
    assert (tmp_path / "encoder" / CARD).stat().st_mtime_ns == before


def test_of_two_exports_to_one_folder_only_the_first_is_written(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_export_first(folder: Path) -> None:
        (tmp_path / "winner").mkdir()
        (tmp_path / "winner" / "other").touch()

    monkeypatch.setattr("sclsearch.reports.export.write_digests", other_export_first)
    with pytest.raises(SclsearchError, match=r"winner: exists and is not an empty folder\."):
        trained.export(tmp_path / "winner")
    assert [path.name for path in tmp_path.iterdir()] == ["winner"]
    assert [path.name for path in (tmp_path / "winner").iterdir()] == ["other"]


def test_seed_runs_without_stored_weights_train_again(study: Trained, tmp_path: Path) -> None:
    study.export(tmp_path / "stored")
    study.best.unlink()
    study.export(tmp_path / "again")
    for one in (tmp_path / "stored").glob("*.safetensors"):
        assert same(load_file(tmp_path / "again" / one.name), load_file(one))


def test_a_truncated_weights_file_is_named_and_the_seed_run_trains_again(
    study: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study.best.write_bytes(study.best.read_bytes()[:-8])
    study.export(tmp_path / "encoder")
    assert f"{study.best}: damaged: " in caplog.text


def test_weights_without_a_tensor_are_named_and_no_files_stay(
    study: Trained, tmp_path: Path
) -> None:
    tensors = load_file(study.best)
    del tensors[next(name for name in tensors if name.startswith("new_modules"))]
    save_file(tensors, study.best)
    with pytest.raises(SclsearchError, match=rf"damaged weights\. Delete {study.best} and export"):
        study.export(tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()


def test_an_encoder_that_changed_after_training_is_refused(study: Trained, tmp_path: Path) -> None:
    config = study.encoder / "config.json"
    before = config.read_text()
    config.write_text(before + " ")
    try:
        with pytest.raises(SclsearchError, match=r"^mine: the encoder .* has changed since"):
            study.export(tmp_path / "encoder")
    finally:
        config.write_text(before)
    assert not (tmp_path / "encoder").exists()


def test_a_study_without_a_winner_or_an_unknown_study_is_refused(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    storage = write_study(["it failed", "it too"])
    with pytest.raises(
        SclsearchError, match=r"^made-up: no seed run succeeded\. First failure: .*it"
    ):
        sclsearch.export("made-up", tmp_path / "encoder", storage=storage)
    with pytest.raises(SclsearchError, match=r"^Unknown study 'mad-up' .* Did you mean 'made-up'"):
        sclsearch.export("mad-up", tmp_path / "encoder", storage=storage)


def test_a_failed_seed_is_never_exported(study: Trained, tmp_path: Path) -> None:
    failed = study.best.stem
    path = study.storage / "runs" / f"{failed}.json"
    stored = json.loads(path.read_text())
    path.unlink()
    run = SeedRun(failed, stored["identity"], stored["origin"], failure=Failure("hang", "1 h"))
    path.write_text(json.dumps(sealed(asdict(run))))
    (other,) = {file.stem for file in study.best.parent.glob("*.safetensors")} - {failed}
    assert study.export(tmp_path / "encoder").key == other
