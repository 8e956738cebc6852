"""Tests of paraphrase files: their texts, format, resumption and errors."""

import resource
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation import EDA, Options
from sclsearch.papers.augmentation.write import Written, select_texts, write
from sclsearch.tasks import TASKS, load_task
from sclsearch.tasks.base import Split, TaskData, Texts
from sclsearch.tasks.paraphrases import paraphrase_source

FIRST = {"paraphrases": 1, "source": "numbers", "temperature": 0.7, "date": "2024-05-01"}
ROWS: tuple[Texts, ...] = (("one",), ("a", "longer pair"), ("three\u2028é",), ("four",), ("a", ""))


@dataclass
class Numbering:
    """Back-end that numbers the texts of each call."""

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


def test_long_rows_come_first_and_the_texts_of_a_pair_are_separate(file: Path) -> None:
    backend, progress = Numbering(), list[int]()
    done = write(file, FIRST, ROWS, backend, progress.append)
    assert done == Written(texts=5, earlier=0, paraphrases=12, same=6, empty=6, equal=0)
    assert progress == [0, 2, 4, 5]
    assert backend.given == [["a", "longer pair", "three\u2028é"], ["four", "one"], ["a"]]
    # An empty paraphrase is replaced by the text.
    assert paraphrase_source(file).rows == {
        ("a", "longer pair"): (("a 0/3", "longer pair 1/3"), ("a", "longer pair")),
        ("three\u2028é",): (("three\u2028é 2/3",), ("three\u2028é",)),
        ("four",): (("four 0/2",), ("four",)),
        ("one",): (("one 1/2",), ("one",)),
        ("a", ""): (("a 0/1", ""), ("a", "")),
    }
    again = write(file.with_name("eda"), FIRST, (("One",), ("Two words",)), EDA(Options()), print)
    assert again == Written(texts=2, earlier=0, paraphrases=4, same=2, empty=0, equal=1)


@pytest.mark.slow
def test_a_file_cut_off_anywhere_is_completed_to_the_same_bytes(file: Path) -> None:
    written(file)
    whole = file.read_bytes()
    begin = whole.index(b"\n") + 1
    for end in range(begin, len(whole) + 1):
        file.write_bytes(whole[:end])
        done = written(file, first={**FIRST, "date": "2031-01-01"})
        assert (done.texts, done.earlier) == (5, whole[begin:end].count(b"\n"))
        assert file.read_bytes() == whole


def test_another_header_is_an_error_with_all_differences(file: Path) -> None:
    written(file)
    whole = file.read_bytes()
    differences = "source is 'numbers' there and 'words' here; seed is None there and 1 here"
    with pytest.raises(SclsearchError, match=f"^--out {file}: .*: {differences}"):
        written(file, first={**FIRST, "source": "words", "seed": 1})
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
        with pytest.raises(SclsearchError, match=rf"^--out {file}: cannot be written"):
            written(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.stat().st_size == room
    assert written(file).earlier == 4
    assert file.read_bytes() == whole.read_bytes()


def test_without_a_size_all_training_texts_but_blank_ones_are_selected() -> None:
    demo, selection = load_task("demo"), select_texts("demo")
    assert selection.texts(demo) == tuple(dict.fromkeys(demo.splits["train"].texts))
    with pytest.raises(SclsearchError, match=r"^--replicates: does not apply"):
        select_texts("demo", replicates=3)
    rows: tuple[Texts, ...] = (("a", ""), ("", " "), ("b", "c"), ("a", ""))
    data = TaskData(TASKS["qqp"], {"train": Split(rows, np.zeros(4, np.int64))}, "here")
    assert select_texts("qqp").texts(data) == (("a", ""), ("b", "c"))
