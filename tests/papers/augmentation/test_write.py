"""A file that was interrupted anywhere ends as an undisturbed one, and is what training reads."""

import json
import os
import re
import resource
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation.base import Options
from sclsearch.papers.augmentation.eda import EDA
from sclsearch.papers.augmentation.texts import find_drawn
from sclsearch.papers.augmentation.write import Written, header, write
from sclsearch.tasks import load_task
from sclsearch.tasks.base import Texts
from sclsearch.tasks.paraphrases import paraphrase_source

FIRST = {"paraphrases": 1, "source": "numbers", "temperature": 0.7, "date": "2024-05-01"}
ROWS: tuple[Texts, ...] = (("one",), ("a", "longer pair"), ("three\u2028é",), ("four",), ("a", ""))


@dataclass
class Numbering:
    """Paraphrases a text by its place among those that it is given with."""

    at_once: int = 2
    english: bool = False
    given: list[Sequence[str]] = field(default_factory=list)
    stop_after: int = 99

    def header(self) -> dict[str, Any]:
        return {"source": "numbers"}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if len(self.given) == self.stop_after:
            raise KeyboardInterrupt
        self.given.append(texts)
        return [(f"{text} {place}/{len(texts)}", "") for place, text in enumerate(texts)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new" / "paraphrases.jsonl"


def written(file: Path, backend: Numbering | None = None, first: Any = None) -> Written:
    return write(file, first or FIRST, ROWS, backend or Numbering(), lambda _: None)


def test_training_reads_what_is_written(file: Path) -> None:
    demo = load_task("demo")
    backend, drawn = EDA(Options()), find_drawn("demo", None, 5, None, 2)
    texts = drawn.texts(demo)
    write(file, header("eda", 2, backend, drawn, demo, texts), texts, backend, lambda _: None)
    assert paraphrase_source(file).views(texts) == paraphrase_source(None).views(texts)


def test_the_header_says_what_was_done_with_what(file: Path) -> None:
    demo = load_task("demo")
    drawn = find_drawn("demo", None, 5, None, 2)
    found = header("eda", 2, EDA(Options()), drawn, demo, drawn.texts(demo))
    assert found["paraphrases"] == 1
    assert (found["backend"], found["views"], found["data"]) == ("eda", 2, demo.digest)
    assert (found["task"], found["size"], found["replicates"]) == ("demo", "5", 2)
    assert found["texts"]["count"] == len(drawn.texts(demo))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert found["sclsearch"]


def test_the_longest_rows_come_first_and_texts_of_a_pair_by_themselves(file: Path) -> None:
    backend = Numbering()
    written(file, backend)
    assert backend.given == [["a", "longer pair", "three\u2028é"], ["four", "one"], ["a"]]
    assert paraphrase_source(file).rows == {
        ("a", "longer pair"): (("a 0/3", "longer pair 1/3"), ("a", "longer pair")),
        ("three\u2028é",): (("three\u2028é 2/3",), ("three\u2028é",)),
        ("four",): (("four 0/2",), ("four",)),
        ("one",): (("one 1/2",), ("one",)),
        ("a", ""): (("a 0/1", ""), ("a", "")),
    }


def test_a_paraphrase_that_was_not_found_is_the_text_and_counted(file: Path) -> None:
    assert written(file) == Written(texts=5, earlier=0, paraphrases=12, same=6, empty=6, equal=0)


def test_texts_whose_first_two_paraphrases_are_equal_are_counted(file: Path) -> None:
    rows = (("One",), ("Two words",))
    found = write(file, FIRST, rows, EDA(Options()), lambda _: None)
    assert found == Written(texts=2, earlier=0, paraphrases=4, same=2, empty=0, equal=1)


@pytest.mark.slow
def test_a_file_cut_off_anywhere_is_completed_to_the_same_bytes(file: Path) -> None:
    written(file)
    whole = file.read_bytes()
    begin = whole.index(b"\n") + 1
    for end in range(begin, len(whole)):
        file.write_bytes(whole[:end])
        done = written(file)
        assert (done.texts, done.earlier) == (5, whole[begin:end].count(b"\n"))
        assert file.read_bytes() == whole


def test_a_stopped_command_goes_on_with_the_next_block(file: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        written(file, Numbering(stop_after=1))
    backend = Numbering()
    assert written(file, backend).earlier == 2
    assert backend.given == [["four", "one"], ["a"]]


def test_a_complete_file_is_left_as_it_is(file: Path) -> None:
    written(file)
    whole, backend, told = file.read_bytes(), Numbering(stop_after=0), list[int]()
    done = write(file, {**FIRST, "date": "2031-01-01"}, ROWS, backend, told.append)
    assert done == Written(texts=5, earlier=5, paraphrases=0, same=0, empty=0, equal=0)
    assert (file.read_bytes(), told) == (whole, [5])


def test_progress_is_told_block_by_block(file: Path) -> None:
    told: list[int] = []
    write(file, FIRST, ROWS, Numbering(), told.append)
    assert told == [0, 2, 4, 5]


def test_another_header_is_refused_with_every_difference(file: Path) -> None:
    written(file)
    whole = file.read_bytes()
    with pytest.raises(SclsearchError) as raised:
        written(file, first={"paraphrases": 1, "source": "words", "temperature": 0.7, "seed": 1})
    assert str(raised.value) == (
        f"--out {file}: it must have been begun with the same options, but source is 'numbers' "
        "there and 'words' here; seed is None there and 1 here. Give those of the file, or name "
        "another with --out."
    )
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    [b"", b"my notes", b"my notes\nand more", b"[1]\n", b"\xff\n", b'{"paraphrases": 1', b"{}\n"],
    ids=repr,
)
def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes"
    file.write_bytes(content)
    with pytest.raises(SclsearchError, match=r"first line is no header of paraphrases\."):
        written(file)
    assert file.read_bytes() == content


def test_a_faulty_row_is_named_with_its_line(file: Path) -> None:
    written(file)
    with file.open("a") as faulty:
        faulty.write(json.dumps({"text": "one"}) + "\n")
    with pytest.raises(SclsearchError, match="line 7: 'paraphrases' must be there"):
        written(file)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SclsearchError, match="must be a file that can be written, but"):
        written(tmp_path / "file" / "paraphrases.jsonl")


def test_a_file_that_may_only_be_read_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(file)

    def refuse(path: Path, _size: int) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "truncate", refuse)
    with pytest.raises(SclsearchError, match=rf"^--out {file}: .* but: .*Permission denied.*name"):
        written(file)


def test_a_full_disk_is_told_and_with_room_the_same_command_goes_on(file: Path) -> None:
    whole = file.with_name("whole.jsonl")
    written(whole)
    room = whole.stat().st_size - 50
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(SclsearchError, match=r"--out .* but: .*the same command goes on\."):
            written(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.stat().st_size == room
    assert written(file).earlier == 4
    assert file.read_bytes() == whole.read_bytes()
