"""What is said of files of one's own is told on as the options of a command."""

from dataclasses import replace
from pathlib import Path

from sclsearch.tasks.own import OwnFiles
from sclsearch.tasks.own_options import as_options

OWN = OwnFiles(Path("my train.csv"), "text", "label")


def test_what_is_left_out_stays_left_out() -> None:
    assert list(as_options(OWN)) == ["--task", "my train.csv", "--text", "text", "--label", "label"]


def test_everything_that_is_said_is_told_on() -> None:
    pairs = replace(OWN, text=("a", "b"), metric="spearman", regression=True)
    files = replace(pairs, validation=Path("dev.csv"), test=Path("test.csv"))
    assert list(as_options(files)) == [
        *("--task", "my train.csv", "--text", "a", "--text", "b", "--label", "label"),
        *("--validation", "dev.csv", "--test", "test.csv", "--metric", "spearman", "--regression"),
    ]
    by_column = list(as_options(replace(OWN, split_column="part")))
    assert by_column[-2:] == ["--split-column", "part"]
    drawn = list(as_options(replace(OWN, fractions=(0.5, 0.25, 0.25))))
    assert drawn[-2:] == ["--fractions", "0.5,0.25,0.25"]
