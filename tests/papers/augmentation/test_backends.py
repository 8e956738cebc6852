"""Tests of the paraphrase back-ends: EDA and back-translation by Marian models."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation import EDA, Marian, Options, Opus, model_files
from sclsearch.tasks.paraphrases import EDA_NOTE, paraphrase_source

TEXTS = ["the film is very good", "a dull story", "it was not lovely and not fine"]


def test_eda_writes_the_paraphrases_that_methods_use_without_a_file() -> None:
    texts = ["A film about two brothers.", "One", "一部很好的电影"]
    two, five = (EDA(Options(views=views)).paraphrases(texts) for views in (2, 5))
    expected = paraphrase_source(None).views([(text,) for text in texts])
    assert [((first,), (second,)) for first, second in two] == [*expected.values()]
    assert [views[:2] for views in five] == two
    assert {len(views) for views in five} == {5}
    assert EDA(Options()).header()["note"] == EDA_NOTE


def test_eda_names_all_options_that_do_not_apply() -> None:
    with pytest.raises(SclsearchError) as raised:
        EDA(Options(pivot="de", seed=0, models=Path("opus")))
    assert [line.partition(":")[0] for line in str(raised.value).splitlines()] == [
        "--pivot",
        "--seed",
        "--models",
    ]


def marian(opus: Path | None, **options: Any) -> Marian:
    pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")
    return Marian(Options(models=opus, **options))


def test_each_pivot_gives_a_different_paraphrase(opus: Path) -> None:
    backend = marian(opus)
    found = backend.paraphrases([*TEXTS, "longer than the model reads " * 40])
    assert [len(views) for views in found] == [2, 2, 2, 2]
    assert all(view for views in found for view in views)
    assert all(first != second for first, second in found)
    assert [*backend.folders] == ["en-de", "de-en", "en-zh", "zh-en"]


@pytest.mark.parametrize(("temperature", "different"), [(1e-3, 1), (0.7, 3)])
def test_paraphrases_of_one_pivot_differ_unless_the_temperature_is_low(
    opus: Path, temperature: float, different: int
) -> None:
    backend = marian(opus, temperature=temperature, views=3)
    assert {len(set(views)) for views in backend.paraphrases(TEXTS)} == {different}
    assert [*backend.folders] == ["en-de", "de-en"]


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


def test_an_empty_translation_stays_empty(opus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(_model: Opus, texts: list[str], *_: Any) -> list[str]:
        return ["" if text == TEXTS[0] else text or "invented" for text in texts]

    monkeypatch.setattr(Opus, "sample", sample)
    for texts in (TEXTS[:2], TEXTS[:1]):
        expected = [("", "", ""), (TEXTS[1],) * 3][: len(texts)]
        assert marian(opus, views=3).paraphrases(texts) == expected


@pytest.mark.parametrize(("direction", "prefix"), [("en-zh", ">>cmn_Hans<< "), ("en-de", "")])
def test_only_a_multilingual_model_gets_a_language_token(
    opus: Path, direction: str, prefix: str
) -> None:
    assert Opus(opus / f"opus-mt-{direction}", direction[-2:]).prefix == prefix


def test_the_header_has_models_temperature_and_seed(opus: Path, tmp_path: Path) -> None:
    header = marian(opus, temperature=0.9, seed=3).header()
    assert header["source"] == "Marian opus-mt en-de-en and en-zh-en, sampled at temperature 0.9"
    assert (header["temperature"], header["seed"]) == (0.9, 3)
    assert len(set(header["models"].values())) == 4
    assert set(header["versions"]) == {"torch", "transformers"}
    assert "note" not in header
    folder = shutil.copytree(opus, tmp_path / "models")
    weights = folder / "opus-mt-en-de" / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")
    changed = marian(folder).header()["models"]
    assert [name for name in changed if header["models"][name] != changed[name]] == [
        "opus-mt-en-de"
    ]


def test_other_pivots_than_the_papers_have_a_note(save_opus: Any) -> None:
    header = marian(save_opus("en-fr", "fr-en"), pivot="fr", views=3).header()
    assert header["note"] == (
        "paraphrases: Marian en-fr-en, not the papers' Marian en-de-en/en-zh-en"
    )


def test_weights_of_the_older_format_are_read(opus: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(opus / "opus-mt-de-en", tmp_path / "opus-mt-de-en")
    model = Opus(folder, "en").model
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert model_files(folder)[-1].name == "pytorch_model.bin"
    expected = Opus(opus / "opus-mt-de-en", "en").sample(TEXTS, 0.7, 1)
    assert Opus(folder, "en").sample(TEXTS, 0.7, 1) == expected


def test_each_missing_model_is_named_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "opus-mt-en-de").mkdir()
    (tmp_path / "opus-mt-en-de" / "config.json").write_text("{}")
    with pytest.raises(SclsearchError) as raised:
        marian(tmp_path).header()
    first, *others = str(raised.value).splitlines()
    missing = "vocab.json, source.spm, target.spm, model.safetensors or pytorch_model.bin"
    assert first.startswith(f"{tmp_path}/opus-mt-en-de: lacks {missing}.")
    assert len(others) == 3


def test_a_model_that_neither_hub_nor_cache_has_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SclsearchError, match="Helsinki-NLP/opus-mt-en-xx"):
        marian(None, pivot="xx", views=3).header()


def test_damaged_weights_are_an_error(opus: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(opus / "opus-mt-en-de", tmp_path / "opus-mt-en-de")
    (folder / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(SclsearchError, match=f"^{folder}: "):
        Opus(folder, "de")


@pytest.mark.parametrize("temperature", [0.0, float("inf"), float("nan")])
def test_a_temperature_is_a_positive_number(temperature: float) -> None:
    with pytest.raises(SclsearchError, match=r"^--temperature: must be a positive number, got"):
        marian(None, temperature=temperature)


def test_marian_needs_sentencepiece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SclsearchError, match=r"^--backend marian: .*sclsearch\[augment\]"):
        Marian(Options())
