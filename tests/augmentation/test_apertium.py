"""Apertium translates by rules: texts stay apart, and what is missing is named."""

import shutil
from pathlib import Path

import pytest

from sclsearch.augmentation.apertium import Apertium
from sclsearch.augmentation.base import Options
from sclsearch.errors import SclsearchError

TEXTS = [
    "the film is full of charm .",
    "hide new secretions from the parental units",
    "It cost $5 [or 3/4 of {that}] ^ \\ * <b>",
    "the threat implied\nin the title",
    "the best",
    "film .",
]


@pytest.fixture
def apertium() -> Apertium:
    if shutil.which("apertium") is None:
        pytest.skip("no apertium; on Debian: apt-get install apertium-eng-spa")
    return Apertium(Options(views=3))


@pytest.mark.slow
def test_a_text_is_told_in_other_words_and_keeps_its_full_stop(apertium: Apertium) -> None:
    first, second, *_ = apertium.paraphrases(TEXTS)
    assert first[0] == "The film is full of charm ."
    assert second[0] == "Hide new secretions of the parental units"


@pytest.mark.slow
def test_signs_that_apertium_reads_as_its_own_stay(apertium: Apertium) -> None:
    told = apertium.paraphrases(TEXTS)[2][0]
    for sign in ("$5", "[", "3/4", "{", "]", "^", "\\", "*", "<b>"):
        assert sign in told


@pytest.mark.slow
def test_every_text_has_its_own_line(apertium: Apertium) -> None:
    found = [views[0].lower() for views in apertium.paraphrases(TEXTS)]
    for text, word in zip(
        found, ("charm", "units", "cost", "title", "the best", "film"), strict=True
    ):
        assert word in text
        assert "\n" not in text


@pytest.mark.slow
def test_further_paraphrases_are_round_trips_of_the_one_before(apertium: Apertium) -> None:
    found = apertium.paraphrases(TEXTS)
    again = apertium.paraphrases([views[0] for views in found])
    assert [views[1:] for views in found] == [views[:2] for views in again]


@pytest.mark.slow
def test_the_same_texts_have_the_same_paraphrases(apertium: Apertium) -> None:
    assert apertium.paraphrases(TEXTS) == apertium.paraphrases(TEXTS)


def test_the_header_says_what_it_is_and_what_it_is_not(apertium: Apertium) -> None:
    header = apertium.header()
    assert header["source"] == "Apertium en-es-en, by rules, not sampled"
    assert header["note"] == (
        "paraphrases: Apertium en-es-en, not the papers' Marian en-de-en/en-zh-en"
    )
    assert header["version"].startswith("Apertium 3.")
    assert {name: len(digest) for name, digest in header["models"].items()} == {
        "eng-spa": 64,
        "spa-eng": 64,
    }


@pytest.mark.slow
def test_a_second_pivot_gives_the_second_paraphrase() -> None:
    try:
        both = Apertium(Options(pivot="es", second_pivot="ca"))
    except SclsearchError as error:
        pytest.skip(str(error))
    one, other = Apertium(Options(pivot="es")), Apertium(Options(pivot="ca"))
    firsts = [[views[0] for views in backend.paraphrases(TEXTS)] for backend in (one, other)]
    assert both.paraphrases(TEXTS) == list(zip(*firsts, strict=True))


def test_without_the_program_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SclsearchError) as raised:
        Apertium(Options())
    assert str(raised.value) == (
        "--backend apertium: the program 'apertium' must be there and translate eng-spa, spa-eng, "
        "but there is no such program. On Debian: apt-get install apertium-eng-spa"
    )


def test_a_language_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "apertium"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(SclsearchError, match=r"but it lacks eng-cat, cat-eng\. On Debian: .*-cat"):
        Apertium(Options(pivot="ca"))


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(SclsearchError, match="Unknown language of Apertium 'de'"):
        Apertium(Options(pivot="de"))


def test_options_of_sampling_are_refused() -> None:
    with pytest.raises(SclsearchError) as raised:
        Apertium(Options(temperature=0.7, seed=1))
    assert str(raised.value).splitlines() == [
        "--temperature: it must be left out, for Apertium translates by rules and samples nothing, "
        "but it is 0.7.",
        "--seed: it must be left out, for Apertium translates by rules and samples nothing, "
        "but it is 1.",
    ]
