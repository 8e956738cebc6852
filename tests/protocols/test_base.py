"""A protocol draws rows for everything, or is refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.tasks.base import TaskData

Labelled = Callable[..., TaskData]


@pytest.mark.parametrize(
    ("name", "splits", "message"),
    [
        ("plain", {"train": [0, 1], "validation": [1]}, "no test rows in its validation split"),
        ("gunel-full", {"train": [0, 1], "validation": [1]}, "validation split with 1 rows. Add"),
        (
            "lacon-classes-2",
            {"train": [0, 1, 2] * 20, "test": [2]},
            "its test split with 0 rows of the first 2 classes.",
        ),
        ("supcl-seq", {"train": [0, 1], "validation": []}, "no validation rows in its"),
    ],
    ids=["one row to halve", "capped", "none of the classes", "an empty split"],
)
def test_rows_that_a_protocol_leaves_none_of_are_refused(
    labeled: Labelled, name: str, splits: dict[str, list[int]], message: str
) -> None:
    protocol = PROTOCOLS[name]
    data = protocol.data(labeled(**splits))
    with pytest.raises(SclsearchError) as raised:
        protocol.splits(data, None, protocol.replicate(0))
    assert str(raised.value).startswith(f"toy: --protocol {name} finds no ")
    assert message in str(raised.value)


def test_f1_of_a_class_that_validation_lacks_is_refused(labeled: Labelled) -> None:
    data = labeled(train=[0, 1], validation=[0, 0, 0, 1], test=[0, 1])
    task = replace(data.task, labels=("no", "yes"), metric="f1")
    protocol = PROTOCOLS["plain"]
    protocol.splits(replace(data, task=task), None, protocol.replicate(0))
    lacking = labeled(train=[0, 1], validation=[0, 0, 0], test=[0, 1])
    with pytest.raises(
        SclsearchError, match=r"^toy, --protocol plain: the metric f1 .* 'yes', got none"
    ):
        protocol.splits(replace(lacking, task=task), None, protocol.replicate(0))
    protocol.splits(lacking, None, protocol.replicate(0))
