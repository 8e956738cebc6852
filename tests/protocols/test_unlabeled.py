"""Texts without labels: the training rows, and others that neither select nor test."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Protocol, Rows, Size, Splits
from sclsearch.protocols.draws import draw_parts
from sclsearch.protocols.variants import laptop
from sclsearch.tasks.base import TaskData

Labelled = Callable[..., TaskData]

FEW_SHOT = [protocol for protocol in PROTOCOLS.values() if protocol.few_shot]
EVERY = [*FEW_SHOT, *map(laptop, FEW_SHOT)]
ROWS = 400


@pytest.fixture(scope="module")
def data(labeled: Labelled) -> TaskData:
    return labeled(train=[0, 1, 1, 1] * (ROWS // 4), validation=[0, 1] * 100)


def parts_of(protocol: Protocol, data: TaskData, number: int, size: int, total: int) -> Splits:
    return draw_parts(protocol, data, Size(size), total, protocol.replicate(number))


def places(rows: Rows) -> set[tuple[str, int]]:
    return {(rows.split, row) for row in rows.index.tolist()}


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.title)
@given(number=st.integers(0, 40), size=st.integers(8, 100), share=st.floats(0, 1))
def test_they_are_the_training_rows_and_others_but_none_of_validation_or_test(
    data: TaskData, protocol: Protocol, number: int, size: int, share: float
) -> None:
    given_ = protocol.splits(data, Size(size), protocol.replicate(number))
    held = set[tuple[str, int]]().union(*map(places, (given_.validation, *given_.held)))
    total = size + 1 + int(share * (ROWS - sum(at == "train" for at, _ in held) - size - 1))
    splits = parts_of(protocol, data, number, size, total)
    assert splits.unlabeled is not None
    found = places(splits.unlabeled)
    assert len(found) == len(splits.unlabeled.index) == total
    assert (np.diff(splits.unlabeled.index) > 0).all()
    assert places(splits.train) <= found
    assert not found & (held | places(splits.test))
    less = replace(splits, unlabeled=None, notes=given_.notes)
    assert (less.digests, less.notes) == (given_.digests, given_.notes)
    assert splits.notes[-1] == (
        f"stages without labels: {total - size} texts beside the {size} training rows"
    )


@given(number=st.integers(0, 40), totals=st.lists(st.integers(21, ROWS), min_size=2, max_size=2))
def test_fewer_are_among_more_of_a_replicate(
    data: TaskData, number: int, totals: list[int]
) -> None:
    protocol = PROTOCOLS["cmlm-fewshot"]
    few, many = (parts_of(protocol, data, number, 20, total) for total in sorted(totals))
    assert few.unlabeled is not None
    assert many.unlabeled is not None
    assert places(few.unlabeled) <= places(many.unlabeled)


def test_at_the_scale_of_a_laptop_they_are_those_of_the_protocol(labeled: Labelled) -> None:
    data = labeled(train=[0, 1] * 700, test=[0, 1] * 50)
    protocol = PROTOCOLS["gunel-fewshot"]
    splits, scaled = (parts_of(one, data, 0, 20, 600) for one in (protocol, laptop(protocol)))
    # Of the 500 rows that are held out of training 300 select nothing there.
    assert (len(splits.validation.index), len(scaled.validation.index)) == (500, 200)
    assert splits.digests["unlabelled"] == scaled.digests["unlabelled"]


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.title)
def test_all_are_those_that_are_not_held_out(data: TaskData, protocol: Protocol) -> None:
    splits = draw_parts(protocol, data, Size(20), "all", protocol.replicate(3))
    assert splits.unlabeled is not None
    held = set[tuple[str, int]]().union(
        *map(places, (splits.validation, splits.test, *splits.held))
    )
    assert places(splits.unlabeled) == {("train", row) for row in range(ROWS)} - held


@pytest.mark.parametrize(("name", "most"), [("cmlm-fewshot", ROWS), ("lacon-fewshot", ROWS - 20)])
def test_fewer_than_are_trained_on_or_more_than_there_are_is_refused(
    data: TaskData, name: str, most: int
) -> None:
    assert parts_of(PROTOCOLS[name], data, 0, 20, most).unlabeled is not None
    for total in (-1, 19, most + 1):
        with pytest.raises(SclsearchError) as raised:
            parts_of(PROTOCOLS[name], data, 0, 20, total)
        assert str(raised.value) == (
            f"--unlabeled: must be between 20, the training rows, and {most}, all rows of toy's "
            f"training split outside validation, got {total}. Pass `all` for all rows."
        )
