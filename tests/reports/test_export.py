"""Tests of the export: weights, record, predictions, loading by transformers and sclsearch."""

import json
import logging
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import sclsearch
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import CARD, base_model, encoder_folder, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.report import finished_winner, report
from sclsearch.tasks.custom import CustomTask
from tests.reports.trained import Trained, same, study_on

ENCODERS = ("tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_electra")


@pytest.fixture(scope="module", params=ENCODERS)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return a trained study, once per encoder family."""
    encoder: Path = request.getfixturevalue(request.param)
    return study_on(encoder, tmp_path_factory.mktemp("storage"))


def unpooled(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights without the pooler, which holds the dense layer of BERT's classifier."""
    return {name: tensor for name, tensor in stored.items() if "pooler." not in name}


def with_prefix(prefix: str, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in stored.items() if n.startswith(prefix)}


def test_an_exported_encoder_is_bit_identical_and_loads_in_transformers(
    study: Trained, tmp_path: Path
) -> None:
    study.export(tmp_path / "encoder")
    stored = load_file(study.best)
    exported = load_encoder(model_folder(str(tmp_path / "encoder")), "mine")
    initial = load_encoder(study.encoder, "initial")
    assert same(unpooled(exported.state_dict()), unpooled(with_prefix("encoder.", stored)))
    assert not torch.equal(exported.embeddings, initial.embeddings)
    assert same(
        load_file(tmp_path / "encoder" / "parts.safetensors"), with_prefix("new_modules.", stored)
    )
    folder = encoder_folder(tmp_path / "encoder")
    encoder = unpooled(with_prefix("encoder.model.", stored))
    state = AutoModel.from_pretrained(folder).state_dict()
    assert same({name: state[name] for name in encoder}, encoder)
    assert {name.partition(".")[0] for name in state.keys() - encoder.keys()} <= {"pooler"}
    texts = ["the film was good", "it was awful"]
    ids = [
        AutoTokenizer.from_pretrained(folder)(texts)["input_ids"]
        for folder in (folder, study.encoder)
    ]
    assert ids[0] == ids[1]


def test_a_half_precision_encoder_is_exported_in_its_training_precision(
    tiny_bert: Path, tmp_path: Path
) -> None:
    half = shutil.copytree(tiny_bert, tmp_path / "half")
    AutoModel.from_pretrained(tiny_bert).half().save_pretrained(half)
    assert json.loads((half / "config.json").read_text())["dtype"] == "float16"
    trained = study_on(half, tmp_path / "storage")
    trained.export(tmp_path / "encoder")
    state = AutoModel.from_pretrained(tmp_path / "encoder").state_dict()
    stored = with_prefix("encoder.model.", load_file(trained.best))
    assert same(unpooled(state), unpooled(stored))


def test_the_record_describes_the_export(trained: Trained, tmp_path: Path) -> None:
    record = trained.export(tmp_path / "new" / "encoder")
    written = json.loads((tmp_path / "new" / "encoder" / CARD).read_text())
    assert written == json.loads(json.dumps(asdict(record)))
    assert (record.place, record.labels, record.pair) == (
        "scl",
        ("unacceptable", "acceptable"),
        False,
    )
    winner = finished_winner(report(trained.storage, "mine"))
    best = max(winner.seeds, key=lambda seed: (seed.validation or 0, -seed.replicate))
    assert (record.key, record.replicate, record.seeds) == (best.key, best.replicate, 2)
    assert (record.validation, record.test) == (best.validation, best.test)
    assert (record.study, record.method, record.task, record.size) == ("mine", "scl", "demo", "8")
    assert (record.metric, record.rule, record.protocol) == ("accuracy", "mean", "gunel-fewshot")
    assert (record.fields["tau"], record.fields["epochs"]) == (0.5, 1)
    assert record.base == f"./{trained.encoder.name}"


def test_an_encoder_fine_tuned_twice_keeps_its_base_name(trained: Trained, tmp_path: Path) -> None:
    trained.export(tmp_path / "first")
    study_on(tmp_path / "first", tmp_path / "storage").export(tmp_path / "second")
    assert base_model(str(tmp_path / "second")) == f"./{trained.encoder.name}"


def test_repeated_exports_have_identical_files(trained: Trained, tmp_path: Path) -> None:
    for name in ("a", "b"):
        trained.export(tmp_path / name / "winner")
    a, b = tmp_path / "a" / "winner", tmp_path / "b" / "winner"
    files = sorted(path.name for path in a.iterdir())
    weights = {"model.safetensors", "parts.safetensors"}
    assert {"README.md", "config.json", "tokenizer.json", CARD} | weights <= {*files}
    assert files == sorted(path.name for path in b.iterdir())
    for name in files:
        assert (a / name).read_bytes() == (b / name).read_bytes()


@pytest.mark.parametrize("ensemble", [False, True])
def test_a_model_that_predicts_otherwise_than_the_search_is_refused(
    trained: Trained, tmp_path: Path, ensemble: bool
) -> None:
    study = Trained(shutil.copytree(trained.storage, tmp_path / "storage"), trained.encoder)
    best = study.best
    (other,) = {*best.parent.glob("*.safetensors")} - {best}
    shutil.copy(other, best)
    with pytest.raises(SclsearchError) as raised:
        sclsearch.export(
            "mine", tmp_path / "out", storage=study.storage, ensemble=ensemble, force=True
        )
    key = best.stem[:12]
    assert str(raised.value) == (
        f"{key}: the exported model predicts otherwise than the search on test rows. Delete {best} "
        "and export again: the seed run then trains again."
    )
    assert not (tmp_path / "out").exists()


def test_predictions_are_compared_where_the_data_file_is_found(
    tiny_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    private, files = tmp_path / "private", tmp_path / "files"
    private.mkdir()
    rows = [f"a {word} film {n},{word}\n" for n in range(20) for word in ("good", "bad")]
    (private / "mine.csv").write_text(f"body,verdict\n{''.join(rows)}")
    task = CustomTask(private / "mine.csv", "body", "verdict", fractions=(0.6, 0.2, 0.2))
    study = study_on(tiny_bert, tmp_path / "storage", task)
    with caplog.at_level(logging.WARNING):
        study.export(tmp_path / "a")
        assert not caplog.messages
        private.rename(files)
        study.export(tmp_path / "b")
    (warning,) = caplog.messages
    assert warning.startswith("Not compared with the predictions of the search: ")
    assert str(private / "mine.csv") in warning
    for path in (tmp_path / "b").rglob("*"):
        if path.suffix in {".json", ".md"}:
            assert str(tmp_path) not in path.read_text(), path
            assert str(tiny_bert) not in path.read_text(), path
