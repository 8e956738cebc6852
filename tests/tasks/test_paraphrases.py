"""Paraphrases come from a file that is checked to the last line, or from EDA, which says so."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError
from sclsearch.tasks.base import Texts
from sclsearch.tasks.eda import VERSION, eda
from sclsearch.tasks.paraphrases import paraphrase_source

HEADER: dict[str, object] = {"paraphrases": 1, "source": "en-de-en and en-zh-en, opus-mt"}
FILM: dict[str, object] = {"text": ["A film."], "paraphrases": [["A movie."], ["Film."], ["…"]]}
PAIR: dict[str, object] = {"text": ["a", "b"], "paraphrases": [["c", "d"], ["e", "f"]]}
# Another one means that stored seed runs of files with two paraphrases a text are left behind.
TWO_OF_A_FILM = "36c89b1d5cb35e55b473fa2fec9317c45d87d17711c12645fc24a2578ada1a06"
VIEWS: dict[Texts, tuple[Texts, Texts]] = {
    ("A film.",): (("A movie.",), ("Film.",)),
    ("a", "b"): (("c", "d"), ("e", "f")),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paraphrases.jsonl"


def write(file: Path, *lines: object) -> None:
    told = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("".join(f"{line}\n" for line in told))


def faults_of(file: Path) -> list[str]:
    with pytest.raises(SclsearchError) as raised:
        paraphrase_source(file)
    return [line.removeprefix(f"{file}: ") for line in str(raised.value).splitlines()]


def test_a_file_gives_the_first_two_paraphrases_of_each_text(file: Path) -> None:
    write(file, HEADER, FILM, PAIR)
    source = paraphrase_source(file)
    assert (source.name, source.note) == (HEADER["source"], "")
    assert source.path == file
    assert source.views(VIEWS) == VIEWS


def test_the_digest_is_of_the_paraphrases_of_the_texts_alone(file: Path) -> None:
    write(file, HEADER, FILM, PAIR)
    film, both = [("A film.",)], [("A film.",), ("a", "b")]
    one, two = (paraphrase_source(file).digest_of(texts) for texts in (film, both))
    other = {"text": ["further"], "paraphrases": [["one"], ["two"]]}
    write(file, {**HEADER, "date": "2026-01-02", "note": "later"}, PAIR, FILM, other)
    assert paraphrase_source(file).digest_of([*reversed(both), *both]) == two != one
    write(file, HEADER, FILM, {**PAIR, "paraphrases": [["c", "d"], ["e", "g"]]})
    assert paraphrase_source(file).digest_of(film) == one
    assert paraphrase_source(file).digest_of(both) != two


def test_paraphrases_that_are_texts_too_have_theirs_in_the_digest(file: Path) -> None:
    movie = {"text": ["A movie."], "paraphrases": [["One."], ["Two."]]}
    write(file, HEADER, FILM, movie)
    before = [paraphrase_source(file).digest_of([("A film.",)], joined) for joined in (0, 1)]
    write(file, HEADER, FILM, {**movie, "paraphrases": [["One."], ["Three."]]})
    after = [paraphrase_source(file).digest_of([("A film.",)], joined) for joined in (0, 1)]
    assert before[0] == after[0]
    assert len({*before, *after}) == 3


def test_as_many_are_taken_as_are_read_and_further_ones_change_no_digest(file: Path) -> None:
    write(file, HEADER, FILM)
    film = [("A film.",)]
    two, three = paraphrase_source(file), paraphrase_source(file, 3)
    assert three.views(film) == {("A film.",): (("A movie.",), ("Film.",), ("…",))}
    write(file, HEADER, {**FILM, "paraphrases": [["A movie."], ["Film."]]})
    digest_of_two = two.digest_of(film)
    assert paraphrase_source(file).digest_of(film) == digest_of_two == TWO_OF_A_FILM
    assert paraphrase_source(file, 3).digest_of(film) == digest_of_two != three.digest_of(film)
    with pytest.raises(SclsearchError, match="every text must have 3 paraphrases, but 1 of 1 have"):
        paraphrase_source(file, 3).views(film)


def test_a_header_may_say_a_temperature(file: Path) -> None:
    for told, temperature in (({}, None), ({"temperature": None}, None), ({"temperature": 1}, 1)):
        write(file, {**HEADER, **told}, FILM)
        assert paraphrase_source(file).temperature == temperature
    assert paraphrase_source(None).temperature is None


def test_order_blank_lines_and_further_rows_do_not_matter(file: Path) -> None:
    other = {"text": ["further"], "paraphrases": [["one"], ["two"]]}
    write(file, "", HEADER, " ", PAIR, other, FILM, PAIR, "\r")
    assert paraphrase_source(file).views([("A film.",), ("a", "b"), ("A film.",)]) == VIEWS


def test_a_header_may_say_more_and_its_note_is_passed_on(file: Path) -> None:
    write(file, {**HEADER, "temperature": 0.9, "note": "machine translated"}, FILM)
    assert paraphrase_source(file).note == "machine translated"


def test_a_source_goes_to_a_worker_and_back(file: Path) -> None:
    write(file, HEADER, FILM, PAIR)
    sent = pickle.loads(pickle.dumps(paraphrase_source(file)))
    assert sent == paraphrase_source(file)
    assert sent.views(VIEWS) == VIEWS


def test_texts_that_the_file_lacks_are_counted_and_the_first_is_shown(file: Path) -> None:
    write(file, HEADER, FILM)
    texts = [("A film.",), ("A film. ",), ("other",), ("A film. ",)]
    with pytest.raises(
        SclsearchError, match=r"2 of 3 have fewer, the first \['A film. '\]"
    ) as told:
        paraphrase_source(file).views(texts)
    assert str(told.value).startswith(f"{file}: every text must have 2 paraphrases, but ")


def test_a_text_that_is_empty_in_a_pair_may_stay_empty(file: Path) -> None:
    row = {"text": ["", "b"], "paraphrases": [["", "c"], ["", "d"]]}
    write(file, HEADER, row)
    assert paraphrase_source(file).views([("", "b")]) == {("", "b"): (("", "c"), ("", "d"))}


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
    assert faults_of(file) == [f"line 4: {reason}"]


HEADERS: dict[str, tuple[object, str]] = {
    "a row": (FILM, r"'paraphrases' of the header must be 1, .*, but it is \[\['A movie"),
    "another version": ({**HEADER, "paraphrases": 2}, "must be 1, .*, but it is 2"),
    "a truth value": ({**HEADER, "paraphrases": True}, "must be 1, .*, but it is True"),
    "no source": ({"paraphrases": 1}, "'source' of the header must say .*, but it is None"),
    "an empty source": ({**HEADER, "source": " "}, "'source' of the header must say"),
    "a number as a note": ({**HEADER, "note": 1}, "'note' of the header must be text, but it is 1"),
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
    assert [fault.partition(",")[0] for fault in faults_of(file)] == [
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
    faults = faults_of(file)
    assert [fault.partition(":")[0] for fault in faults[:-1]] == [f"line {n}" for n in range(2, 22)]
    assert faults[-1] == "30 faults in all, the first 20 shown."


def test_a_missing_file_and_an_empty_one_are_refused(file: Path) -> None:
    assert faults_of(file)[0].startswith("a readable file must be there, but")
    write(file, "")
    assert faults_of(file) == ["a header must be there, but the file is empty."]


def test_without_a_file_eda_makes_the_paraphrases_and_says_so() -> None:
    source = paraphrase_source(None)
    assert (source.name, source.path) == ("EDA", None)
    assert source.digest_of([]) == source.digest_of(VIEWS) == digest(["eda", VERSION])
    assert source.note == "paraphrases: EDA (random swap and deletion), not back-translation"
    assert source == paraphrase_source(None)


def test_eda_treats_each_text_of_a_pair_by_itself() -> None:
    left, right = "one two three four", "five six seven eight"
    views = paraphrase_source(None).views([(left, right), (left,)])
    assert views == {
        (left, right): ((eda(left)[0], eda(right)[0]), (eda(left)[1], eda(right)[1])),
        (left,): ((eda(left)[0],), (eda(left)[1],)),
    }


def test_reading_paraphrases_needs_no_torch() -> None:
    code = "import sys, sclsearch.tasks.paraphrases; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
