"""Marian translates there and back by sampling, and one seed and text have one paraphrase."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")

import torch

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.base import Options
from sclsearch.papers.augmentation.marian import Marian
from sclsearch.papers.augmentation.opus import Opus, model_files

TEXTS = ["the film is very good", "a dull story", "it was not lovely and not fine"]
LONG = "the film is very good and dull " * 40


def marian(opus: Path, **options: Any) -> Marian:
    return Marian(Options(models=opus, **options))


def test_a_text_has_a_paraphrase_by_each_pivot(opus: Path) -> None:
    backend = marian(opus)
    found = backend.paraphrases(TEXTS)
    assert [len(views) for views in found] == [2, 2, 2]
    assert all(view for views in found for view in views)
    assert all(first != second for first, second in found)
    assert [*backend.folders] == ["en-de", "de-en", "en-zh", "zh-en"]


def test_one_pivot_gives_as_many_draws_as_are_asked_for(opus: Path) -> None:
    backend = marian(opus, views=3)
    for views in backend.paraphrases(TEXTS):
        assert len(set(views)) == 3
    assert [*backend.folders] == ["en-de", "de-en"]


@pytest.mark.slow
def test_the_draws_are_a_function_of_texts_and_seed(opus: Path) -> None:
    found = marian(opus).paraphrases(TEXTS)
    again = marian(opus, seed=0)
    torch.manual_seed(7)
    assert again.paraphrases(TEXTS) == found
    assert again.paraphrases(TEXTS) == found
    assert marian(opus, seed=1).paraphrases(TEXTS) != found


def test_drawing_leaves_the_global_stream_alone(opus: Path) -> None:
    backend = marian(opus)
    backend.paraphrases(TEXTS)  # loads the models
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    backend.paraphrases(TEXTS)
    assert torch.equal(torch.rand(3), expected)


def test_the_colder_the_more_alike_are_the_draws(opus: Path) -> None:
    cold = marian(opus, temperature=1e-3, views=3).paraphrases(TEXTS)
    assert all(len(set(views)) == 1 for views in cold)
    warm = marian(opus, temperature=1.5, views=3).paraphrases(TEXTS)
    assert all(len(set(views)) == 3 for views in warm)


def test_a_text_longer_than_the_model_reads_is_cut(opus: Path) -> None:
    ((first, second),) = marian(opus).paraphrases([LONG])
    assert first
    assert second


def test_nothing_comes_of_a_translation_that_is_empty(opus: Path) -> None:
    assert marian(opus)._translated(["", ""], "de-en", 0) == ["", ""]
    first, second = marian(opus)._translated(["", TEXTS[0]], "de-en", 0)
    assert (first, bool(second)) == ("", True)


def test_a_model_for_several_languages_is_told_which(opus: Path) -> None:
    assert Opus(opus / "opus-mt-en-zh", "zh").prefix == ">>cmn_Hans<< "
    assert Opus(opus / "opus-mt-zh-en", "en").prefix == ""
    assert Opus(opus / "opus-mt-en-de", "de").prefix == ""


def test_the_header_names_models_temperature_and_seed(opus: Path) -> None:
    header = marian(opus, temperature=0.9, seed=3).header()
    assert header["source"] == "Marian opus-mt en-de-en and en-zh-en, sampled at temperature 0.9"
    assert (header["temperature"], header["seed"]) == (0.9, 3)
    assert len(set(header["models"].values())) == 4
    assert set(header["versions"]) == {"torch", "transformers"}
    assert "note" not in header


def test_the_papers_are_not_claimed_for_another_language(save_opus: Any) -> None:
    folder = save_opus("en-fr", "fr-en")
    header = marian(folder, pivot="fr", views=3).header()
    assert header["note"] == (
        "paraphrases: Marian en-fr-en, not the papers' Marian en-de-en/en-zh-en"
    )


def test_other_weights_have_another_digest(opus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    shutil.copytree(opus, folder)
    weights = folder / "opus-mt-en-de" / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")
    before, after = marian(opus).header()["models"], marian(folder).header()["models"]
    assert [name for name in before if before[name] != after[name]] == ["opus-mt-en-de"]


def test_weights_of_the_older_format_are_taken(opus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-de-en"
    shutil.copytree(opus / "opus-mt-de-en", folder)
    model = Opus(folder, "en").model
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert model_files(folder)[-1].name == "pytorch_model.bin"
    expected = Opus(opus / "opus-mt-de-en", "en").sample(TEXTS, 0.7, 1)
    assert Opus(folder, "en").sample(TEXTS, 0.7, 1) == expected


def test_every_missing_model_is_named_with_its_files(opus: Path, tmp_path: Path) -> None:
    (tmp_path / "opus-mt-en-de").mkdir()
    (tmp_path / "opus-mt-en-de" / "config.json").write_text("{}")
    with pytest.raises(SclsearchError) as raised:
        marian(tmp_path).header()
    first, *others = str(raised.value).splitlines()
    assert first == (
        f"{tmp_path}/opus-mt-en-de: the files of the model opus-mt-en-de must be there, but "
        "vocab.json, source.spm, target.spm, model.safetensors or pytorch_model.bin is missing. "
        "Take them from Helsinki-NLP/opus-mt-en-de on the hub."
    )
    assert len(others) == 3


def test_a_model_that_neither_hub_nor_cache_has_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SclsearchError, match="Helsinki-NLP/opus-mt-en-xx must be on the hub or"):
        Marian(Options(pivot="xx", views=3)).header()


def test_files_that_are_no_model_are_an_error(opus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    shutil.copytree(opus / "opus-mt-en-de", folder)
    (folder / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(SclsearchError, match="must be a Marian model that transformers can load"):
        Opus(folder, "de")


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_temperature_is_a_positive_number(temperature: float) -> None:
    with pytest.raises(SclsearchError, match="--temperature: it must be more than 0, but"):
        Marian(Options(temperature=temperature))
