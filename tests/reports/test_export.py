"""An exported encoder is that of the winner's best seed, bit for bit, and loads everywhere."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import CARD, base_model, encoder_folder, model_folder
from sclsearch.reports.report import report
from tests.reports.trained import Trained, same, study_on

ENCODERS = ("tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_electra")


@pytest.fixture(scope="module", params=ENCODERS)
def each(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Returns a study on an encoder of each family, with and without pooler."""
    encoder: Path = request.getfixturevalue(request.param)
    return study_on(encoder, tmp_path_factory.mktemp("storage"))


def unpooled(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights without the pooler, where BERT's classifier keeps its dense layer."""
    return {name: tensor for name, tensor in stored.items() if "pooler." not in name}


def beginning(start: str, stored: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(start): t for n, t in stored.items() if n.startswith(start)}


def test_an_encoder_comes_back_bit_for_bit_and_transformers_alone_loads_it(
    each: Trained, tmp_path: Path
) -> None:
    each.export(tmp_path / "encoder")
    stored = load_file(each.best)
    found = load_encoder(model_folder(str(tmp_path / "encoder")), "mine")
    begun = load_encoder(each.begun, "begun")
    assert same(unpooled(found.state_dict()), unpooled(beginning("encoder.", stored)))
    assert not torch.equal(found.embeddings, begun.embeddings)
    assert same(
        load_file(tmp_path / "encoder" / "parts.safetensors"), beginning("new_modules.", stored)
    )
    folder = encoder_folder(tmp_path / "encoder")
    encoder = unpooled(beginning("encoder.model.", stored))
    state = AutoModel.from_pretrained(folder).state_dict()
    assert same({name: state[name] for name in encoder}, encoder)
    assert {name.partition(".")[0] for name in state.keys() - encoder.keys()} <= {"pooler"}
    texts = ["the film was good", "it was awful"]
    ids = [
        AutoTokenizer.from_pretrained(folder)(texts)["input_ids"] for folder in (folder, each.begun)
    ]
    assert ids[0] == ids[1]


def test_an_encoder_in_half_precision_is_exported_in_the_one_it_was_trained_in(
    tiny_bert: Path, tmp_path: Path
) -> None:
    half = shutil.copytree(tiny_bert, tmp_path / "half")
    AutoModel.from_pretrained(tiny_bert).half().save_pretrained(half)
    assert json.loads((half / "config.json").read_text())["dtype"] == "float16"
    trained = study_on(half, tmp_path / "storage")
    trained.export(tmp_path / "encoder")
    state = AutoModel.from_pretrained(tmp_path / "encoder").state_dict()
    stored = beginning("encoder.model.", load_file(trained.best))
    assert same(unpooled(state), unpooled(stored))


def test_the_card_describes_the_export(once: Trained, tmp_path: Path) -> None:
    card = once.export(tmp_path / "new" / "encoder")
    written = json.loads((tmp_path / "new" / "encoder" / CARD).read_text())
    assert written == json.loads(json.dumps(asdict(card)))
    assert (card.place, card.labels, card.pair) == ("scl", ("unacceptable", "acceptable"), False)
    winner = report(once.storage, "mine").winner
    assert winner is not None
    best = max(winner.seeds, key=lambda seed: (seed.validation or 0, -seed.replicate))
    assert (card.key, card.replicate, card.seeds) == (best.key, best.replicate, 2)
    assert (card.validation, card.test) == (best.validation, best.test)
    assert (card.study, card.method, card.task, card.size) == ("mine", "scl", "demo", "8")
    assert (card.metric, card.rule, card.protocol) == ("accuracy", "mean", "gunel-fewshot")
    assert (card.fields["tau"], card.fields["epochs"]) == (0.5, 1)
    assert card.base == f"./{once.begun.name}"


def test_an_encoder_fine_tuned_twice_keeps_its_base_name(once: Trained, tmp_path: Path) -> None:
    once.export(tmp_path / "first")
    study_on(tmp_path / "first", tmp_path / "storage").export(tmp_path / "second")
    assert base_model(str(tmp_path / "second")) == f"./{once.begun.name}"


def test_the_same_weights_are_the_same_files(once: Trained, tmp_path: Path) -> None:
    for name in ("a", "b"):
        once.export(tmp_path / name / "winner")
    a, b = tmp_path / "a" / "winner", tmp_path / "b" / "winner"
    files = sorted(path.name for path in a.iterdir())
    weights = {"model.safetensors", "parts.safetensors"}
    assert {"README.md", "config.json", "tokenizer.json", CARD} | weights <= {*files}
    assert files == sorted(path.name for path in b.iterdir())
    for name in files:
        assert (a / name).read_bytes() == (b / name).read_bytes()
