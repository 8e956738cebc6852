"""Batch sampling, and conversion of a batch's rows to tensors."""

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sclsearch.methods.base import Batch, Training
from sclsearch.randomness import stream
from sclsearch.tasks.base import Index, Labels
from sclsearch.training.schedule import purpose, updates_of, updates_per_epoch
from sclsearch.training.tokens import Tokens


def epoch_order(y: Labels, training: Training, rng: np.random.Generator) -> Index:
    """Return positions into the training rows in the order of one epoch.

    `balanced` takes one row of each class in turn. It shuffles each class, and again whenever the
    class runs out. The class counts of a batch differ by at most one row. An epoch has as many
    rows as with `shuffle`.
    """
    if training.batch_sampling == "shuffle":
        return rng.permutation(len(y)).astype(np.int64)
    of_class = [np.flatnonzero(y == label) for label in np.unique(y)]
    turns = -(-len(y) // len(of_class))
    dealt = [
        np.concatenate([rng.permutation(rows) for _ in range(-(-turns // len(rows)))])[:turns]
        for rows in of_class
    ]
    return np.stack(dealt, axis=1).reshape(-1)[: len(y)].astype(np.int64)


def batches_of(order: Index, training: Training) -> Iterator[Index]:
    """Yield the positions of each batch of an epoch."""
    size = training.batch_size
    for batch in range(updates_per_epoch(len(order), training)):
        yield order[batch * size : (batch + 1) * size]


def batches_in_order(
    y: Labels, training: Training, remaining: int, seed: int, most: int | None
) -> Iterator[Index]:
    """Yield the positions into the training rows of each batch of a stage.

    Args:
        y: Labels of the training rows.
        training: The stage's settings.
        remaining: Number of stages that follow.
        seed: Seed of the data order.
        most: Updates after which the stage ends; None for no limit.
    """
    orders = (
        epoch_order(y, training, stream(seed, purpose(f"order/{epoch}", remaining)))
        for epoch in range(training.epochs)
    )
    every = chain.from_iterable(batches_of(order, training) for order in orders)
    return islice(every, updates_of(len(y), training, most))


def by_length(lengths: npt.NDArray[np.int64], size: int) -> Iterator[Index]:
    """Yield the positions of batches of rows of similar length, for passes without an order."""
    order = np.argsort(lengths, kind="stable").astype(np.int64)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def collate(
    tokens: Tokens,
    index: Index,
    pad: int,
    rates: tuple[float, ...],
    device: torch.device,
) -> Batch:
    """Return rows of a split as a batch, padded to the longest row."""
    starts, lengths = tokens.starts[index], tokens.lengths_of(index)
    columns = np.arange(lengths.max())
    mask = columns < lengths[:, None]  # [B, T]
    source = np.where(mask, starts[:, None] + columns, 0)
    ids = np.where(mask, tokens.ids[source], pad)
    types = np.where(mask, tokens.types[source], 0)
    content = mask & tokens.content[source]
    return Batch(
        ids=on_device(ids.astype(np.int64), device),
        mask=on_device(mask, device),
        types=on_device(types.astype(np.int64), device),
        content=on_device(content, device),
        y=labels_of(tokens, index, device),
        rates=rates,
    )


def labels_of(tokens: Tokens, index: Index, device: torch.device) -> Tensor:
    """Return the labels of some rows, `[B]`: int64 classes or float32 scores."""
    y = tokens.y[index]
    return on_device(
        y.astype(np.float32 if np.issubdtype(y.dtype, np.floating) else np.int64), device
    )


def on_device(array: npt.NDArray[np.generic], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device, without blocking the host."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":  # a larger copy from pageable memory blocks the host
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
