"""Data of a seed run: tokenized texts as flat arrays, added paraphrases, and batches of tensors.

A text of a file passes five types: `DataFrame`, `Split` and `TaskData` when it is loaded, `Tokens`
and `Batch` when it is trained on. `SeedRunSpec.splits` selects rows by their numbers alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sclsearch.encoders.load import beginnings
from sclsearch.methods.base import Batch, Stage
from sclsearch.protocols.base import Rows
from sclsearch.randomness import stream
from sclsearch.tasks.base import Index, Labels, Split, TaskData, Texts
from sclsearch.training.optimizer import purpose, updates_of, updates_per_epoch
from sclsearch.training.spec import SeedRunSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PARAPHRASES = "paraphrases"
"""Name of the tokens of all first paraphrases of the training texts, then all second ones; without
tokens for a text that has none."""
GPU_WIDTHS = 32
"""On a GPU, batches are padded to a multiple of this length, so that few shapes of batches occur.

A change of it needs a new `GPU_ENGINE_VERSION`.
"""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokenized rows of one split, concatenated."""

    ids: npt.NDArray[np.int32]  # [tokens]
    types: npt.NDArray[np.int8]  # segment of each token, [tokens]
    content: npt.NDArray[np.bool_]  # True at tokens that are not special, [tokens]
    starts: npt.NDArray[np.int64]  # start of each row, and the end of the last row, [rows + 1]
    y: Labels  # [rows]
    max_length: int  # most tokens of a row; longer texts are truncated
    pad: int  # token id of padding

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.starts)

    def lengths_of(self, index: Index) -> npt.NDArray[np.int64]:
        return self.starts[index + 1] - self.starts[index]

    def occurring(self, index: Index) -> npt.NDArray[np.int32]:
        """Return the distinct token ids of some rows, ascending."""
        read = np.zeros(len(self.y), dtype=np.bool_)
        read[index] = True
        return np.unique(self.ids[np.repeat(read, self.lengths)])


def tokenize_task(
    data: TaskData,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    paraphrases: Mapping[Texts, tuple[Texts, ...]] | None = None,
    used: Mapping[str, Index] | None = None,
) -> dict[str, Tokens]:
    """Return the tokens of each split, with each text or pair truncated to `max_length` tokens.

    Of the `paraphrases` of training texts, the first two are tokenized, as `PARAPHRASES`. `used`
    has the row numbers to tokenize, by split; None tokenizes all rows.
    """
    splits = {}
    for name in data.splits if used is None else used:
        split = data.splits[name]
        wanted = range(len(split)) if used is None else {*used[name].tolist()}
        texts = [row if number in wanted else None for number, row in enumerate(split.texts)]
        splits[name] = _encode(texts, split.y, tokenizer, max_length)
    if paraphrases is not None:
        rows, y = data.splits["train"].texts, data.splits["train"].y
        known = paraphrases.keys()
        texts = [paraphrases[row][n] if row in known else None for n in (0, 1) for row in rows]
        splits[PARAPHRASES] = _encode(texts, np.concatenate([y, y]), tokenizer, max_length)
    return splits


def _encode(
    texts: Sequence[Texts | None], y: Labels, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> Tokens:
    given = [number for number, row in enumerate(texts) if row is not None]
    columns = [list(column) for column in zip(*filter(None, texts), strict=True)]
    if len(columns) == 1:  # the cut of a pair depends on the lengths of both texts
        columns = [beginnings(tokenizer, columns[0], max_length)]
    encoded = tokenizer(
        *columns, truncation=True, max_length=max_length, return_token_type_ids=True
    )
    lengths = np.zeros(len(texts), dtype=np.int64)
    lengths[given] = [len(row) for row in encoded["input_ids"]]
    ids = np.concatenate(encoded["input_ids"]).astype(np.int32)
    return Tokens(
        ids=ids,
        types=np.concatenate(encoded["token_type_ids"]).astype(np.int8),
        content=~np.isin(ids, tokenizer.all_special_ids),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        y=y,
        max_length=max_length,
        pad=int(tokenizer.pad_token_id or 0),
    )


def join(data: TaskData, views: Mapping[Texts, tuple[Texts, ...]], count: int) -> TaskData:
    """Return the task with `count` paraphrases of each training row, which have the row's label.

    Texts that are not in `views` get empty paraphrases. The task's digest does not change.
    """
    train = data.splits["train"]
    train = train.take(np.arange(train.labeled))
    paraphrases = [
        views[row][view] if row in views else () for view in range(count) for row in train.texts
    ]
    parents = np.tile(np.arange(len(train)), 1 + count)
    longer = Split((*train.texts, *paraphrases), train.y[parents])
    return replace(data, splits={**data.splits, "train": longer})


def joined_rows(drawn: Rows, count: int, total: int) -> Rows:
    """Return the drawn rows and their K paraphrases, among the `total` rows of all texts."""
    starts = np.arange(0, total, total // (1 + count))
    return Rows(drawn.split, (starts[:, None] + drawn.index).reshape(-1))


def rows_of(spec: SeedRunSpec, tokens: Mapping[str, Tokens], stage: Stage) -> Rows:
    """Return the training rows of a stage; include unlabeled texts if it reads no labels."""
    if not stage.labeled and spec.splits.unlabeled is not None:
        return spec.splits.unlabeled
    drawn = spec.splits.train
    return joined_rows(drawn, spec.joined, len(tokens[drawn.split].y))


def inputs(
    spec: SeedRunSpec, tokens: Mapping[str, Tokens], stage: Stage, index: Index
) -> tuple[Tokens, Index]:
    """Return the input of a stage for some rows: their texts, or two paraphrases of each."""
    if stage.reads == "paraphrases":
        return _both_paraphrases(tokens, index)
    return tokens[spec.splits.train.split], index


def occurring(spec: SeedRunSpec, tokens: Mapping[str, Tokens]) -> Index:
    """Return the ids of all tokens in the texts of a seed run, and of padding, ascending."""
    splits = spec.splits
    train = tokens[splits.train.split]
    trained = splits.unlabeled or joined_rows(splits.train, spec.joined, len(train.y))
    read = [(tokens[r.split], r.index) for r in (trained, splits.validation, splits.test)]
    if PARAPHRASES in tokens:
        read.append(_both_paraphrases(tokens, trained.index))
    found = [split.occurring(index) for split, index in read]
    return np.unique(np.concatenate([*found, [train.pad]])).astype(np.int64)


def _both_paraphrases(tokens: Mapping[str, Tokens], index: Index) -> tuple[Tokens, Index]:
    """Return all paraphrases, and the row numbers of both paraphrases of some texts."""
    both = tokens[PARAPHRASES]
    return both, np.concatenate([index, index + len(both.y) // 2])


def batches_in_order(
    y: Labels, stage: Stage, remaining: int, seed: int, most: int | None
) -> Iterator[Index]:
    """Yield positions of the rows of each batch of a stage that `remaining` stages follow.

    `y` are the labels of the rows that the stage reads, `[rows]`.
    """
    rows, training = len(y), stage.training
    size, per_epoch = training.batch_size, updates_per_epoch(rows, training)
    total = updates_of(rows, stage, most)
    if stage.batches is not None:
        rng = stream(seed, purpose("batches", remaining))
        yield from islice(stage.batches(y, size, rng), total)
        return
    for epoch in range(-(-total // per_epoch)):
        order = stream(seed, purpose(f"order/{epoch}", remaining)).permutation(rows)
        for batch in range(min(per_epoch, total - epoch * per_epoch)):
            yield order[batch * size : (batch + 1) * size]


def by_length(lengths: npt.NDArray[np.int64], size: int) -> Iterator[Index]:
    """Yield the positions of batches of rows of similar length, for passes without an order."""
    order = np.argsort(lengths, kind="stable").astype(np.int64)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def by_tokens(widths: npt.NDArray[np.int64], most: int) -> Iterator[Index]:
    """Yield the positions of batches of rows of similar width, at most `most` tokens with padding.

    A row that is wider has a batch of its own.
    """
    order = np.argsort(widths, kind="stable").astype(np.int64)
    start = 0
    while start < len(order):
        tokens = np.arange(1, len(order) - start + 1) * widths[order[start:]]
        size = max(int(np.searchsorted(tokens, most, side="right")), 1)
        yield order[start : start + size]
        start += size


def padded_widths(tokens: Tokens, index: Index, device: torch.device) -> npt.NDArray[np.int64]:
    """Return the least width of a batch with each row, `[B]`: its tokens, on a GPU rounded up.

    A width never exceeds `max_length`, where the encoder's positions may end.
    """
    lengths = tokens.lengths_of(index)
    if device.type != "cuda":
        return lengths
    return np.minimum(-(-lengths // GPU_WIDTHS) * GPU_WIDTHS, tokens.max_length)


def collate(
    tokens: Tokens, index: Index, dropout_rates: tuple[float, ...], device: torch.device
) -> Batch:
    """Return rows of a split as a batch, padded to one width; see `padded_widths`."""
    starts, lengths = tokens.starts[index], tokens.lengths_of(index)
    columns = np.arange(padded_widths(tokens, index, device).max())
    mask = columns < lengths[:, None]  # [B, T]
    source = np.where(mask, starts[:, None] + columns, 0)
    ids = np.where(mask, tokens.ids[source], tokens.pad)
    types = np.where(mask, tokens.types[source], 0)
    content = mask & tokens.content[source]
    return Batch(
        ids=on_device(ids.astype(np.int64), device),
        mask=on_device(mask, device),
        types=on_device(types.astype(np.int64), device),
        content=on_device(content, device),
        y=labels_of(tokens, index, device),
        dropout_rates=dropout_rates,
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
