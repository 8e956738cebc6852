"""Tests of tasks from data frames and data sets in memory."""

from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tasks.custom import CustomTask, load_custom_task

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


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"text": "text", "label": "label", "name": "reviews", "folder": tmp_path / "data"}


def as_dataset(rows: list[dict[str, Any]]) -> datasets.Dataset:
    """Return rows as a data set with class numbers as labels: `n` is 0, `y` is 1."""
    numbered = [{"text": row["text"], "label": "ny".index(row["label"])} for row in rows]
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["n", "y"])}
    return datasets.Dataset.from_list(numbered, features=datasets.Features(features))


def test_data_in_memory_is_the_task_of_its_file(options: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    FRAME[["text", "label"]].to_csv(file, index=False)
    expected = load_custom_task(CustomTask(file, "text", "label"))
    for data in (FRAME, as_dataset(ROWS)):
        loaded = load_custom_task(CustomTask.from_data(data, **options))
        assert loaded.digest == expected.digest
        assert loaded.task.name == "reviews"
        assert loaded.task.labels == ("n", "y")


def test_equal_data_share_a_file_and_different_data_do_not(
    options: dict[str, Any], tmp_path: Path
) -> None:
    first = CustomTask.from_data(FRAME, **options)
    assert CustomTask.from_data(FRAME.assign(id=7), **options) == first
    other = CustomTask.from_data(FRAME[::-1], **options)
    assert other.path != first.path
    assert {*(tmp_path / "data").rglob("*.parquet")} == {first.path, other.path}


def test_validation_and_test_rows_stay_separate(options: dict[str, Any]) -> None:
    loaded = load_custom_task(
        CustomTask.from_data(FRAME[:20], validation=FRAME[20:30], test=FRAME[30:], **options)
    )
    assert {name: len(split) for name, split in loaded.splits.items()} == {
        "train": 20,
        "validation": 10,
        "test": 10,
    }


def test_a_column_sets_the_splits(options: dict[str, Any]) -> None:
    frame = FRAME.assign(part=["train", "train", "dev", "test"] * 10)
    loaded = load_custom_task(CustomTask.from_data(frame, split_column="part", **options))
    assert len(loaded.splits["validation"]) == len(loaded.splits["test"]) == 10


@pytest.mark.parametrize(("first", "labels"), [(0.0, ("0", "1")), (0.5, ("0.0", "0.5", "1.0"))])
def test_whole_numbers_with_empty_cells_stay_whole(
    options: dict[str, Any], first: float, labels: tuple[str, ...]
) -> None:
    frame = FRAME.assign(label=[first, float("nan"), *(n % 2 for n in range(38))])
    loaded = load_custom_task(CustomTask.from_data(frame, fractions=(1.0, 0.0, 0.0), **options))
    assert loaded.task.labels == labels
    assert loaded.splits["train"].unlabeled == 1


def test_class_number_minus_one_means_no_label(options: dict[str, Any]) -> None:
    first = datasets.Dataset.from_list(
        [{"text": f"without {number}", "label": -1} for number in range(4)],
        features=as_dataset(ROWS).features,
    )
    unlabeled = datasets.concatenate_datasets([first, as_dataset(ROWS)])
    loaded = load_custom_task(CustomTask.from_data(unlabeled, fractions=(1.0, 0.0, 0.0), **options))
    assert loaded.splits["train"].unlabeled == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "txet"}, r"^reviews: no column is called 'txet'\. Did you mean 'text'"),
        ({"text": "odd"}, r"^reviews: .*Give each column values of one type\.$"),
        ({"text": None}, r"^reviews: a column's name must be text, got None\. "),
        ({"label": 5}, r"^reviews: a column's name must be text, got 5\. "),
        ({"data": FRAME["text"]}, r"^reviews: must be a pandas .*, got Series\. Convert"),
        ({"data": {"text": ["a"]}}, r"^reviews: .*, got dict\. "),
        ({"data": None}, r"^reviews: .*, got NoneType\. "),
        ({"data": FRAME.to_numpy()}, r"^reviews: .*, got ndarray\. "),
        ({"data": datasets.DatasetDict()}, r"^reviews: .*, got DatasetDict\. "),
        *(
            ({"name": name}, r"^name: must be a file name .*, got .*\. Pass a short name\.$")
            for name in ("a/b", "", "..", "a\0b", "a\nb", "a" * 300, "詞" * 90, None)
        ),
    ],
)
def test_invalid_data_columns_or_names_are_refused_before_writing(
    options: dict[str, Any], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError, match=message):
        CustomTask.from_data(**{"data": FRAME, **options, **changes})
    assert not (tmp_path / "data").exists()
