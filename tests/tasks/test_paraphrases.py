"""Paraphrases come from a file that is checked to the last line, or from EDA, which says so."""

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
from tests.tasks.paraphrase_files import FILM, HEADER, PAIR, write

# Another one means that stored seed runs of files with two paraphrases a text are left behind.
TWO_OF_A_FILM = "36c89b1d5cb35e55b473fa2fec9317c45d87d17711c12645fc24a2578ada1a06"
VIEWS: dict[Texts, tuple[Texts, Texts]] = {
    ("A film.",): (("A movie.",), ("Film.",)),
    ("a", "b"): (("c", "d"), ("e", "f")),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paraphrases.jsonl"


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


def test_a_text_that_is_empty_in_a_pair_may_stay_empty(file: Path) -> None:
    row = {"text": ["", "b"], "paraphrases": [["", "c"], ["", "d"]]}
    write(file, HEADER, row)
    assert paraphrase_source(file).views([("", "b")]) == {("", "b"): (("", "c"), ("", "d"))}


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
