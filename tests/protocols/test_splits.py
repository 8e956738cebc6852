"""Tests of training, validation and test splits and their notes."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Size, Splits
from sclsearch.protocols.rows import from_train, hold_out, split_dev
from sclsearch.tasks.base import TaskData
from tests.protocols.conftest import Labeled


def dev_is_test(data: TaskData) -> Splits:
    protocol = PROTOCOLS["supcl-seq"]
    return protocol.splits(data, None, protocol.replicate(0))


LABELS = st.lists(st.integers(0, 2), min_size=2, max_size=150)


@given(y=LABELS, cap=st.none() | st.integers(3, 40))
def test_without_a_test_split_validation_and_test_share_no_row(
    labeled: Labeled, y: list[int], cap: int | None
) -> None:
    data = labeled(train=[0, 1, 2], validation=y)
    splits = split_dev(data, cap=cap)
    assert splits.train.split == "train"
    assert splits.train.index.tolist() == [0, 1, 2]
    assert (splits.validation.split, splits.test.split) == ("validation", "validation")
    assert not set(splits.validation.index) & set(splits.test.index)
    assert len(splits.test.index) == len(y) // 2
    rest = len(y) - len(y) // 2
    assert len(splits.validation.index) == (rest if cap is None else min(rest, cap))


def test_a_labeled_test_split_is_used_as_test(labeled: Labeled) -> None:
    data = labeled(train=[0, 1], validation=[0, 1] * 10, test=[0, 1, 1])
    splits = split_dev(data, cap=None)
    assert splits.test.split == "test"
    assert splits.test.index.tolist() == [0, 1, 2]
    assert splits.validation.split == "validation"
    assert splits.validation.index.tolist() == list(range(20))
    assert splits.notes == ()


HALF = "test: a stratified half of the validation split, {} rows"
FEWER = "validation: {} rows, fewer than the protocol's 500"
OVERLAP = "validation and test overlap"


@pytest.mark.parametrize(
    ("rows", "overlap", "validation", "notes"),
    [
        (1000, False, 500, (HALF.format(500),)),
        (1200, False, 500, (HALF.format(600),)),
        (276, False, 138, (HALF.format(138), FEWER.format(138))),
        (800, True, 500, (HALF.format(400), OVERLAP)),
        (276, True, 276, (HALF.format(138), FEWER.format(276), OVERLAP)),
    ],
    ids=["just-enough", "more-than-enough", "too-few", "overlap", "overlap-too-few"],
)
def test_notes_describe_the_validation_and_test_rows(
    labeled: Labeled, rows: int, overlap: bool, validation: int, notes: tuple[str, ...]
) -> None:
    data = labeled(train=[0], validation=[0, 1] * (rows // 2))
    splits = split_dev(data, cap=500, overlap=overlap)
    assert len(splits.validation.index) == validation
    assert splits.notes == notes
    assert bool(set(splits.validation.index) & set(splits.test.index)) == overlap


def test_validation_and_test_can_be_the_same_rows_with_a_note(labeled: Labeled) -> None:
    splits = dev_is_test(labeled(train=[0, 1], validation=[0, 1, 1], test=[0]))
    assert splits.validation == splits.test
    assert splits.validation.split == "validation"
    assert splits.validation.index.tolist() == [0, 1, 2]
    same = "chosen and reported on the same rows"
    assert splits.notes == (
        same,
        "the test split is not used: scores are of the validation split",
    )
    assert dev_is_test(labeled(train=[0], validation=[0])).notes == (same,)


@pytest.mark.parametrize(
    ("rows", "validation", "share"),
    [(800, 400, "50%"), (56_000, 500, "0.89%")],
    ids=str,
)
def test_without_a_validation_split_its_rows_are_held_out_of_training(
    labeled: Labeled, rows: int, validation: int, share: str
) -> None:
    data = labeled(train=[0, 1] * (rows // 2), test=[0, 1, 1])
    splits = split_dev(data, cap=500)
    names = splits.train.split, splits.validation.split, splits.test.split
    assert names == ("train", "train", "test")
    assert np.bincount(splits.validation.labels(data)).tolist() == [validation // 2] * 2
    assert len(splits.train.index) == rows - validation
    assert not np.intersect1d(splits.train.index, splits.validation.index).size
    assert splits.test.index.tolist() == [0, 1, 2]
    assert splits.notes == (
        "test: all of the test split, 3 rows",
        f"validation: {validation} rows, {share} of the {rows} training rows",
    )
    assert splits.digests == split_dev(data, cap=500).digests


@pytest.mark.parametrize(
    "split", [lambda data: split_dev(data, cap=None), dev_is_test], ids=["split", "same"]
)
def test_a_task_without_validation_rows_is_refused(
    labeled: Labeled, split: Callable[[TaskData], object]
) -> None:
    data = labeled(train=[0, 1] * 20, test=[1])
    with pytest.raises(SclsearchError, match="toy: no validation split, only train, test"):
        split(data)
    with pytest.raises(SclsearchError, match="holds rows out of training") as raised:
        split(data)
    advised = str(raised.value).rpartition(": ")[2].rstrip(".").split(", ")
    for name in advised:
        protocol = PROTOCOLS[name]
        size = Size(total=10) if protocol.few_shot else None
        splits = protocol.splits(data, size, protocol.replicate(0))
        assert (splits.validation.split, splits.test.split) == ("train", "test")


@given(train=LABELS, share=st.floats(0.01, 0.5), seed=st.integers(0, 99))
def test_held_out_rows_are_a_stratified_share_of_the_training_rows(
    labeled: Labeled, train: list[int], share: float, seed: int
) -> None:
    data = labeled(train=train, validation=[0, 1])
    splits = hold_out(data, from_train(data), share=share, seed=seed)
    both = np.concatenate([splits.train.index, splits.validation.index])
    assert sorted(both) == list(range(len(train)))
    assert (np.diff(splits.train.index) > 0).all()
    size = len(splits.train.index)
    assert size == len(train) - max(1, round(share * len(train)))
    if size >= len(set(train)):
        assert set(splits.train.labels(data)) == set(train)


def test_validation_from_training_has_a_note_on_the_unused_validation_split(
    labeled: Labeled,
) -> None:
    splits = from_train(labeled(train=[0, 1], validation=[0, 1], test=[0, 1, 1]))
    assert (splits.test.split, len(splits.test.index)) == ("test", 3)
    unused = "the validation split is not used: validation rows come from training"
    assert splits.notes == ("test: all of the test split, 3 rows", unused)
    assert unused not in from_train(labeled(train=[0], test=[1])).notes
