"""Tests of the paraphrase back-ends: EDA and back-translation by Marian models."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation import EDA, Marian, Options, Opus, model_files
from sclsearch.tasks.paraphrases import EDA_NOTE, paraphrase_source

TEXTS = ["the film is very good", "a dull story", "it was not lovely and not fine"]
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


def test_eda_writes_the_paraphrases_that_methods_use_without_a_file() -> None:
    texts = ["A film about two brothers.", "One", "一部很好的电影"]
    two, five = (EDA(Options(views=views)).paraphrases(texts) for views in (2, 5))
    expected = paraphrase_source(None).views([(text,) for text in texts])
    assert [((first,), (second,)) for first, second in two] == [*expected.values()]
    assert [views[:2] for views in five] == two
    assert {len(views) for views in five} == {5}
    assert EDA(Options()).header()["note"] == EDA_NOTE
    with pytest.raises(SclsearchError) as raised:
        EDA(Options(pivot="de", seed=0, models=Path("opus")))
    named = [line.partition(":")[0] for line in str(raised.value).splitlines()]
    assert named == ["--pivot", "--seed", "--models"]


def marian(opus: Path | None, **options: Any) -> Marian:
    pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")
    return Marian(Options(models=opus, **options))


@pytest.mark.parametrize(
    ("options", "different", "pivots"),
    [
        ({}, 2, ["en-de", "de-en", "en-zh", "zh-en"]),
        ({"temperature": 1e-3, "views": 3}, 1, ["en-de", "de-en"]),
        ({"temperature": 0.7, "views": 3}, 3, ["en-de", "de-en"]),
    ],
)
def test_paraphrases_differ_by_pivot_or_unless_the_temperature_is_low(
    opus: Path, options: dict[str, Any], different: int, pivots: list[str]
) -> None:
    backend = marian(opus, **options)
    found = backend.paraphrases([*TEXTS, "longer than the model reads " * 40][: 3 + (not options)])
    assert {len(set(views)) for views in found} == {different}
    assert all(view for views in found for view in views)
    assert [*backend.folders] == pivots


def test_paraphrases_depend_on_texts_and_seed_not_on_the_global_generator(opus: Path) -> None:
    backend = marian(opus)
    found = backend.paraphrases(TEXTS)
    assert marian(opus, seed=0).paraphrases(TEXTS) == found
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    assert backend.paraphrases(TEXTS) == found
    assert torch.equal(torch.rand(3), expected)
    assert marian(opus, seed=1).paraphrases(TEXTS) != found


def test_the_header_has_models_temperature_and_seed(opus: Path, tmp_path: Path) -> None:
    backend = marian(opus, temperature=0.9, seed=3)
    header = backend.header()
    prefixes = [Opus(folder, name[-2:]).prefix for name, folder in backend.folders.items()]
    assert prefixes == ["", "", ">>cmn_Hans<< ", ""]  # of a multilingual model
    assert header["source"] == "Marian opus-mt en-de-en and en-zh-en, sampled at temperature 0.9"
    assert (header["temperature"], header["seed"], "note" in header) == (0.9, 3, False)
    folder = shutil.copytree(opus, tmp_path / "models")
    (folder / "opus-mt-en-de" / "model.safetensors").write_bytes(b"cut off")
    changed = marian(folder).header()["models"]
    different = [name for name in changed if header["models"][name] != changed[name]]
    assert different == ["opus-mt-en-de"]


def test_weights_of_the_older_format_are_read(opus: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(opus / "opus-mt-de-en", tmp_path / "opus-mt-de-en")
    model = Opus(folder, "en").model
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert model_files(folder)[-1].name == "pytorch_model.bin"
    expected = Opus(opus / "opus-mt-de-en", "en").sample(TEXTS, 0.7, 1)
    assert Opus(folder, "en").sample(TEXTS, 0.7, 1) == expected


def test_missing_models_and_invalid_options_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opus-mt-en-de").mkdir()
    (tmp_path / "opus-mt-en-de" / "config.json").write_text("{}")
    with pytest.raises(SclsearchError) as raised:
        marian(tmp_path).header()
    first, *others = str(raised.value).splitlines()
    missing = "vocab.json, source.spm, target.spm, model.safetensors or pytorch_model.bin"
    assert first.startswith(f"{tmp_path}/opus-mt-en-de: lacks {missing}.")
    assert len(others) == 3
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SclsearchError, match="Helsinki-NLP/opus-mt-en-xx"):
        marian(None, pivot="xx", views=3).header()
    for temperature in (0.0, float("inf"), float("nan")):
        with pytest.raises(SclsearchError, match=r"^--temperature: must be a positive number"):
            Marian(Options(temperature=temperature))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SclsearchError, match=r"^--backend marian: .*sclsearch\[augment\]"):
        Marian(Options())
