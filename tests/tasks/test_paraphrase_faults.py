"""A file of paraphrases that cannot be used is refused: every fault with its line, at once."""

from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks.paraphrases import paraphrase_source
from tests.tasks.paraphrase_files import FILM, HEADER, PAIR, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paraphrases.jsonl"


def field_errors(file: Path) -> list[str]:
    with pytest.raises(SclsearchError) as raised:
        paraphrase_source(file)
    return [line.removeprefix(f"{file}: ") for line in str(raised.value).splitlines()]


def test_texts_that_the_file_lacks_are_counted_and_the_first_is_shown(file: Path) -> None:
    write(file, HEADER, FILM)
    texts = [("A film.",), ("A film. ",), ("other",), ("A film. ",)]
    with pytest.raises(
        SclsearchError, match=r"2 of 3 have fewer, the first \['A film. '\]"
    ) as told:
        paraphrase_source(file).views(texts)
    assert str(told.value).startswith(f"{file}: every text must have 2 paraphrases, but ")


ROWS: dict[str, tuple[object, str]] = {
    "not JSON": ('{"text": ', "the line must be JSON, but: Expecting value (column 10)"),
    "a list": ([1], "the line must be one JSON object, but it is a list"),
    "no text": (
        {"paraphrases": FILM["paraphrases"]},
        "'text' must be there, but it is not",
    ),
    "an unknown key": (
        {**FILM, "label": 1},
        "unknown key 'label'. Known: paraphrases, text.",
    ),
    "a bare text": (
        {**FILM, "text": "A film."},
        "'text' must be a list of one text or two, but it is 'A film.'",
    ),
    "three texts": (
        {**FILM, "text": ["a", "b", "c"]},
        "'text' must be a list of one text or two, but it is ['a', 'b', 'c']",
    ),
    "no texts": ({**FILM, "text": []}, "'text' must be a list of one text or two, but it is []"),
    "an empty text": ({**FILM, "text": [" "]}, "'text' must hold something, but it is empty"),
    "one paraphrase": (
        {**FILM, "paraphrases": [["one"]]},
        "'paraphrases' must be a list of two or more, but it is [['one']]",
    ),
    "paraphrases as text": (
        {**FILM, "paraphrases": "two"},
        "'paraphrases' must be a list of two or more, but it is 'two'",
    ),
    "a bare paraphrase": (
        {**FILM, "paraphrases": [["one"], "two"]},
        "paraphrase 2 must be a list of texts, but it is 'two'",
    ),
    "a number": (
        {**FILM, "paraphrases": [[1], ["two"]]},
        "paraphrase 1 must be a list of texts, but it is [1]",
    ),
    "a wrong number of texts": (
        {**FILM, "paraphrases": [["one"], ["two"], ["three", "four"]]},
        "paraphrase 3 must have as many texts as 'text', 1, but it has 2",
    ),
    "half a character": (
        {**FILM, "text": ["A \ud83d film."]},
        r"'text' must hold whole characters, but character 3 is '\ud83d', half of a pair",
    ),
    "a paraphrase with half a character": (
        {**FILM, "paraphrases": [["one"], ["two\ud83d"]]},
        r"paraphrase 2 must hold whole characters, but character 4 is '\ud83d', half of a pair",
    ),
    "an empty paraphrase": (
        {**FILM, "paraphrases": [["one"], [""]]},
        "paraphrase 2 must hold something, but a text of it is empty",
    ),
    "other paraphrases": (
        {**FILM, "paraphrases": [["one"], ["two"]]},
        "a text must have the same paraphrases each time, but line 2 has others",
    ),
}


@pytest.mark.parametrize(("row", "reason"), ROWS.values(), ids=ROWS.keys())
def test_a_row_that_cannot_be_used_is_named_by_its_line(
    file: Path, row: object, reason: str
) -> None:
    write(file, HEADER, FILM, "", row, PAIR)
    assert field_errors(file) == [f"line 4: {reason}"]


HEADERS: dict[str, tuple[object, str]] = {
    "a row": (FILM, r"'paraphrases' of the header must be 1, .*, but it is \[\['A movie"),
    "another version": ({**HEADER, "paraphrases": 2}, "must be 1, .*, but it is 2"),
    "a truth value": ({**HEADER, "paraphrases": True}, "must be 1, .*, but it is True"),
    "no source": ({"paraphrases": 1}, "'source' of the header must say .*, but it is None"),
    "an empty source": ({**HEADER, "source": " "}, "'source' of the header must say"),
    "a number as a note": ({**HEADER, "note": 1}, "'note' of the header must be text, but it is 1"),
    "half a character in the source": (
        {**HEADER, "source": "\ud83d"},
        r"must say where the paraphrases come from, but it is '\\ud83d'",
    ),
    "half a character in the note": (
        {**HEADER, "note": "\ud83d"},
        r"'note' of the header must be text, but it is '\\ud83d'",
    ),
    "a text as temperature": (
        {**HEADER, "temperature": "0.7"},
        "'temperature' of the header must be a number or null, but it is '0.7'",
    ),
    "no JSON": ("paraphrases", "line 1: the line must be JSON"),
}


@pytest.mark.parametrize(("header", "message"), HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_cannot_be_is_refused(file: Path, header: object, message: str) -> None:
    write(file, header, FILM)
    with pytest.raises(SclsearchError, match=message):
        paraphrase_source(file)


def test_all_faults_are_told_in_one_go(file: Path) -> None:
    write(file, {"note": None}, {"txt": ["A film."]}, FILM, {**PAIR, "paraphrases": [["c"], [1]]})
    assert [fault.partition(",")[0] for fault in field_errors(file)] == [
        "line 1: 'paraphrases' of the header must be 1",
        "line 1: 'source' of the header must say where the paraphrases come from",
        "line 1: 'note' of the header must be text",
        "line 2: 'text' must be there",
        "line 2: 'paraphrases' must be there",
        "line 2: unknown key 'txt'. Did you mean 'text'? Known: paraphrases",
        "line 4: paraphrase 1 must have as many texts as 'text'",
        "line 4: paraphrase 2 must be a list of texts",
    ]


def test_of_many_faults_twenty_are_shown(file: Path) -> None:
    write(file, HEADER, *["[]"] * 30)
    faults = field_errors(file)
    assert [fault.partition(":")[0] for fault in faults[:-1]] == [f"line {n}" for n in range(2, 22)]
    assert faults[-1] == "30 faults in all, the first 20 shown."


def test_a_missing_file_and_an_empty_one_are_refused(file: Path) -> None:
    assert field_errors(file)[0].startswith("a readable file must be there, but")
    write(file, "")
    assert field_errors(file) == ["a header must be there, but the file is empty."]
