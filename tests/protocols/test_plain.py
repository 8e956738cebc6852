"""Protocol plain: own splits, a fifth held out, or several random splits."""

from dataclasses import replace

import numpy as np
import pytest

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.variants import with_splits
from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData

PLAIN = PROTOCOLS["plain"]


@pytest.fixture
def data() -> TaskData:
    """Return a task of training and test rows alone."""
    demo = load_task("demo")
    return replace(demo, splits={name: demo.splits[name] for name in ("train", "test")})


def test_a_fifth_of_the_training_rows_is_held_out_beside_test_rows_alone(data: TaskData) -> None:
    splits = PLAIN.splits(data, None, PLAIN.replicate(0))
    assert (len(splits.train.index), len(splits.validation.index)) == (1600, 400)
    assert not set(splits.train.index) & set(splits.validation.index)
    assert np.bincount(splits.validation.labels(data)).tolist() == [200, 200]
    assert splits.test.split == "test"
    assert "validation: 400 rows, 20% of the 2000 training rows" in splits.notes
    assert PLAIN.splits(data, None, PLAIN.replicate(1)).digests == splits.digests


def test_a_task_with_validation_rows_keeps_its_splits() -> None:
    demo = load_task("demo")
    splits = PLAIN.splits(demo, None, PLAIN.replicate(0))
    assert [rows.split for rows in splits.rows.values()] == ["train", "validation", "test"]
    assert [len(rows.index) for rows in splits.rows.values()] == [2000, 500, 500]


def test_replicates_take_several_random_splits_in_turn(data: TaskData) -> None:
    protocol = with_splits(PLAIN, 3)
    found = [protocol.splits(data, None, protocol.replicate(number)) for number in range(5)]
    validation = [tuple(splits.validation.index) for splits in found]
    assert len(set(validation)) == 3
    assert validation[3:] == validation[:2]
    assert all(len(splits.validation.index) == 400 for splits in found)
    assert all(splits.test.digest == found[0].test.digest for splits in found)
    assert protocol.title == "plain, 3 splits"


@pytest.mark.parametrize(
    ("name", "count", "told"),
    [
        ("gunel-full", 5, "--splits 5: needs --protocol plain, because gunel-full"),
        ("plain", 1, "--splits: must be at least 2, got 1."),
    ],
)
def test_splits_without_a_sense_are_refused(name: str, count: int, told: str) -> None:
    with pytest.raises(SclsearchError, match=told):
        with_splits(PROTOCOLS[name], count)
