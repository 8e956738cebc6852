"""Tests of paraphrases: files, their errors and digests, and EDA."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.tasks.base import Texts
from sclsearch.tasks.paraphrases import eda, paraphrase_source

HEADER: dict[str, object] = {"paraphrases": 1, "source": "en-de-en and en-zh-en, opus-mt"}
FILM: dict[str, object] = {"text": ["A film."], "paraphrases": [["A movie."], ["Film."], ["…"]]}
PAIR: dict[str, object] = {"text": ["a", "b"], "paraphrases": [["c", "d"], ["e", "f"]]}
OTHER: dict[str, object] = {"text": ["further"], "paraphrases": [["one"], ["two"]]}
# If this digest changes, stored seed runs that used paraphrases are no longer found.
FILM_DIGEST = "36c89b1d5cb35e55b473fa2fec9317c45d87d17711c12645fc24a2578ada1a06"
VIEWS: dict[Texts, tuple[Texts, Texts]] = {
    ("A film.",): (("A movie.",), ("Film.",)),
    ("a", "b"): (("c", "d"), ("e", "f")),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paraphrases.jsonl"


def write(file: Path, *lines: object) -> None:
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("".join(f"{line}\n" for line in written))


def test_a_file_gives_the_first_two_paraphrases_of_each_text(file: Path) -> None:
    half = {"text": ["", "b"], "paraphrases": [["", "c"], ["", "d"]]}
    header = {**HEADER, "date": "2026", "note": "by machine", "temperature": 1}
    write(file, "", header, " ", PAIR, OTHER, FILM, PAIR, half, "\r")
    source = paraphrase_source(file)
    assert (source.name, source.path) == (HEADER["source"], file)
    assert (source.note, source.temperature) == ("by machine", 1)
    assert source.views([*VIEWS, *VIEWS, ("", "b")]) == {**VIEWS, ("", "b"): (("", "c"), ("", "d"))}
    texts = [("A film.",), ("A film. ",), ("other",), ("A film. ",)]
    with pytest.raises(SclsearchError, match=r"2 of 3 have fewer, the first \['A film. '\]"):
        source.views(texts)
    assert paraphrase_source(file, 3).views([("A film.",)]) == {
        ("A film.",): (("A movie.",), ("Film.",), ("…",))
    }
    with pytest.raises(SclsearchError, match="every text must have 3 paraphrases, 1 of 1"):
        paraphrase_source(file, 3).views([("further",)])


def test_the_digest_covers_exactly_the_paraphrases_that_are_used(file: Path) -> None:
    film, both = [("A film.",)], [("A film.",), ("a", "b")]
    write(file, HEADER, FILM, PAIR)
    one, two = (paraphrase_source(file).digest_of(texts) for texts in (film, both))
    assert one == FILM_DIGEST != paraphrase_source(file, 3).digest_of(film)
    write(file, {**HEADER, "date": "2026-01-02", "note": "later"}, PAIR, FILM, OTHER)
    assert paraphrase_source(file).digest_of([*reversed(both), *both]) == two != one
    shorter = {**FILM, "paraphrases": [["A movie."], ["Film."]]}
    write(file, HEADER, shorter, {**PAIR, "paraphrases": [["c", "d"], ["e", "g"]]})
    assert paraphrase_source(file).digest_of(film) == one
    assert paraphrase_source(file).digest_of(both) != two


def test_the_digest_covers_paraphrases_of_joined_paraphrases(file: Path) -> None:
    digests = []
    for last in ("Two.", "Three."):
        write(file, HEADER, FILM, {"text": ["A movie."], "paraphrases": [["One."], [last]]})
        digests += [paraphrase_source(file).digest_of([("A film.",)], joined) for joined in (0, 1)]
    assert digests[0] == digests[2]
    assert len({*digests}) == 3


def test_an_invalid_header_or_row_is_reported_with_its_number(file: Path) -> None:
    cases: list[tuple[int, object, str]] = [
        (3, {**FILM, "text": ["A \ud83d film."]}, "text[0]: character 3"),
        (3, {**FILM, "paraphrases": [["one"], [""]]}, "paraphrases[1]: "),
        (3, {**FILM, "paraphrases": [["a"], ["b"]]}, "the text has other paraphrases in"),
        (1, {**HEADER, "paraphrases": 2}, "paraphrases: must be 1, got 2"),
    ]
    for row, line, message in cases:
        write(file, *((HEADER, FILM, "", line) if row == 3 else (line, FILM)), PAIR)
        with pytest.raises(SclsearchError) as raised:
            paraphrase_source(file)
        assert f"row {row}: {message}" in str(raised.value)


PINNED = {
    "The film was not good, but it was long.": (
        "The film was but good, not it was long.",
        "The was not good, but it was long.",
        "The film was good, but it long.",
        "The film was long. good, but it was not",
    ),
    "我喜欢这部电影。": ("我喜欢部这电影。", "我喜欢这部电影"),
    "我的iPhone坏了": ("iPhone的我坏了", "我iPhone坏了"),
}


@pytest.mark.parametrize("text", PINNED)
def test_eda_paraphrases_are_pinned(text: str) -> None:
    assert eda(text, len(PINNED[text])) == PINNED[text]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_eda_never_empties_a_text_and_two_words_get_distinct_paraphrases(text: str) -> None:
    swapped, deleted = eda(text)
    assert bool(swapped.strip()) == bool(deleted.strip()) == bool(text.strip())
    assert swapped != deleted or len(text.split()) < 2
