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

ROWS = [{"id": n, "text": f"row {n}", "label": "ny"[n % 2]} for n in range(40)]
FRAME = pd.DataFrame(ROWS, index=range(100, 140))
WHOLE = (1.0, 0.0, 0.0)


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def task(data: Any = FRAME, **options: Any) -> CustomTask:
    return CustomTask(data, **{"text": "text", "label": "label", "name": "reviews", **options})


def as_dataset(unlabeled: int = 0) -> datasets.Dataset:
    """Return the rows as a data set with class numbers: -1 for some rows, 0 for n, 1 for y."""
    rows = [{"text": f"without {n}", "label": -1} for n in range(unlabeled)]
    rows += [{"text": row["text"], "label": "ny".index(str(row["label"]))} for row in ROWS]
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["n", "y"])}
    return datasets.Dataset.from_list(rows, features=datasets.Features(features))


def test_data_in_memory_is_the_task_of_its_file() -> None:
    FRAME[["text", "label"]].to_csv("reviews.csv", index=False)
    expected = load_custom_task(CustomTask(Path("reviews.csv")))
    for data in (FRAME, as_dataset(), datasets.DatasetDict({"train": as_dataset()})):
        loaded = load_custom_task(task(data, text=None, label=None))
        assert loaded.digest == expected.digest
        assert (loaded.task.name, loaded.task.labels) == ("reviews", ("n", "y"))
        assert loaded.splits["test"].ids == expected.splits["test"].ids


def test_equal_data_share_a_file_and_different_data_do_not(tmp_path: Path) -> None:
    first = task()
    assert task(FRAME.assign(id=7)) == first
    other = task(FRAME[::-1])
    assert other.path != first.path
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet")}
    assert files == {first.path, other.path}
    assert replace(first, metric="f1").path == first.path


def test_splits_come_from_several_tables_or_from_a_column() -> None:
    splits = {"train": FRAME[:20], "dev": FRAME[20:30], "test": FRAME[30:]}
    files = task(splits["train"], validation=splits["dev"], test=splits["test"])
    assert files == task(splits)
    found = load_custom_task(files).splits
    assert {name: len(split) for name, split in found.items()} == {
        **{"train": 20, "validation": 10, "test": 10}
    }
    frame = FRAME.assign(part=["train", "train", "dev", "test"] * 10)
    found = load_custom_task(task(frame, split_column="part", id="id")).splits
    assert len(found["validation"]) == len(found["test"]) == 10
    assert found["test"].ids[:2] == ("3", "7")


def test_empty_cells_and_class_minus_one_mean_no_label() -> None:
    for first, labels in ((0.0, ("0", "1")), (0.5, ("0", "0.5", "1"))):
        frame = FRAME.assign(label=[first, float("nan"), *(n % 2 for n in range(38))])
        loaded = load_custom_task(task(frame, fractions=WHOLE))
        assert loaded.task.labels == labels
        assert loaded.splits["train"].unlabeled == 1
    loaded = load_custom_task(task(as_dataset(unlabeled=4), fractions=WHOLE))
    assert loaded.splits["train"].unlabeled == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "txet"}, r"^reviews: no column is called 'txet'\. Did you mean 'text'"),
        ({"label": 5}, r"^--label: must be text, got 5\."),
        ({"data": FRAME["text"]}, r"^--task: must be a file, .*, got Series\. Convert"),
        ({"data": {"text": ["a"]}}, r"^--task: must have a split train, got text\."),
        ({"validation": 3}, r"^--validation: .*, got int\. "),
        *(
            ({"name": name}, r"^name: must be a file name")
            for name in ("a/b", "..", "a\0b", "詞" * 90)
        ),
    ],
)
def test_invalid_data_columns_or_names_are_refused_before_writing(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SclsearchError, match=message):
        task(**changes)
    assert not list(tmp_path.rglob("*"))
