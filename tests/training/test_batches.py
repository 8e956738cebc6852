"""An epoch shows the rows it should, in batches of the size asked for."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sclsearch.methods.base import Training
from sclsearch.training.batches import (
    batches_of,
    by_length,
    epoch_order,
    on_device,
)
from sclsearch.training.schedule import updates_per_epoch

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=90).map(lambda y: np.array(y, np.int64))
SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 20)


@given(y=LABELS, seed=SEEDS)
def test_a_shuffled_epoch_shows_every_row_once(y: np.ndarray, seed: int) -> None:
    order = epoch_order(y, Training(), np.random.default_rng(seed))
    assert order.dtype == np.int64
    assert sorted(order) == list(range(len(y)))


@given(y=LABELS, seed=SEEDS, size=SIZES)
def test_a_balanced_epoch_shows_classes_equally_often_in_every_batch(
    y: np.ndarray, seed: int, size: int
) -> None:
    training = Training(batch_sampling="balanced", batch_size=size)
    order = epoch_order(y, training, np.random.default_rng(seed))
    assert len(order) == len(y)
    classes = np.unique(y)
    for batch in [order, *batches_of(order, training)]:
        shown = [int((y[batch] == label).sum()) for label in classes]
        assert max(shown) - min(shown) <= 1


@given(y=LABELS, seed=SEEDS)
def test_a_balanced_epoch_repeats_no_row_before_all_of_its_class_were_shown(
    y: np.ndarray, seed: int
) -> None:
    order = epoch_order(y, Training(batch_sampling="balanced"), np.random.default_rng(seed))
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        shown = Counter({int(row): 0 for row in rows})
        shown.update(order[y[order] == label].tolist())
        assert max(shown.values()) - min(shown.values()) <= 1


@pytest.mark.parametrize("sampling", ["shuffle", "balanced"])
def test_an_order_depends_on_its_stream_alone(sampling: str) -> None:
    training = Training(batch_sampling=sampling)  # type: ignore[arg-type]
    y = np.arange(60) % 3
    orders = [epoch_order(y, training, np.random.default_rng(s)).tolist() for s in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@given(rows=st.integers(1, 100), size=SIZES, drop_last=st.booleans())
def test_batches_are_whole_but_for_a_last_one_that_may_be_dropped(
    rows: int, size: int, drop_last: bool
) -> None:
    training = Training(batch_size=size, drop_last=drop_last)
    batches = list(batches_of(np.arange(rows), training))
    assert len(batches) == updates_per_epoch(rows, training)
    assert [row for batch in batches for row in batch] == list(range(sum(map(len, batches))))
    assert all(len(batch) == size for batch in batches[:-1])
    shown = rows // size * size if drop_last and rows >= size else rows
    assert sum(map(len, batches)) == shown


@pytest.mark.parametrize(
    ("rows", "drop_last", "updates"),
    [(16, False, 2), (17, False, 3), (17, True, 2), (8, True, 1), (7, True, 1), (1, False, 1)],
)
def test_an_epoch_has_at_least_one_update(rows: int, drop_last: bool, updates: int) -> None:
    assert updates_per_epoch(rows, Training(batch_size=8, drop_last=drop_last)) == updates


@given(lengths=st.lists(st.integers(1, 50), max_size=100), size=SIZES)
def test_batches_by_length_hold_every_row_once_shortest_first(
    lengths: list[int], size: int
) -> None:
    batches = list(by_length(np.array(lengths, np.int64), size))
    rows = [int(row) for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[row] for row in rows] == sorted(lengths)
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(0 < len(batch) <= size for batch in batches)


@pytest.mark.parametrize(("device", "pinned"), [("cpu", 0), ("cuda", 1)])
def test_what_is_copied_to_a_gpu_is_pinned_so_that_the_host_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, device: str, pinned: int
) -> None:
    pages: list[Tensor] = []
    copies: list[tuple[Tensor, torch.device]] = []

    def pin(self: Tensor) -> Tensor:
        pages.append(self.clone())
        return pages[-1]

    def to(self: Tensor, where: torch.device, *, non_blocking: bool) -> Tensor:
        assert non_blocking
        copies.append((self, where))
        return self

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", to)
    array = np.arange(3)
    assert on_device(array, torch.device(device)).tolist() == [0, 1, 2]
    ((source, where),) = copies
    assert (len(pages), where) == (pinned, torch.device(device))
    assert not pinned or source is pages[0]
