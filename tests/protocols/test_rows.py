"""Tests of drawn rows: subsets, validation, test and unlabeled rows, and their notes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol, Rows, Size, all_seeds
from sclsearch.protocols.rows import (
    draw_rows,
    draw_subset,
    from_train,
    hold_out,
    split_dev,
)
from sclsearch.protocols.variants import laptop
from sclsearch.tasks.base import stratified
from tests.protocols.conftest import counts, labeled, row_ids, splits_of

LABELS = st.lists(st.integers(0, 5), min_size=2, max_size=120)
SEEDS = st.integers(0, 2**32)
FEW_SHOT = [protocol for protocol in PROTOCOLS.values() if protocol.few_shot]
EVERY = [*FEW_SHOT, *map(laptop, FEW_SHOT)]
POOL = 400
SPARSE = labeled(train=[0, 1, 1, 1] * (POOL // 4), validation=[0, 1] * 100)


@given(labels=LABELS, share=st.floats(0, 1), seed=SEEDS)
def test_a_stratified_draw_has_the_size_and_class_shares_in_ascending_order(
    labels: list[int], share: float, seed: int
) -> None:
    y = np.array(labels, np.int64)
    size = round(share * len(y))
    drawn = stratified(y, size, np.random.default_rng(seed))
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


def test_a_size_that_the_pool_cannot_give_is_refused() -> None:
    data, pool = labeled(train=[0, 0, 0, 1, 1]), Rows("train", np.arange(5))
    for size, message in (
        (Size(total=0), "--train-size: must be between 1 and 5, .* got 0"),
        (Size(total=6), "--train-size: must be between 1 and 5, .* got 6"),
        (Size(per_class=3), "--shots: must be between 1 and 2, .* got 3"),
    ):
        with pytest.raises(SclsearchError, match=message):
            draw_subset(data, pool, size, all_seeds(0))
    with pytest.raises(SclsearchError, match=r"--shots: .* toy is a regression"):
        draw_subset(labeled(train=[0.5] * 5), pool, Size(per_class=1), all_seeds(0))


@pytest.mark.parametrize(("overlap", "rows"), [(False, 138), (True, 276)])
def test_without_a_test_split_it_is_half_of_the_validation_split(overlap: bool, rows: int) -> None:
    data = labeled(train=[0, 1], validation=[0, 1] * 138)
    splits = split_dev(data, cap=500, overlap=overlap)
    assert counts(splits.validation, data) == [rows // 2] * 2
    assert len(splits.test.index) == 138
    assert splits.notes == (
        "test: a stratified half of the validation split, 138 rows",
        f"validation: {rows} rows, fewer than the protocol's 500",
        *["validation and test overlap"] * overlap,
    )


def test_without_a_validation_split_its_rows_are_held_out_of_training() -> None:
    for rows, validation, share in ((800, 400, "50%"), (56_000, 500, "0.89%")):
        data = labeled(train=[0, 1] * (rows // 2), test=[0, 1, 1])
        splits = split_dev(data, cap=500)
        assert row_ids(splits.test) == {("test", row) for row in range(3)}
        assert counts(splits.validation, data) == [validation // 2] * 2
        assert len(splits.train.index) == rows - validation
        assert not row_ids(splits.train) & row_ids(splits.validation)
        note = f"validation: {validation} rows, {share} of the {rows} training rows"
        assert splits.notes == ("test: all of the test split, 3 rows", note)


def test_a_task_without_validation_rows_is_refused_with_protocols_that_hold_them_out() -> None:
    data = labeled(train=[0, 1] * 20, test=[1])
    with pytest.raises(SclsearchError, match="toy: no validation split, only train") as raised:
        splits_of("supcl-seq", data)
    for name in str(raised.value).rpartition(": ")[2].rstrip(".").split(", "):
        splits = splits_of(name, data, size=10)
        assert (splits.validation.split, splits.test.split) == ("train", "test")


@given(train=LABELS, share=st.floats(0.01, 0.5), seed=st.integers(0, 99))
def test_held_out_rows_are_a_stratified_share_of_the_training_rows(
    train: list[int], share: float, seed: int
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


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.title)
@given(number=st.integers(0, 40), size=st.integers(8, 100), share=st.floats(0, 1))
def test_unlabeled_rows_contain_training_but_no_validation_or_test_rows(
    protocol: Protocol, number: int, size: int, share: float
) -> None:
    plain = protocol.splits(SPARSE, Size(size), protocol.replicate(number))
    held = row_ids(plain.validation, plain.test, *plain.held)
    free = {("train", row) for row in range(POOL)} - held
    total = size + 1 + int(share * (len(free) - size - 1))
    splits, more, every = (
        draw_rows(protocol, SPARSE, Size(size), rows, protocol.replicate(number))
        for rows in (total, len(free), "all")
    )
    assert splits.unlabeled is not None
    assert len(splits.unlabeled.index) == total
    assert row_ids(splits.train) <= row_ids(splits.unlabeled) <= free
    assert replace(splits, unlabeled=None, notes=plain.notes).digests == plain.digests
    note = f"stages without labels: {total - size} texts beside the {size} training rows"
    assert splits.notes == (*plain.notes, note)
    assert more.unlabeled is not None
    assert row_ids(more.unlabeled) == free
    assert every.digests == more.digests


def test_unlabeled_rows_are_pinned_and_equal_at_laptop_scale() -> None:
    data = labeled(train=[0, 1] * 700, test=[0, 1] * 50)
    protocol = PROTOCOLS["gunel-fewshot"]
    whole, scaled = (
        draw_rows(one, data, Size(20), 600, one.replicate(1))
        for one in (protocol, laptop(protocol))
    )
    # At laptop scale, 300 of the 500 held-out rows are not used for validation.
    assert (len(whole.validation.index), len(scaled.validation.index)) == (500, 200)
    assert whole.digests["unlabeled"] == scaled.digests["unlabeled"]
    # If it changes, stored seed runs with unlabeled texts are no longer found.
    assert whole.digests["unlabeled"][:16] == "dcc958d84b6c4349"


def test_an_unlabeled_total_out_of_bounds_is_refused() -> None:
    for name, most in (("cmlm-fewshot", POOL), ("lacon-fewshot", POOL - 20)):
        protocol = PROTOCOLS[name]
        for total in (19, most + 1):
            message = f"^--unlabeled: must be between 20, .*, and {most}, .*, got {total}\\."
            with pytest.raises(SclsearchError, match=message):
                draw_rows(protocol, SPARSE, Size(20), total, protocol.replicate(0))
