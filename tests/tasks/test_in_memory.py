"""Tests of tasks from data frames and data sets in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks.custom import CustomTask
from sclsearch.tasks.own_rows import load_custom_task

ROWS = [
    {
        "id": number,
        "text": f"row {number}",
        "label": "ny"[number % 2],
        "odd": [number, "x"][number % 2],
    }
    for number in range(40)
]
FRAME = pd.DataFrame(ROWS, index=range(100, 140))


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def task(data: Any = FRAME, **options: Any) -> CustomTask:
    return CustomTask(data, **{"text": "text", "label": "label", "name": "reviews", **options})


def as_dataset(rows: list[dict[str, Any]]) -> datasets.Dataset:
    """Return rows as a data set with class numbers as labels: `n` is 0, `y` is 1."""
    numbered = [{"text": row["text"], "label": "ny".index(row["label"])} for row in rows]
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["n", "y"])}
    return datasets.Dataset.from_list(numbered, features=datasets.Features(features))


def test_data_in_memory_is_the_task_of_its_file() -> None:
    FRAME[["text", "label"]].to_csv("reviews.csv", index=False)
    expected = load_custom_task(CustomTask(Path("reviews.csv")))
    for data in (FRAME, as_dataset(ROWS), datasets.DatasetDict({"train": as_dataset(ROWS)})):
        loaded = load_custom_task(task(data, text=None, label=None))
        assert loaded.digest == expected.digest
        assert loaded.task.name == "reviews"
        assert loaded.task.labels == ("n", "y")
        assert loaded.splits["test"].ids == expected.splits["test"].ids


def test_equal_data_share_a_file_and_different_data_do_not(tmp_path: Path) -> None:
    first = task()
    assert task(FRAME.assign(id=7)) == first
    other = task(FRAME[::-1])
    assert other.path != first.path
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet")}
    assert files == {first.path, other.path}
    assert replace(first, metric="f1").path == first.path


def test_validation_and_test_rows_stay_separate() -> None:
    splits = {"train": FRAME[:20], "dev": FRAME[20:30], "test": FRAME[30:]}
    files = task(splits["train"], validation=splits["dev"], test=splits["test"])
    for found in (files, task(splits)):
        sizes = {name: len(split) for name, split in load_custom_task(found).splits.items()}
        assert sizes == {"train": 20, "validation": 10, "test": 10}
    assert files == task(splits)


def test_a_column_sets_the_splits_and_another_identifies_the_rows() -> None:
    frame = FRAME.assign(part=["train", "train", "dev", "test"] * 10)
    loaded = load_custom_task(task(frame, split_column="part", id="id"))
    assert len(loaded.splits["validation"]) == len(loaded.splits["test"]) == 10
    assert loaded.splits["test"].ids[:2] == ("3", "7")


@pytest.mark.parametrize(("first", "labels"), [(0.0, ("0", "1")), (0.5, ("0", "0.5", "1"))])
def test_whole_numbers_with_empty_cells_stay_whole(first: float, labels: tuple[str, ...]) -> None:
    frame = FRAME.assign(label=[first, float("nan"), *(n % 2 for n in range(38))])
    loaded = load_custom_task(task(frame, fractions=(1.0, 0.0, 0.0)))
    assert loaded.task.labels == labels
    assert loaded.splits["train"].unlabeled == 1


def test_class_number_minus_one_means_no_label() -> None:
    first = datasets.Dataset.from_list(
        [{"text": f"without {number}", "label": -1} for number in range(4)],
        features=as_dataset(ROWS).features,
    )
    unlabeled = datasets.concatenate_datasets([first, as_dataset(ROWS)])
    loaded = load_custom_task(task(unlabeled, fractions=(1.0, 0.0, 0.0)))
    assert loaded.splits["train"].unlabeled == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "txet"}, r"^reviews: no column is called 'txet'\. Did you mean 'text'"),
        ({"label": 5}, r"^--label: must be text, got 5\."),
        ({"data": FRAME["text"]}, r"^--task: must be a file, .*, got Series\. Convert"),
        ({"data": {"text": ["a"]}}, r"^--task: must have a split train, got text\."),
        ({"data": FRAME.to_numpy()}, r"^--task: .*, got ndarray\. "),
        ({"validation": 3}, r"^--validation: .*, got int\. "),
        *(
            ({"name": name}, r"^name: must be a file name .*, got .*\. Pass a short name\.$")
            for name in ("a/b", "", "..", "a\0b", "a\nb", "a" * 300, "詞" * 90, 5)
        ),
    ],
)
def test_invalid_data_columns_or_names_are_refused_before_writing(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError, match=message):
        task(**changes)
    assert not list(tmp_path.rglob("*"))
