"""Tests of the export: weights, record, loading by transformers, errors and the upload."""

import json
import logging
import shutil
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import CARD, base_model, encoder_folder, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.exports.export import describe_winner, encoder_place, push
from sclsearch.reports.report import finished_winner, report
from sclsearch.store.runs import RunStore
from tests.made_up import own_task, study_on
from tests.studies import same_weights

REPOSITORY = "me/my-classifier"
export = partial(sclsearch.export, "mine", force=True)  # the tiny winner is useless


@pytest.fixture
def study(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of the study that the test may damage."""
    return Path(shutil.copytree(trained, tmp_path / "storage"))


def best(storage: Path) -> Path:
    """Return the weights file of the better seed."""
    winner = finished_winner(report(storage, "mine"))
    key = winner.seeds[winner.reported[0]].key
    return storage / "studies" / "mine" / "weights" / f"{key}.safetensors"


def initial_encoder(storage: Path) -> Path:
    return Path(report(storage, "mine").record.origin["model"])


def unpooled(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights without the pooler, which holds the dense layer of BERT's classifier."""
    return {name: tensor for name, tensor in stored.items() if "pooler." not in name}


def with_prefix(prefix: str, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in stored.items() if n.startswith(prefix)}


def test_an_exported_encoder_is_bit_identical_and_loads_in_transformers(
    trained: Path, tmp_path: Path
) -> None:
    stored, exported = load_file(best(trained)), tmp_path / "winner"
    export(exported, storage=trained)
    found = load_encoder(model_folder(str(exported)), "mine")
    initial = load_encoder(initial_encoder(trained), "initial")
    assert same_weights(unpooled(found.state_dict()), unpooled(with_prefix("encoder.", stored)))
    assert not torch.equal(found.embeddings, initial.embeddings)
    assert same_weights(
        load_file(exported / "parts.safetensors"), with_prefix("new_modules.", stored)
    )
    folder = encoder_folder(exported)
    encoder = unpooled(with_prefix("encoder.model.", stored))
    state = AutoModel.from_pretrained(folder).state_dict()
    assert same_weights({name: state[name] for name in encoder}, encoder)


def test_a_task_with_a_path_as_name_leads_no_encoder_out_of_the_storage(trained: Path) -> None:
    place = encoder_place(replace(report(trained, "mine"), task="../../elsewhere"))
    assert place.resolve().parent == Path(trained, "encoders").resolve()


def test_a_half_precision_encoder_is_exported_in_its_training_precision(
    tiny_bert: Path, tmp_path: Path
) -> None:
    half = shutil.copytree(tiny_bert, tmp_path / "half")
    AutoModel.from_pretrained(tiny_bert).half().save_pretrained(half)
    assert json.loads((half / "config.json").read_text())["dtype"] == "float16"
    trained = study_on(half, tmp_path / "storage")
    export(tmp_path / "encoder", storage=trained)
    state = AutoModel.from_pretrained(tmp_path / "encoder").state_dict()
    stored = with_prefix("encoder.model.", load_file(best(trained)))
    assert same_weights(unpooled(state), unpooled(stored))


def test_an_encoder_fine_tuned_twice_keeps_the_name_and_the_license_of_its_base(
    tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = shutil.copytree(tiny_bert, tmp_path / "encoder")
    (encoder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    export(tmp_path / "first", storage=study_on(encoder, tmp_path / "storage"))
    again = study_on(tmp_path / "first", tmp_path / "again")
    export(tmp_path / "second", storage=again)
    assert base_model(str(tmp_path / "second")) == "./encoder"
    for name in ("first", "second"):
        card = ModelCard.load(tmp_path / name / "README.md")
        assert card.data.to_dict()["license"] == "mit"
        assert "License of the base model: mit." in card.text


def test_an_export_prints_scores_and_usage_and_its_files_are_reproducible_and_have_checksums(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "my winner"
    record = export(folder, storage=trained)
    monkeypatch.chdir(tmp_path)
    command = ["export", "mine", "my winner", "--storage", str(trained), "--force"]
    printed = CliRunner().invoke(app, command).stdout
    winner = finished_winner(report(trained, "mine"))
    chosen = max(winner.seeds, key=lambda seed: (seed.validation or 0, -seed.replicate))
    for line in (
        f"seed {chosen.replicate}, the best of 2 by validation, accuracy {chosen.validation:.4f}, ",
        f"test accuracy is {winner.test_mean:.4f}",
        "On the command line: sclsearch predict 'my winner' FILE",
        'classifier = pipeline("text-classification", model="my winner")',
    ):
        assert line in printed
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 6
    for file in files:
        assert (folder / file).read_bytes() == (tmp_path / "my winner" / file).read_bytes()
    written = json.loads((folder / CARD).read_text())
    assert written == json.loads(json.dumps(asdict(record)))
    expected = {"key": chosen.key, "base": f"./{initial_encoder(trained).name}", "seeds": 2}
    assert expected.items() <= written.items()
    assert {"tau": 0.5, "epochs": 1}.items() <= written["fields"].items()
    assert len({(folder / file).stat().st_mode for file in files}) == 1


def test_the_seed_with_the_best_validation_score_is_exported(study: Path, tmp_path: Path) -> None:
    runs, weights = RunStore(study), best(study)
    run = runs.get(weights.stem)
    assert run is not None
    wrong = {"validation": {"confusion": [[0, 9], [9, 0]]}}
    (study / "runs" / f"{run.key}.json").unlink()
    runs.put(replace(run, evaluations=tuple({**one, **wrong} for one in run.evaluations)))
    (other,) = (one.key for one in runs.all() if one.key != run.key)
    record = export(tmp_path / "other", storage=study)
    assert record.key == describe_winner(report(study, "mine")).key == other
    parts = load_file(tmp_path / "other" / "parts.safetensors")
    assert not same_weights(parts, with_prefix("new_modules.", load_file(weights)))


@pytest.mark.parametrize("ensemble", [False, True])
def test_weights_that_predict_otherwise_or_lack_a_tensor_are_named_and_no_files_stay(
    study: Path, tmp_path: Path, ensemble: bool
) -> None:
    weights, folder = best(study), tmp_path / "out"
    tensors = load_file(weights)
    changed = {n: -tensor if ".out." in n else tensor for n, tensor in tensors.items()}
    save_file(changed, weights)
    message = (
        rf"^{weights.stem[:12]}: .* predicts otherwise than the search on test rows\. .*{weights}"
    )
    with pytest.raises(SclsearchError, match=message):
        export(folder, storage=study, ensemble=ensemble)
    del tensors[next(name for name in tensors if name.startswith("new_modules"))]
    save_file(tensors, weights)
    with pytest.raises(SclsearchError, match=rf"damaged weights\. Delete {weights} and export"):
        export(folder, storage=study, ensemble=ensemble)
    assert not folder.exists()


def test_predictions_are_compared_where_the_data_file_is_found_and_its_folder_is_not_published(
    tiny_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    private, files = tmp_path / "private", tmp_path / "files"
    rows = [(f"a {word} film {n}", word) for n in range(20) for word in ("good", "bad")]
    study = study_on(tiny_bert, tmp_path / "storage", own_task(private, rows))
    with caplog.at_level(logging.WARNING):
        export(tmp_path / "a", storage=study)
        assert not caplog.messages
        private.rename(files)
        export(tmp_path / "b", storage=study)
    (warning,) = caplog.messages
    assert warning.startswith("Not compared with the predictions of the search: ")
    assert str(private / "own.csv") in warning
    for path in (tmp_path / "b").rglob("*"):
        if path.suffix in {".json", ".md"}:
            assert str(tmp_path) not in path.read_text(), path
            assert str(tiny_bert) not in path.read_text(), path


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_seed_runs_without_valid_weights_train_again(
    study: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    export(tmp_path / "stored", storage=study)
    weights = best(study)
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:-8])
    export(tmp_path / "again", storage=study)
    assert (f"{weights}: damaged: " in caplog.text) == (damage == "truncated")
    for one in (tmp_path / "stored").glob("*.safetensors"):
        assert same_weights(load_file(tmp_path / "again" / one.name), load_file(one))


def test_an_encoder_that_changed_after_training_is_refused(study: Path, tmp_path: Path) -> None:
    config = initial_encoder(study) / "config.json"
    before = config.read_text()
    config.write_text(before + " ")
    try:
        with pytest.raises(SclsearchError, match=r"^mine: the encoder .* has changed since"):
            export(tmp_path / "encoder", storage=study)
    finally:
        config.write_text(before)
    assert not (tmp_path / "encoder").exists()


def test_the_exported_files_alone_are_the_files_of_a_private_repository(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []

    def create_repo(_: object, name: str, **options: Any) -> SimpleNamespace:
        calls.append(options)
        return SimpleNamespace(repo_id=name)

    def upload_folder(_: object, **options: Any) -> str:
        assert (options["folder_path"] / "model.safetensors").is_file()
        calls.append(options)
        return "an address"

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", create_repo)
    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", upload_folder)
    folder = tmp_path / "winner"
    export(folder, storage=trained, push=REPOSITORY)
    assert calls == [
        {"private": True, "exist_ok": True},
        {"repo_id": REPOSITORY, "folder_path": folder, "delete_patterns": "*"},
    ]


def test_an_unreachable_hub_or_an_invalid_name_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SclsearchError, match=r"^--push a/b/c: .* upload: Repo id must"):
        push(tmp_path, "a/b/c")
    address = "http://127.0.0.1:9"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    message = f"^--push {REPOSITORY}: {address} .*`hf upload {REPOSITORY} {tmp_path}` uploads it"
    with pytest.raises(SclsearchError, match=message):
        push(tmp_path, REPOSITORY)
