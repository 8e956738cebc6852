"""Tests of paraphrases: files, their errors and digests, and EDA."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError
from sclsearch.tasks import load_task
from sclsearch.tasks.base import Texts
from sclsearch.tasks.paraphrases import EDA_NOTE, EDA_VERSION, eda, paraphrase_source

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


def errors(file: Path) -> list[str]:
    with pytest.raises(SclsearchError) as raised:
        paraphrase_source(file)
    return [line.removeprefix(f"{file}: ") for line in str(raised.value).splitlines()]


def test_a_file_gives_the_first_two_paraphrases_of_each_text(file: Path) -> None:
    write(file, "", {**HEADER, "date": "2026"}, " ", PAIR, OTHER, FILM, PAIR, "\r")
    source = paraphrase_source(file)
    assert (source.name, source.path, source.note) == (HEADER["source"], file, "")
    assert source.views([*VIEWS, *VIEWS]) == VIEWS


def test_the_digest_covers_only_the_paraphrases_of_the_given_texts(file: Path) -> None:
    write(file, HEADER, FILM, PAIR)
    film, both = [("A film.",)], [("A film.",), ("a", "b")]
    one, two = (paraphrase_source(file).digest_of(texts) for texts in (film, both))
    write(file, {**HEADER, "date": "2026-01-02", "note": "later"}, PAIR, FILM, OTHER)
    assert paraphrase_source(file).digest_of([*reversed(both), *both]) == two != one
    write(file, HEADER, FILM, {**PAIR, "paraphrases": [["c", "d"], ["e", "g"]]})
    assert paraphrase_source(file).digest_of(film) == one
    assert paraphrase_source(file).digest_of(both) != two


def test_the_digest_covers_paraphrases_of_joined_paraphrases(file: Path) -> None:
    movie = {"text": ["A movie."], "paraphrases": [["One."], ["Two."]]}
    write(file, HEADER, FILM, movie)
    before = [paraphrase_source(file).digest_of([("A film.",)], joined) for joined in (0, 1)]
    write(file, HEADER, FILM, {**movie, "paraphrases": [["One."], ["Three."]]})
    after = [paraphrase_source(file).digest_of([("A film.",)], joined) for joined in (0, 1)]
    assert before[0] == after[0]
    assert len({*before, *after}) == 3


def test_paraphrases_beyond_the_count_do_not_change_the_digest(file: Path) -> None:
    write(file, HEADER, FILM)
    film = [("A film.",)]
    two, three = paraphrase_source(file), paraphrase_source(file, 3)
    assert three.views(film) == {("A film.",): (("A movie.",), ("Film.",), ("…",))}
    write(file, HEADER, {**FILM, "paraphrases": [["A movie."], ["Film."]]})
    digest_of_two = two.digest_of(film)
    assert paraphrase_source(file).digest_of(film) == digest_of_two == FILM_DIGEST
    assert paraphrase_source(file, 3).digest_of(film) == digest_of_two != three.digest_of(film)
    with pytest.raises(SclsearchError, match="every text must have 3 paraphrases, 1 of 1"):
        paraphrase_source(file, 3).views(film)


def test_a_header_may_have_a_note_and_a_temperature(file: Path) -> None:
    for extra, temperature in (({}, None), ({"temperature": None}, None), ({"temperature": 1}, 1)):
        write(file, {**HEADER, **extra, "note": "machine translated"}, FILM)
        source = paraphrase_source(file)
        assert (source.note, source.temperature) == ("machine translated", temperature)


def test_an_empty_text_of_a_pair_needs_no_paraphrase(file: Path) -> None:
    write(file, HEADER, {"text": ["", "b"], "paraphrases": [["", "c"], ["", "d"]]})
    assert paraphrase_source(file).views([("", "b")]) == {("", "b"): (("", "c"), ("", "d"))}


def test_missing_texts_are_counted_and_the_first_is_shown(file: Path) -> None:
    write(file, HEADER, FILM)
    texts = [("A film.",), ("A film. ",), ("other",), ("A film. ",)]
    with pytest.raises(SclsearchError, match=r"2 of 3 have fewer, the first \['A film. '\]"):
        paraphrase_source(file).views(texts)


ROWS: dict[str, tuple[object, str]] = {
    "a list": ([1], "must be a JSON object, got [1]"),
    "no text": ({"paraphrases": [["a"], ["b"]]}, "text: is missing"),
    "an unknown key": ({**FILM, "txt": 1}, "txt: unknown key. Did you mean 'text'?"),
    "a bare text": ({**FILM, "text": "A film."}, "text: must be a valid list, got 'A film.'"),
    "one paraphrase": ({**FILM, "paraphrases": [["one"]]}, "paraphrases: "),
    "two texts": ({**FILM, "paraphrases": [["one"], ["two", "three"]]}, "paraphrases[1]: "),
    "half a surrogate pair": ({**FILM, "text": ["A \ud83d film."]}, "text[0]: character 3"),
    "an empty paraphrase": ({**FILM, "paraphrases": [["one"], [""]]}, "paraphrases[1]: "),
    "other paraphrases": ({**FILM, "paraphrases": [["a"], ["b"]]}, "the text has other paraphra"),
}


@pytest.mark.parametrize(("row", "message"), ROWS.values(), ids=ROWS)
def test_an_invalid_row_is_reported_with_its_number(file: Path, row: object, message: str) -> None:
    write(file, HEADER, FILM, "", row, PAIR)
    (error,) = errors(file)
    assert error.startswith(f"row 3: {message}")


HEADERS: dict[str, tuple[object, str]] = {
    "another version": ({**HEADER, "paraphrases": 2}, "paraphrases: must be 1, got 2"),
    "no source": ({"paraphrases": 1}, "source: is missing"),
    "an empty source": ({**HEADER, "source": ""}, "source: "),
    "a number as a note": ({**HEADER, "note": 1}, "note: must be text, got 1"),
    "a text as temperature": ({**HEADER, "temperature": "0.7"}, "temperature: must be a valid nu"),
}


@pytest.mark.parametrize(("header", "message"), HEADERS.values(), ids=HEADERS)
def test_an_invalid_header_is_refused(file: Path, header: object, message: str) -> None:
    write(file, header, FILM)
    assert errors(file)[0].startswith(f"row 1: {message}")


def test_the_first_faults_are_reported(file: Path) -> None:
    write(file, {"note": None}, {"txt": ["A film."]}, FILM, *[{}] * 30)
    messages = errors(file)
    rows = [message.partition(":")[0] for message in messages[:-1]]
    assert rows == [*("row 1",) * 3, *("row 2",) * 2]
    assert messages[-1] == "66 faults in all, the first 5 shown."
    write(file, HEADER, FILM, "", '{"text": ')
    assert errors(file)[0].startswith("line 4: invalid JSON: Expecting value")


def test_a_missing_or_empty_file_is_refused(file: Path) -> None:
    assert errors(file)[0].startswith("cannot be read")
    write(file, "")
    assert errors(file)[0].startswith("the file is empty")


WORDS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=60)
PINNED = {
    "The film was not good, but it was long.": (
        "The film was but good, not it was long.",
        "The was not good, but it was long.",
        "The film was good, but it long.",
        "The film was long. good, but it was not",
    ),
    "我喜欢这部电影。": ("我喜欢部这电影。", "我喜欢这部电影"),
}


@pytest.mark.parametrize("text", PINNED)
def test_eda_paraphrases_are_pinned(text: str) -> None:
    assert eda(text, len(PINNED[text])) == PINNED[text]
    assert eda(text) == PINNED[text][:2]


@given(WORDS, st.integers(2, 7))
def test_eda_swaps_then_deletes_then_does_both(words: list[str], views: int) -> None:
    paraphrases = [paraphrase.split(" ") for paraphrase in eda(" ".join(words), views)]
    assert len(paraphrases) == views
    for number, paraphrase in enumerate(paraphrases):
        kept = Counter(paraphrase)
        assert (kept == Counter(words)) == (number % 3 == 0)
        assert kept <= Counter(words)
    rest = iter(words)
    assert all(word in rest for word in paraphrases[1])


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_eda_never_empties_a_text_and_two_words_get_distinct_paraphrases(text: str) -> None:
    swapped, deleted = eda(text)
    assert bool(swapped.strip()) == bool(deleted.strip()) == bool(text.strip())
    if len(text.split()) > 1:
        assert swapped != deleted


def test_eda_swaps_and_deletes_a_tenth_of_the_words() -> None:
    texts = [" ".join(f"{n}-{word}" for word in range(100)) for n in range(100)]
    pairs = [(text.split(), *map(str.split, eda(text))) for text in texts]
    assert sum(len(deleted) for *_, deleted in pairs) / 10_000 == pytest.approx(0.9, abs=0.01)
    for words, swapped, _ in pairs:
        moved = sum(new != word for new, word in zip(swapped, words, strict=True))
        assert 10 <= moved <= 20


def test_eda_treats_each_chinese_character_and_latin_word_as_a_word() -> None:
    text = "我的iPhone屏幕坏了iPhone不好,我们都很满意"
    for paraphrase in eda(text):
        assert paraphrase != text
        assert set(paraphrase.replace("iPhone", "")) <= set(text.replace("iPhone", ""))


@pytest.mark.parametrize("text", ["", " ", "Hilarious!", "好"], ids=repr)
def test_eda_does_not_change_a_text_of_fewer_than_two_words(text: str) -> None:
    assert eda(text) == (text, text)


def test_eda_keeps_line_breaks() -> None:
    assert [len(line.split()) for line in eda("one two\nthree four")[0].split("\n")] == [2, 2]


def test_eda_without_a_file_paraphrases_each_text_of_a_pair_separately(glue: Path) -> None:
    source: Any = paraphrase_source(None)
    assert (source.name, source.path, source.note) == ("EDA", None, EDA_NOTE)
    assert source.digest_of([]) == source.digest_of(VIEWS) == digest(["eda", EDA_VERSION])
    for (left, right), views in source.views(load_task("rte", glue).splits["train"].texts).items():
        assert views == tuple(zip(eda(left), eda(right), strict=True))
