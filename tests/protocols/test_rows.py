"""Tests of drawn and unlabeled rows and their notes, and of protocol variants."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import SAME_ROWS, draw_rows, split_dev
from sclsearch.protocols.variants import for_rows, fresh, laptop, with_folds
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


PLAIN = PROTOCOLS["plain"]
NOTE = "scaled: at most 150 updates a stage, 200 validation and 500 test rows"
WITHOUT_VALIDATION = labeled(train=[0, 1] * 1000, test=[0, 1])


VARIED = [PROTOCOLS[name] for name in ("gunel-full", "supcl-seq", "lacon", "cmlm-fewshot")]
EACH = pytest.mark.parametrize("protocol", VARIED, ids=lambda protocol: protocol.name)


@EACH
def test_fresh_replicates_begin_after_those_of_the_protocol_and_the_study(
    protocol: Protocol,
) -> None:
    n = protocol.replicates
    repeated, more, fewer = fresh(protocol, 4), fresh(protocol, 4, n + 7), fresh(protocol, 4, n - 1)
    for r in range(4):
        for variant, first in ((repeated, n), (more, n + 7), (fewer, n)):
            found = variant.replicate(r)
            assert (found.number, found.subset) == (r, first + r)
            assert found.seeds == protocol.replicate(first + r).seeds
    assert (repeated.replicates, str(repeated.rule)) == (4, "mean")
    subsets = ", new subsets" if protocol.name == "cmlm-fewshot" else ""
    assert fewer.title == repeated.title == f"{protocol.name}, new replicates{subsets}"
    assert more.title.startswith(f"{protocol.name}, new replicates from {n + 7}")
    with pytest.raises(SclsearchError, match=r"^new replicates: .* 1, got 0"):
        fresh(protocol, 0)


@pytest.mark.parametrize(("scaled", "held_out"), [(False, 666), (True, 200)])
def test_replicates_validate_on_folds_in_turn(scaled: bool, held_out: int) -> None:
    protocol = with_folds(PLAIN, 3)
    if scaled:
        protocol = laptop(protocol)
    found = [protocol.splits(WITHOUT_VALIDATION, None, protocol.replicate(r)) for r in range(6)]
    assert {len(splits.validation.index) - held_out for splits in found} <= {0, 1}
    assert len({splits.test.digest for splits in found}) == 1
    assert all((NOTE in splits.notes) == scaled for splits in found)
    assert protocol.title == f"plain{' at laptop scale' * scaled}, 3 folds"
    assert fresh(protocol, 4).title == f"{protocol.title}, new replicates"


def test_own_rows_decide_the_numbers_of_configurations_seeds_and_folds() -> None:
    assert for_rows(PLAIN, labeled(train=[0, 1]), None) == (PLAIN, 20)
    for rows, effort in ((1_000, (10, 5)), (2_000, (8, 3)), (5_002, (5, 2))):
        data = labeled(train=[0, 1] * (rows // 2))
        own = replace(data, task=replace(data.task, own=True))
        protocol, configs = for_rows(PLAIN, own, None)
        assert (configs, protocol.replicates) == effort
        assert protocol.title == f"plain{', 5 folds' * (rows <= 2_000)}"
        assert for_rows(PLAIN, own, 3)[0].title == "plain, 3 folds"


@given(
    classes=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    folds=st.integers(2, 5),
    repeated=st.booleans(),
)
def test_folds_validate_each_row_once_stratified_and_train_every_class(
    classes: list[int], folds: int, repeated: bool
) -> None:
    labels = [label for label, count in enumerate(classes) for _ in range(count)]
    data = labeled(train=labels, test=[0])
    repeated = repeated and classes[0] > 1
    if repeated:  # the first two rows have one text
        texts = data.splits["train"].texts
        train = replace(data.splits["train"], texts=(texts[0], *texts[:1], *texts[2:]))
        own = replace(data.task, own=True)
        data = replace(data, task=own, splits={**data.splits, "train": train})
    protocol = with_folds(PLAIN, folds)
    distinct = [count - (repeated and not label) for label, count in enumerate(classes)]
    several = [label for label, count in enumerate(distinct) if count > 1]
    if sum(distinct[label] for label in several) < folds:
        with pytest.raises(SclsearchError, match=rf"too few for {folds} folds\. Add rows"):
            protocol.rows(data, None, protocol.replicate(0))
        return
    for division in (0, 1):
        found = [
            protocol.rows(data, None, protocol.replicate(division * folds + fold))
            for fold in range(folds)
        ]
        validated = np.concatenate([splits.validation.index for splits in found])
        expected = [row for row, label in enumerate(labels) if label in several]
        assert sorted(validated.tolist()) == expected
        for splits in found:
            assert row_ids(splits.train).isdisjoint(row_ids(splits.validation))
            assert {*splits.train.labels(data)} == {*range(len(classes))}
            if not repeated:
                for label, count in enumerate(classes):
                    share = counts(splits.validation, data)[label : label + 1] or [0]
                    assert count == 1 or abs(share[0] - count / folds) < 1


def test_other_divisions_have_other_folds() -> None:
    protocol = with_folds(PLAIN, 3)
    first, second = (
        {
            tuple(
                protocol.rows(WITHOUT_VALIDATION, None, protocol.replicate(d * 3 + n)).train.index
            )
            for n in range(3)
        }
        for d in (0, 1)
    )
    assert first.isdisjoint(second)


@EACH
def test_laptop_scale_uses_some_of_the_protocols_rows(protocol: Protocol) -> None:
    data = labeled(train=[0, 0, 0, 1] * 750, validation=[0, 1, 0, 0] * 600)
    size = Size(total=40) if protocol.few_shot else None
    replicate, small = protocol.replicate(2), laptop(protocol)
    assert small.title == f"{protocol.name} at laptop scale"
    assert (small.replicates, small.max_updates, small.evaluate) == (3, 150, "tenth")
    assert small.model == "minilm"
    small.rule.check(small.replicates)
    assert small.replicate(2) == replicate
    whole, scaled = (p.splits(data, size, replicate) for p in (protocol, small))
    assert np.array_equal(scaled.train.index, whole.train.index)
    for name, most in (("validation", 200), ("test", 500)):
        every, some = getattr(whole, name), getattr(scaled, name)
        assert set(some.index) <= set(every.index)
        assert len(some.index) == min(len(every.index), most)
        share = some.labels(data).mean()
        assert share == pytest.approx(every.labels(data).mean(), abs=1 / len(some.index))
    among = "the 200 rows that choose are among the 500 reported"
    assert scaled.notes == (*(among if n == SAME_ROWS else n for n in whole.notes), NOTE)
