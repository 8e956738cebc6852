"""What is said of files of one's own fits together, and is told on as options of a command."""

from dataclasses import replace
from pathlib import Path

import pytest
from sclsearch.tasks.custom_options import as_options

from sclsearch.tasks.custom import CustomTask, load_custom_task

OWN = CustomTask(Path("my train.csv"), "text", "label")


def test_what_is_left_out_stays_left_out() -> None:
    assert list(as_options(OWN)) == ["--task", "my train.csv", "--text", "text", "--label", "label"]


def test_a_path_may_begin_with_a_users_folder() -> None:
    files = CustomTask("~/rows.csv", "text", "label", test="~/test.csv")  # type: ignore[arg-type]
    assert (files.path, files.test) == (Path.home() / "rows.csv", Path.home() / "test.csv")


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


@pytest.mark.parametrize(
    ("apart", "fractions"), [("test", (0.75, 0.25, 0.0)), ("validation", (0.75, 0.0, 0.25))]
)
def test_fractions_draw_the_split_that_has_no_file(
    tmp_path: Path, apart: str, fractions: tuple[float, float, float]
) -> None:
    for name in ("train", apart):
        rows = [f"{name} {number},{number % 2}" for number in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]))
    other = tmp_path / f"{apart}.csv"
    files = CustomTask(tmp_path / "train.csv", "text", "label", fractions=fractions)
    data = load_custom_task(replace(files, **{apart: other}))  # type: ignore[arg-type]
    drawn = next(name for name in ("validation", "test") if name != apart)
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 30, drawn: 10, apart: 40}
    assert all(texts[0].startswith(apart) for texts in data.splits[apart].texts)
    assert data.source == (
        f"{files.path}, drawn 0.75/0.25 into train/{drawn}, every class in its share, "
        f"{other} ({apart})"
    )
