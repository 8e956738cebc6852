"""Tests of an encoder's traits, read from its files."""

import json
from pathlib import Path
from shutil import copytree

import pytest

from sclsearch.encoders.models import ALIASES, EncoderTraits, encoder_traits, model_digest
from sclsearch.errors import SclsearchError


def test_minilm_is_a_sentence_encoder_with_a_pooler(minilm: Path) -> None:
    assert encoder_traits(minilm) == EncoderTraits(
        384, 6, "bert", 512, pooler=True, sentence_pooling="mean"
    )
    alias = ALIASES["minilm"]
    assert (alias.width, alias.layers) == (384, 6)


def test_a_path_and_a_name_have_no_part_in_the_traits(minilm: Path, tmp_path: Path) -> None:
    copied = copytree(minilm, tmp_path / "bert-large")
    assert encoder_traits(copied) == encoder_traits(minilm)
    assert model_digest(copied) == model_digest(minilm)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"dim": 768, "n_layers": 6, "max_position_embeddings": 512}, (768, 6, 512)),
        ({"d_model": 512, "num_layers": 8}, (512, 8, None)),
        ({"n_embd": 768, "n_layer": 12, "n_positions": 1024}, (768, 12, 1024)),
        ({"hidden_size": 8, "num_hidden_layers": 1, "max_position_embeddings": 514}, (8, 1, 512)),
    ],
)
def test_every_architecture_states_its_size(
    tiny_roberta: Path, tmp_path: Path, config: dict[str, int], expected: tuple[int, ...]
) -> None:
    folder = copytree(tiny_roberta, tmp_path / "encoder")
    (folder / "config.json").write_text(json.dumps(config))
    traits = encoder_traits(folder)
    assert (traits.width, traits.layers, traits.positions) == expected
    assert not traits.pooler


def test_a_config_without_a_size_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copytree(tiny_bert, tmp_path / "encoder")
    (folder / "config.json").write_text("{}")
    with pytest.raises(SclsearchError, match="must state hidden_size or dim"):
        encoder_traits(folder)
