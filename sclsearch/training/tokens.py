"""Tokenized texts as flat arrays, made once per task, tokenizer and maximum length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.tasks.base import Index, Labels, TaskData, Texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokenized rows of one split.

    Attributes:
        ids: Token ids of all rows, concatenated, `[tokens]`.
        types: Segment of each token, `[tokens]`.
        content: True at tokens that are not special, `[tokens]`; the unknown token is special.
        starts: Start of each row, and the end of the last row, `[rows + 1]`.
        y: Labels, `[rows]`.
    """

    ids: npt.NDArray[np.int32]
    types: npt.NDArray[np.int8]
    content: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.int64]
    y: Labels

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each row, `[rows]`."""
        return np.diff(self.starts)

    def lengths_of(self, index: Index) -> npt.NDArray[np.int64]:
        """Return the number of tokens of some rows, `[B]`."""
        return self.starts[index + 1] - self.starts[index]

    def occurring(self, index: Index) -> npt.NDArray[np.int32]:
        """Return the distinct token ids of some rows, ascending."""
        read = np.zeros(len(self.y), dtype=np.bool_)
        read[index] = True
        return np.unique(self.ids[np.repeat(read, self.lengths)])


@dataclass(frozen=True, slots=True)
class TokenizedTask:
    """Tokenized task: the form that the engine reads.

    Attributes:
        splits: Tokenized rows, by split.
        classes: C, number of classes; 0 in regression.
        pad: Token id of padding.
        paraphrases: Two paraphrases of each training text: all first ones, then all second ones.
            Texts without paraphrases have no tokens. None if no stage reads paraphrases.
    """

    splits: Mapping[str, Tokens]
    classes: int
    pad: int
    paraphrases: Tokens | None = None

    def paraphrases_of(self, index: Index) -> tuple[Tokens, Index]:
        """Return all paraphrases, and the row numbers of both paraphrases of some texts."""
        if self.paraphrases is None:
            raise ValueError("a stage reads paraphrases, but the task was tokenised without")
        return self.paraphrases, np.concatenate([index, index + len(self.paraphrases.y) // 2])


def tokenize_task(
    data: TaskData,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    paraphrases: Mapping[Texts, tuple[Texts, ...]] | None = None,
    used: Mapping[str, Index] | None = None,
) -> TokenizedTask:
    """Return the tokenized task, with each text or pair truncated to `max_length` tokens.

    Args:
        data: The task.
        tokenizer: Tokenizer of the model.
        max_length: Most tokens of a text or pair.
        paraphrases: Paraphrases of the training texts, at least two of each. Only the first two
            are tokenized, for methods that read paraphrases.
        used: Rows to tokenize, by split; other rows get no tokens. None means all rows.
    """
    if used is None:
        used = {name: np.arange(len(split)) for name, split in data.splits.items()}
    splits = {}
    for name, index in used.items():
        split = data.splits[name]
        read = np.zeros(len(split), dtype=np.bool_)
        read[index] = True
        texts = [row if wanted else None for row, wanted in zip(split.texts, read, strict=True)]
        splits[name] = _encode(texts, split.y, tokenizer, max_length)
    both = None
    if paraphrases is not None:
        train = data.splits["train"]
        texts = [
            paraphrases[row][view] if row in paraphrases else None
            for view in range(2)
            for row in train.texts
        ]
        both = _encode(texts, train.y[np.tile(np.arange(len(train)), 2)], tokenizer, max_length)
    pad = tokenizer.pad_token_id
    return TokenizedTask(splits, len(data.task.labels), 0 if pad is None else int(pad), both)


def _encode(
    texts: Sequence[Texts | None],
    y: Labels,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
) -> Tokens:
    """Return the tokenized rows; a row whose text is None has no tokens."""
    given = [number for number, row in enumerate(texts) if row is not None]
    columns = [list(column) for column in zip(*filter(None, texts), strict=True)]
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
    )
