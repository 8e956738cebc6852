"""Tests of paraphrase files: EDA, back-translation, their texts, format and resumption."""

import json
import resource
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation import EDA, Marian, drawn_texts, write
from sclsearch.tasks import TASKS, load_task
from sclsearch.tasks.base import Split, TaskData, Texts
from sclsearch.tasks.paraphrases import EDA_NOTE, paraphrase_source

ABOUT = {"source": "numbers", "temperature": 0.7}
ROWS: tuple[Texts, ...] = (("one",), ("a", "longer pair"), ("three\u2028é",), ("four",), ("a", ""))
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
    two, five = (EDA(views).paraphrases(texts) for views in (2, 5))
    expected = paraphrase_source(None).views([(text,) for text in texts])
    assert [((first,), (second,)) for first, second in two] == [*expected.values()]
    assert [views[:2] for views in five] == two
    assert {len(views) for views in five} == {5}
    assert EDA().header()["note"] == EDA_NOTE


def marian(opus: Path | None, **options: Any) -> Marian:
    pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")
    return Marian(models=opus, **options)


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
    assert [*backend.loaded] == pivots


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
    assert header["source"] == "Marian opus-mt en-de-en and en-zh-en, sampled at temperature 0.9"
    assert (header["temperature"], header["seed"], "note" in header) == (0.9, 3, False)
    folder = shutil.copytree(opus, tmp_path / "models")
    (folder / "opus-mt-en-de" / "model.safetensors").write_bytes(b"cut off")
    changed = marian(folder).header()["models"]
    different = [name for name in changed if header["models"][name] != changed[name]]
    assert different == ["opus-mt-en-de"]


def test_a_multilingual_model_receives_the_language(opus: Path) -> None:
    backend = marian(opus)
    backend.paraphrases(TEXTS)
    spies = {}
    for direction, (tokenizer, model) in backend.loaded.items():
        spies[direction] = spy = Mock(side_effect=tokenizer, batch_decode=tokenizer.batch_decode)
        spy.supported_language_codes = tokenizer.supported_language_codes
        backend.loaded[direction] = spy, model
    backend.paraphrases(["a dull story"])
    begun = {name: spy.call_args.args[0][0][:2] == ">>" for name, spy in spies.items()}
    assert begun == {"en-de": False, "de-en": False, "en-zh": True, "zh-en": False}


def test_weights_of_the_older_format_are_read(opus: Path, tmp_path: Path) -> None:
    backend, folder = marian(opus), shutil.copytree(opus, tmp_path / "opus")
    expected = backend.paraphrases(TEXTS)
    for name, (_, model) in backend.loaded.items():
        (folder / f"opus-mt-{name}" / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / f"opus-mt-{name}" / "pytorch_model.bin")
    assert marian(folder).files("de-en")[-1].name == "pytorch_model.bin"
    assert marian(folder).paraphrases(TEXTS) == expected


def test_missing_models_and_invalid_options_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "opus-mt-en-de"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(SclsearchError, match=f"{folder}: lacks vocab.json, source.spm, target.spm"):
        marian(tmp_path).header()
    for name in ("vocab.json", "source.spm", "target.spm"):
        (folder / name).write_text("{}")
    with pytest.raises(SclsearchError, match=f"{folder}: lacks model.safetensors"):
        marian(tmp_path).header()
    (folder / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(SclsearchError, match=f"{folder}: transformers cannot load"):
        marian(tmp_path).paraphrases(TEXTS)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SclsearchError, match="Helsinki-NLP/opus-mt-en-xx"):
        marian(None, pivot="xx", views=3).header()
    for temperature in (0.0, float("nan")):
        with pytest.raises(SclsearchError, match=r"^--temperature: must be greater than 0"):
            Marian(temperature=temperature)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SclsearchError, match=r"^--backend marian: .*sclsearch\[augment\]"):
        Marian().header()


@dataclass
class Numbering:
    """Back-end that numbers the texts of each call."""

    at_once: int = 2
    views: int = 2
    given: list[Sequence[str]] = field(default_factory=list)
    stop_after: int = 99

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if len(self.given) == self.stop_after:
            raise KeyboardInterrupt
        self.given.append(texts)
        return [(f"{text} {place}/{len(texts)}", "") for place, text in enumerate(texts)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new" / "paraphrases.jsonl"


def written(file: Path, backend: Any = None, about: Any = ABOUT) -> list[int]:
    numbering: Any = backend or Numbering()
    return [*write(file, about, ROWS, numbering)]


def test_long_rows_come_first_and_the_texts_of_a_pair_are_separate(file: Path) -> None:
    backend = Numbering()
    assert written(file, backend) == [0, 2, 4, 5]
    assert backend.given == [["a", "longer pair", "three\u2028é"], ["four", "one"], ["a"]]
    # An empty paraphrase is replaced by the text.
    assert paraphrase_source(file).rows == {
        ("a", "longer pair"): (("a 0/3", "longer pair 1/3"), ("a", "longer pair")),
        ("three\u2028é",): (("three\u2028é 2/3",), ("three\u2028é",)),
        ("four",): (("four 0/2",), ("four",)),
        ("one",): (("one 1/2",), ("one",)),
        ("a", ""): (("a 0/1", ""), ("a", "")),
    }


@pytest.mark.slow
def test_a_file_cut_off_anywhere_is_completed_to_the_same_bytes(file: Path) -> None:
    written(file)
    whole = file.read_bytes()
    begin = whole.index(b"\n") + 1
    for end in range(begin, len(whole) + 1):
        file.write_bytes(whole[:end])
        assert written(file)[0] == whole[begin:end].count(b"\n")
        assert file.read_bytes() == whole


def test_another_header_is_an_error_with_all_differences(file: Path) -> None:
    written(file)
    whole = file.read_bytes()
    differences = "source is 'numbers' there and 'words' here; seed is None there and 1 here"
    with pytest.raises(SclsearchError, match=f"^--out {file}: .*: {differences}"):
        written(file, about={**ABOUT, "source": "words", "seed": 1})
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "content", [b"my notes\nand more", b"\xff\n", b'{"paraphrases": 1', b"{}\n"]
)
def test_a_file_of_another_kind_is_an_error_and_not_changed(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes"
    file.write_bytes(content)
    with pytest.raises(SclsearchError, match=f"^--out {file}: is no paraphrase file"):
        written(file)
    assert file.read_bytes() == content


def test_after_a_full_disk_the_same_command_resumes(file: Path) -> None:
    whole = file.with_name("whole.jsonl")
    written(whole)
    room = whole.stat().st_size - 50
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            written(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.stat().st_size == room
    assert written(file)[0] == 4
    assert file.read_bytes() == whole.read_bytes()


def test_without_a_size_all_training_texts_but_blank_ones_are_selected() -> None:
    demo = load_task("demo")
    assert drawn_texts(demo, None, None) == tuple(dict.fromkeys(demo.splits["train"].texts))
    rows: tuple[Texts, ...] = (("a", ""), ("", " "), ("b", "c"), ("a", ""))
    data = TaskData(TASKS["qqp"], {"train": Split(rows, np.zeros(4, np.int64))}, "here")
    assert drawn_texts(data, None, None) == (("a", ""), ("b", "c"))
