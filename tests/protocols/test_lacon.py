"""Tests of the LaCon protocols: class caps, few-shot rows, imbalance and first classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Rows, Size, Splits
from sclsearch.tasks.base import TaskData
from tests.protocols.conftest import Labeled

VALIDATION = {"validation": [0, 1]}
MANY = [0] * 5400 + [1] * 7000


def splits_of(name: str, data: TaskData, number: int = 0, size: Size | None = None) -> Splits:
    protocol = PROTOCOLS[name]
    return protocol.splits(data, size, protocol.replicate(number))


def counts(rows: Rows, data: TaskData) -> list[int]:
    return [int(count) for count in np.bincount(rows.labels(data).astype(np.int64))]


@pytest.mark.parametrize(
    ("train", "training", "validation"),
    [
        (MANY, [4750, 4750], [250, 250]),
        ([0] * 600 + [1] * 7000, [570, 4750], [30, 250]),
        ([0] * 1500 + [1] * 400 + [2] * 1000, [950, 380, 950], [50, 20, 50]),
    ],
    ids=["two-classes", "a-rare-class", "three-classes"],
)
def test_rows_per_class_are_capped_and_a_twentieth_is_held_out(
    labeled: Labeled, train: list[int], training: list[int], validation: list[int]
) -> None:
    data = labeled(train=train, **VALIDATION)
    first, second = splits_of("lacon", data), splits_of("lacon", data, 1)
    assert counts(first.train, data) == training
    assert counts(first.validation, data) == validation
    assert first.train.digest != second.train.digest
    assert first.validation.digest != second.validation.digest
    assert "drawn anew in each replicate" in " ".join(first.notes)


@pytest.mark.parametrize("name", ["mrpc", "rte", "cola"])
def test_three_tasks_use_all_rows_in_every_replicate(labeled: Labeled, name: str) -> None:
    data = labeled(name, train=MANY, **VALIDATION)
    first, second = splits_of("lacon", data), splits_of("lacon", data, 1)
    assert first.digests == second.digests
    assert len(first.train.index) + len(first.validation.index) == len(MANY)
    assert first.notes == (
        "test: all of the validation split, 2 rows",
        "validation: 620 rows, 5% of the 12400 training rows",
    )


def test_a_task_with_scores_uses_all_rows(labeled: Labeled) -> None:
    data = labeled(train=[n / 2 for n in range(6001)], validation=[0.5])
    splits = splits_of("lacon", data)
    both = np.concatenate([splits.train.index, splits.validation.index])
    assert sorted(both) == list(range(6001))
    assert len(splits.validation.index) == 300


@given(train=st.lists(st.integers(0, 2), min_size=60, max_size=200), number=st.integers(0, 30))
def test_few_shot_validation_has_as_many_rows_of_each_class_as_training(
    labeled: Labeled, train: list[int], number: int
) -> None:
    train = [0, 1, 2] * 8 + train
    data = labeled(train=train, **VALIDATION)
    splits = splits_of("lacon-fewshot", data, number, Size(per_class=4))
    assert counts(splits.train, data) == counts(splits.validation, data) == [4, 4, 4]
    assert not {*splits.train.index} & {*splits.validation.index}
    in_total = splits_of("lacon-fewshot", data, number, Size(total=20))
    assert counts(in_total.train, data) == counts(in_total.validation, data)
    assert len(in_total.validation.index) == 20


def test_few_shot_validation_notes_that_a_class_has_too_few_rows(labeled: Labeled) -> None:
    data = labeled(train=[0] * 60 + [1] * 27, **VALIDATION)
    splits = splits_of("lacon-fewshot", data, 0, Size(per_class=20))
    assert counts(splits.train, data) == [20, 20]
    assert counts(splits.validation, data) == [20, 7]
    note = "validation: 27 other rows of the training split, fewer than the 40 for training"
    assert splits.notes[-1] == note


def test_few_shot_training_that_leaves_no_validation_rows_is_refused(labeled: Labeled) -> None:
    data = labeled(train=[0, 1] * 10, **VALIDATION)
    with pytest.raises(SclsearchError, match=r"^toy: .* no validation rows in .* 20 rows\."):
        splits_of("lacon-fewshot", data, 0, Size(per_class=10))
    with pytest.raises(SclsearchError, match=r"^--shots: must be between 1 and 10, .* got 11"):
        splits_of("lacon-fewshot", data, 0, Size(per_class=11))


@pytest.mark.parametrize("rho", [1, 3, 5, 10, 20])
@pytest.mark.parametrize(
    ("train", "rarer"), [([0] * 1500 + [1] * 1300, 1), ([0] * 1300 + [1] * 1300, 0)]
)
def test_the_rarer_class_has_32_rows_and_the_other_rho_times_as_many(
    labeled: Labeled, train: list[int], rarer: int, rho: int
) -> None:
    data = labeled(train=train, **VALIDATION)
    splits = splits_of(f"lacon-imbalance:{rho}", data, 3)
    expected = [32, 32] if rho == 1 else [32, 32 * rho] if rarer == 0 else [32 * rho, 32]
    assert counts(splits.train, data) == counts(splits.validation, data) == expected
    few, many = data.task.labels[rarer], data.task.labels[1 - rarer]
    assert f"training: 32 of {few!r} and {32 * rho} of {many!r}" in splits.notes


def test_an_imbalance_is_refused_without_exactly_two_classes(labeled: Labeled) -> None:
    three = labeled(train=[0, 1, 2] * 50, **VALIDATION)
    with pytest.raises(SclsearchError, match=r"^--protocol lacon-imbalance:3: .* toy has 3 classe"):
        splits_of("lacon-imbalance:3", three)
    scores = labeled(train=[0.5, 1.0], validation=[0.5])
    with pytest.raises(SclsearchError, match="two classes, but toy has scores"):
        splits_of("lacon-imbalance:3", scores)


def test_an_imbalance_without_enough_rows_is_refused(labeled: Labeled) -> None:
    data = labeled(train=[0] * 300 + [1] * 20, **VALIDATION)
    with pytest.raises(SclsearchError) as error:
        splits_of("lacon-imbalance:10", data)
    assert str(error.value) == (
        "--protocol lacon-imbalance:10: needs 32 training rows of class 'yes' of toy, got 20. "
        "Choose a smaller imbalance."
    )


@given(train=st.lists(st.integers(0, 2), max_size=60), held=st.lists(st.integers(0, 2), min_size=1))
def test_the_first_classes_form_a_separate_task(
    labeled: Labeled, train: list[int], held: list[int]
) -> None:
    whole = labeled(train=[0, 1, 2, *train], validation=held)
    data = PROTOCOLS["lacon-classes:2"].data(whole)
    assert (data.task.name, data.task.labels) == ("toy", ("no", "yes"))
    assert whole.task.labels == ("no", "yes", "maybe")
    for name, split in whole.splits.items():
        rows = zip(split.texts, split.y.tolist(), strict=True)
        kept = [(texts, y) for texts, y in rows if y < 2]
        reduced = data.splits[name]
        assert list(zip(reduced.texts, reduced.y.tolist(), strict=True)) == kept
    assert data.digest != whole.digest
    assert PROTOCOLS["lacon-classes:3"].data(whole).digest == whole.digest


@pytest.mark.parametrize(
    ("count", "training", "validation"),
    [(2, [950, 950], [50, 50]), (3, [950, 950, 380], [50, 50, 20])],
)
def test_each_of_the_first_classes_is_capped_at_1000_rows(
    labeled: Labeled, count: int, training: list[int], validation: list[int]
) -> None:
    name, held = f"lacon-classes:{count}", [0, 1, 2] * 40
    whole = labeled("cola", train=[0] * 1500 + [1] * 1200 + [2] * 400, validation=held)
    data = PROTOCOLS[name].data(whole)
    first, second = splits_of(name, data), splits_of(name, data, 1)
    assert counts(first.train, data) == training
    assert counts(first.validation, data) == validation
    assert counts(first.test, data) == [40] * count
    assert first.train.digest != second.train.digest
    assert f"classes: the first {count} classes; the paper does not say which" in first.notes


def test_more_classes_than_a_task_has_are_refused(labeled: Labeled) -> None:
    with pytest.raises(
        SclsearchError, match=r"^--protocol lacon-classes:4: .* 4 .* but toy has 3\."
    ):
        PROTOCOLS["lacon-classes:4"].data(labeled(train=[0, 1, 2], **VALIDATION))
    with pytest.raises(SclsearchError, match="classes, but toy has scores"):
        PROTOCOLS["lacon-classes:2"].data(labeled(train=[0.5], validation=[0.5]))
