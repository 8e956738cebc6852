"""Fixtures: tiny random translation models in the format of the hub."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

SENTENCES = [
    "the film is very good and the story is fine",
    "a dull and awful film that was not lovely",
    "it was a great story about a poor man",
    "der film ist sehr gut und die geschichte ist fein",
    "ein langweiliger und schlechter film der nicht schön war",
]


@pytest.fixture(scope="session")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the four models that the papers use, with random weights."""
    pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")
    folder = tmp_path_factory.mktemp("opus")
    for seed, direction in enumerate(("en-de", "de-en", "en-zh", "zh-en")):
        codes = [">>cmn_Hans<<"] if direction == "en-zh" else []
        _save(folder / f"opus-mt-{direction}", seed, codes)
    return folder


def _save(folder: Path, seed: int, codes: list[str]) -> None:
    import torch
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder.mkdir()
    pieces = _train_sentencepiece(folder)
    words = ["</s>", "<unk>", *codes, *pieces, "<pad>"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
        tokenizer: Any = MarianTokenizer
        tokenizer(*files).save_pretrained(folder)
    pad = vocabulary["<pad>"]
    small = {"layers": 1, "ffn_dim": 32, "attention_heads": 2}
    sizes: Any = {f"{p}_{name}": n for p in ("encoder", "decoder") for name, n in small.items()}
    config = MarianConfig(
        vocab_size=len(vocabulary),
        d_model=16,
        max_position_embeddings=48,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        init_std=0.5,
        **sizes,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MarianMTModel(config)
    generation: Any = model.generation_config
    generation.update(num_beams=4, bad_words_ids=[[pad]], max_length=48)
    model.save_pretrained(folder)


def _train_sentencepiece(folder: Path) -> list[str]:
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 4),
        model_prefix=str(folder / "source"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "source.vocab").unlink()
    source = (folder / "source.model").rename(folder / "source.spm")
    (folder / "target.spm").write_bytes(source.read_bytes())
    read = sentencepiece.SentencePieceProcessor(model_file=str(source))
    return [read.id_to_piece(number) for number in range(3, len(read))]
