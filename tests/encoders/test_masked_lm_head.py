"""Tests of the masked-LM head of a checkpoint against transformers, and of new heads."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import masked_lm_head, masked_lm_notes
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from tests.conftest import Save
from tests.encoders.conftest import Inputs
from tests.tiny import SIZES


@pytest.fixture
def with_head(save_tiny: Save) -> Save:
    """Return a function that makes a tiny checkpoint of an architecture with a masked-LM head."""

    def with_head(architecture: str = "Bert", **sizes: Any) -> Path:
        folder = save_tiny(architecture, {**SIZES, **sizes})
        config = transformers.AutoConfig.from_pretrained(folder)
        torch.manual_seed(3)
        model: Any = getattr(transformers, f"{architecture}ForMaskedLM")(config)
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name.lower():
                torch.nn.init.normal_(parameter, mean=0.5)
        model.save_pretrained(folder)
        return folder

    return with_head


def logits(encoder: Encoder, inputs: Inputs) -> Tensor:
    head = masked_lm_head(encoder)
    return head.forward(encoder.hidden(*inputs, (0.0,))[inputs[1]], encoder.embeddings)


@pytest.mark.parametrize(
    ("architecture", "activation"),
    [
        ("Bert", "hidden_act"),
        ("Roberta", "hidden_act"),
        ("DistilBert", "activation"),
        ("MPNet", ""),
        ("Electra", ""),
        ("ModernBert", "classifier_activation"),
    ],
)
def test_the_head_of_the_checkpoint_gives_the_logits_of_transformers(
    with_head: Save, inputs: Inputs, architecture: str, activation: str
) -> None:
    ids, mask, types = inputs[0], inputs[1], torch.zeros_like(inputs[2])
    for sizes in ({}, {activation: "relu"}) if activation else ({},):
        folder = with_head(architecture, **sizes)
        plain = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
        expected = plain(input_ids=ids, attention_mask=mask).logits[mask]
        encoder = load_encoder(folder, "mine")
        torch.testing.assert_close(logits(encoder, (ids, mask, types)), expected)
        assert masked_lm_notes(encoder) == ()


def test_the_weight_names_of_2018_are_known(with_head: Save, inputs: Inputs) -> None:
    folder = with_head()
    expected = logits(load_encoder(folder, "new"), inputs)
    renamed = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): weight
        for name, weight in load_file(folder / "model.safetensors").items()
    }
    save_file(renamed, folder / "model.safetensors", {"format": "pt"})
    torch.testing.assert_close(logits(load_encoder(folder, "old"), inputs), expected)


def test_a_head_of_another_shape_or_with_an_untied_decoder_counts_as_absent(
    with_head: Save,
) -> None:
    encoder = load_encoder(with_head("MobileBert", embedding_size=8), "mine")
    assert masked_lm_notes(encoder) != ()
    assert masked_lm_head(encoder).dense.weight.shape == (8, 16)
    folder = with_head()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    assert masked_lm_notes(load_encoder(folder, "mine")) != ()


def test_the_mask_token_is_that_of_the_tokenizer_if_it_has_one(
    bert: Encoder, tiny_bert: Path, tmp_path: Path
) -> None:
    assert bert.mask_token == 4
    bert.check_mask_token("p_m")
    folder = shutil.copytree(tiny_bert, tmp_path / "maskless")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    del config["mask_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(SclsearchError, match=r"^p_m: the tokenizer of model 'mine' \(bert\) has"):
        load_encoder(folder, "mine").check_mask_token("p_m")
    (folder / "tokenizer.json").write_text("{")
    assert load_encoder(folder, "mine").mask_token is None
