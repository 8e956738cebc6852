"""Reviews and articles come without the marks of their files, and large files need little room."""

import csv
import shutil
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks import load_task
from sclsearch.tasks.zhang import plain


def copy(source: Path, folder: Path, **files: str) -> None:
    folder.mkdir()
    for name, there in files.items():
        shutil.copy(source / there, folder / f"{name}.csv")


def test_real_reviews_are_read_without_backslashes(glue: Path, tmp_path: Path) -> None:
    folder = tmp_path / "yelp_review_polarity_csv"
    copy(glue.parent / "yelp_polarity", folder, train="train.csv", test="dev.csv")
    splits = load_task("yelp2", tmp_path).splits
    assert [np.bincount(rows.y).tolist() for rows in splits.values()] == [[80, 80], [80, 80]]
    texts = [text for rows in splits.values() for (text,) in rows.texts]
    assert not any("\\" in text for text in texts)
    assert sum("\n" in text for text in texts) == 95
    assert sum(text.count('"') for text in texts) == 28


def test_real_articles_are_read_with_the_classes_of_their_list(glue: Path, tmp_path: Path) -> None:
    real = glue.parent / "dbpedia_14"
    copy(real, tmp_path / "dbpedia_csv", train="train.csv", test="dev.csv")
    loaded = load_task("dbpedia", tmp_path)
    assert list(loaded.task.labels) == (real / "classes.txt").read_text().split()
    for rows in loaded.splits.values():
        assert np.bincount(rows.y).tolist() == [79] * 14
    assert loaded.splits["train"].texts[0][0].startswith("Transweb Educational Services founded")


@pytest.mark.parametrize("written", [r"He said \"yes\".\n\nFine. ", r'He said \""yes\"".\n\nFine.'])
def test_line_ends_and_quotes_are_what_they_stand_for_in_files_and_on_the_hub(written: str) -> None:
    assert plain(written) == 'He said "yes".\n\nFine.'


def test_a_title_and_its_text_become_one_and_either_may_be_empty(tmp_path: Path) -> None:
    folder = tmp_path / "amazon_review_polarity_csv"
    folder.mkdir()
    (folder / "train.csv").write_text(
        '"2","Great CD "," My ""lovely"" Pat\\nsings"\n"1","","Poor"\n"1","Poor",""\n"2","",""\n'
    )
    (folder / "test.csv").write_text('"1","Bad","Very, very"\n')
    splits = load_task("amazon2", tmp_path).splits
    assert splits["train"].texts == (
        ('Great CD My "lovely" Pat\nsings',),
        ("Poor",),
        ("Poor",),
        ("",),
    )
    assert splits["train"].y.tolist() == [1, 0, 0, 1]
    assert splits["test"].texts == (("Bad Very, very",),)


def test_an_article_keeps_what_looks_like_a_mark_of_reviews(tmp_path: Path) -> None:
    folder = tmp_path / "dbpedia_csv"
    folder.mkdir()
    for name in ("train.csv", "test.csv"):
        (folder / name).write_text('14,"TeX"," \\newline is a command."\n')
    assert load_task("dbpedia", tmp_path).splits["test"].texts == (
        ("TeX \\newline is a command.",),
    )


def test_rows_of_another_layout_are_told_with_their_lines(tmp_path: Path) -> None:
    folder = tmp_path / "amazon_review_polarity_csv"
    folder.mkdir()
    for name in ("train.csv", "test.csv"):
        (folder / name).write_text('"2","Fine","Yes"\n"1","no title"\n"0","Fine","Yes"\n')
    with pytest.raises(SclsearchError) as raised:
        load_task("amazon2", tmp_path)
    assert str(raised.value).splitlines() == [
        f"{folder / 'train.csv'}: line 2: 3 columns must be there, but there are 2",
        f"{folder / 'train.csv'}: line 3: the label must be one of 1, 2, but it is '0'",
    ]


def test_reading_takes_little_more_room_than_the_texts(tmp_path: Path) -> None:
    folder = tmp_path / "amazon_review_polarity_csv"
    folder.mkdir()
    for name, rows in (("train.csv", 10_000), ("test.csv", 2)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            review = "a “quoted” word and some more of them " * 10
            csv.writer(file).writerows((1 + n % 2, f"title {n}", review) for n in range(rows))
    tracemalloc.start()
    loaded = load_task("amazon2", tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    texts = sum(sys.getsizeof(text) for (text,) in loaded.splits["train"].texts)
    assert peak < 1.6 * texts
