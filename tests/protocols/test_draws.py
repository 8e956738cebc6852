"""Tests of drawn rows: subsets, validation rows and unlabeled rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol, Rows, Size, Splits, all_seeds
from sclsearch.protocols.rows import (
    draw_rows,
    draw_subset,
    draw_validation,
)
from sclsearch.protocols.variants import laptop
from sclsearch.tasks.base import TaskData, stratified
from tests.protocols.conftest import Labeled

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=120).map(lambda y: np.array(y, np.int64))
SEEDS = st.integers(0, 2**32)
FEW_SHOT = [protocol for protocol in PROTOCOLS.values() if protocol.few_shot]
EVERY = [*FEW_SHOT, *map(laptop, FEW_SHOT)]
POOL = 400


@given(y=LABELS, share=st.floats(0, 1), seed=SEEDS)
def test_a_stratified_draw_has_the_size_and_class_shares_in_ascending_order(
    y: np.ndarray, share: float, seed: int
) -> None:
    size = round(share * len(y))
    drawn = stratified(y, size, np.random.default_rng(seed))
    assert drawn.dtype == np.int64
    assert len(drawn) == size
    assert (np.diff(drawn) > 0).all()
    counts, found = np.bincount(y, minlength=6), np.bincount(y[drawn], minlength=6)
    present = counts > 0
    if size >= present.sum():
        assert (found[present] > 0).all()
    exact = counts * size / len(y)
    # A class lifted to one row takes it from a larger class.
    lifted = int((present & (exact < 1)).sum())
    assert (np.abs(found - exact) < 1 + lifted).all()
    if not lifted:
        assert (np.abs(found - exact) < 1).all()


@pytest.mark.parametrize(
    ("counts", "size", "shares"),
    [
        ([60, 30, 10], 10, [6, 3, 1]),
        ([50, 50], 3, [2, 1]),
        ([98, 1, 1], 10, [8, 1, 1]),
        ([98, 1, 1], 2, [1, 1, 0]),
    ],
    ids=str,
)
def test_shares_are_rounded_by_largest_remainder_and_no_class_is_left_out(
    counts: list[int], size: int, shares: list[int]
) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    drawn = stratified(y, size, np.random.default_rng(0))
    assert np.bincount(y[drawn], minlength=len(counts)).tolist() == shares


@pytest.mark.parametrize(
    ("size", "counts"),
    [(Size(total=10), [6, 2, 2]), (Size(per_class=3), [3, 3, 3])],
    ids=["total", "per-class"],
)
def test_a_subset_comes_from_the_pool_with_its_row_numbers(
    labeled: Labeled, size: Size, counts: list[int]
) -> None:
    data = labeled(train=[0] * 60 + [1] * 20 + [2] * 20)
    pool = Rows("train", np.arange(1, 100, 2))
    subset = draw_subset(data, pool, size, all_seeds(0))
    assert subset.split == "train"
    assert set(subset.index) <= set(pool.index)
    assert np.bincount(subset.labels(data)).tolist() == counts


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (Size(total=0), "--train-size: must be between 1 and 5, .* got 0"),
        (Size(total=6), "--train-size: must be between 1 and 5, .* got 6"),
        (Size(per_class=0), "--shots: must be between 1 and 2, .* got 0"),
        (Size(per_class=3), "--shots: must be between 1 and 2, .* got 3"),
    ],
    ids=str,
)
def test_a_size_that_the_pool_cannot_give_is_refused(
    labeled: Labeled, size: Size, message: str
) -> None:
    data = labeled(train=[0, 0, 0, 1, 1])
    with pytest.raises(SclsearchError, match=message):
        draw_subset(data, Rows("train", np.arange(5)), size, all_seeds(0))


def test_shots_are_refused_for_a_task_with_scores(labeled: Labeled) -> None:
    data = labeled(train=[0.5, 1.0, 1.5])
    with pytest.raises(SclsearchError, match=r"--shots: .* toy is a regression"):
        draw_subset(data, Rows("train", np.arange(3)), Size(per_class=1), all_seeds(0))


@given(y=LABELS, size=st.integers(1, 20), seed=SEEDS)
def test_validation_rows_have_the_class_counts_of_training_without_overlap(
    labeled: Labeled, y: np.ndarray, size: int, seed: int
) -> None:
    y = np.concatenate([y, np.arange(6), np.arange(6)])
    data = labeled(train=y.tolist())
    pool = Rows("train", np.arange(len(y)))
    train = Rows("train", stratified(y, min(size, len(y) - 6), np.random.default_rng(seed)))
    drawn = draw_validation(data, train, pool, seed)
    assert (np.diff(drawn.index) > 0).all()
    assert not {*train.index} & {*drawn.index}
    available, trained, found = (
        np.bincount(labels, minlength=6) for labels in (y, y[train.index], y[drawn.index])
    )
    assert found.tolist() == np.minimum(trained, available - trained).tolist()
    assert draw_validation(data, train, pool, seed).digest == drawn.digest


@pytest.fixture(scope="module")
def data(labeled: Labeled) -> TaskData:
    return labeled(train=[0, 1, 1, 1] * (POOL // 4), validation=[0, 1] * 100)


def unlabeled_splits(
    protocol: Protocol, data: TaskData, number: int, size: int, total: int
) -> Splits:
    return draw_rows(protocol, data, Size(size), total, protocol.replicate(number))


def row_ids(rows: Rows) -> set[tuple[str, int]]:
    return {(rows.split, row) for row in rows.index.tolist()}


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.title)
@given(number=st.integers(0, 40), size=st.integers(8, 100), share=st.floats(0, 1))
def test_unlabeled_rows_contain_training_but_no_validation_or_test_rows(
    data: TaskData, protocol: Protocol, number: int, size: int, share: float
) -> None:
    plain = protocol.splits(data, Size(size), protocol.replicate(number))
    held = set[tuple[str, int]]().union(*map(row_ids, (plain.validation, *plain.held)))
    total = size + 1 + int(share * (POOL - sum(at == "train" for at, _ in held) - size - 1))
    splits = unlabeled_splits(protocol, data, number, size, total)
    assert splits.unlabeled is not None
    found = row_ids(splits.unlabeled)
    assert len(found) == len(splits.unlabeled.index) == total
    assert (np.diff(splits.unlabeled.index) > 0).all()
    assert row_ids(splits.train) <= found
    assert not found & (held | row_ids(splits.test))
    without_unlabeled = replace(splits, unlabeled=None, notes=plain.notes)
    assert (without_unlabeled.digests, without_unlabeled.notes) == (plain.digests, plain.notes)
    assert splits.notes[-1] == (
        f"stages without labels: {total - size} texts beside the {size} training rows"
    )


@given(number=st.integers(0, 40), totals=st.lists(st.integers(21, POOL), min_size=2, max_size=2))
def test_a_smaller_unlabeled_total_is_a_subset_of_a_larger_one(
    data: TaskData, number: int, totals: list[int]
) -> None:
    protocol = PROTOCOLS["cmlm-fewshot"]
    few, many = (unlabeled_splits(protocol, data, number, 20, total) for total in sorted(totals))
    assert few.unlabeled is not None
    assert many.unlabeled is not None
    assert row_ids(few.unlabeled) <= row_ids(many.unlabeled)


def test_unlabeled_rows_at_laptop_scale_equal_those_of_the_protocol(labeled: Labeled) -> None:
    data = labeled(train=[0, 1] * 700, test=[0, 1] * 50)
    protocol = PROTOCOLS["gunel-fewshot"]
    splits, scaled = (
        unlabeled_splits(one, data, 0, 20, 600) for one in (protocol, laptop(protocol))
    )
    # At laptop scale, 300 of the 500 held-out rows are not used for validation.
    assert (len(splits.validation.index), len(scaled.validation.index)) == (500, 200)
    assert splits.digests["unlabeled"] == scaled.digests["unlabeled"]


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.title)
def test_unlabeled_all_is_every_row_not_held_out(data: TaskData, protocol: Protocol) -> None:
    splits = draw_rows(protocol, data, Size(20), "all", protocol.replicate(3))
    assert splits.unlabeled is not None
    held = set[tuple[str, int]]().union(
        *map(row_ids, (splits.validation, splits.test, *splits.held))
    )
    assert row_ids(splits.unlabeled) == {("train", row) for row in range(POOL)} - held


@pytest.mark.parametrize(("name", "most"), [("cmlm-fewshot", POOL), ("lacon-fewshot", POOL - 20)])
def test_an_unlabeled_total_out_of_bounds_is_refused(data: TaskData, name: str, most: int) -> None:
    assert unlabeled_splits(PROTOCOLS[name], data, 0, 20, most).unlabeled is not None
    for total in (-1, 19, most + 1):
        with pytest.raises(SclsearchError) as raised:
            unlabeled_splits(PROTOCOLS[name], data, 0, 20, total)
        assert str(raised.value) == (
            f"--unlabeled: must be between 20, the training rows, and {most}, all rows of toy's "
            f"training split outside validation, got {total}. Pass `all` for all rows."
        )
