"""Texts as flat arrays of token ids, made once a task, tokenizer and length."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.tasks.base import Labels, TaskData

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Tokens:
    """The rows of one split.

    Attributes:
        ids: Token ids of all rows, one row after the other, `[tokens]`.
        types: Segment of each token, `[tokens]`.
        starts: Where each row starts, and the end of the last, `[rows + 1]`.
        y: Labels, `[rows]`.
    """

    ids: npt.NDArray[np.int32]
    types: npt.NDArray[np.int8]
    starts: npt.NDArray[np.int64]
    y: Labels

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each row, `[rows]`."""
        return np.diff(self.starts)


@dataclass(frozen=True, slots=True)
class TokenisedTask:
    """A task as the engine reads it.

    Attributes:
        splits: Rows by split.
        classes: C; 0 in regression.
        pad: Token id of padding.
    """

    splits: Mapping[str, Tokens]
    classes: int
    pad: int


def tokenise(
    data: TaskData, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> TokenisedTask:
    """Returns the task's token ids, every text or pair cut at `max_length` tokens."""
    splits = {}
    for name, split in data.splits.items():
        columns = [list(column) for column in zip(*split.texts, strict=True)]
        encoded = tokenizer(
            *columns, truncation=True, max_length=max_length, return_token_type_ids=True
        )
        lengths = [len(row) for row in encoded["input_ids"]]
        splits[name] = Tokens(
            ids=np.concatenate(encoded["input_ids"]).astype(np.int32),
            types=np.concatenate(encoded["token_type_ids"]).astype(np.int8),
            starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            y=split.y,
        )
    pad = tokenizer.pad_token_id
    return TokenisedTask(splits, len(data.task.labels), 0 if pad is None else int(pad))
