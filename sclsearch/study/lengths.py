"""Token counts of a study's texts, without token ids, to estimate the training cost."""

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Splits
from sclsearch.study.study import Study
from sclsearch.study.tokenized import tokenized
from sclsearch.tasks.base import Labels
from sclsearch.training.tokens import TokenizedTask, Tokens

SAMPLE = 200
FEW_CUT = 0.1
"""Share of truncated texts below which no note is needed."""
FEW_UNKNOWN = 0.05
"""Share of unknown tokens below which no note is needed."""


def sampled(study: Study, splits: Splits) -> dict[int, TokenizedTask]:
    """Return the lengths of all rows that the study reads, by `max_length`.

    The tokenizer reads at most 200 rows of each split; their lengths stand for those of the others.

    Args:
        study: The study.
        splits: Rows of a replicate.

    Raises:
        SclsearchError: For the same reasons as in `tokenized`.
    """
    return {
        length: TokenizedTask(
            {name: _of_lengths(split.y, split.lengths) for name, split in task.splits.items()},
            task.classes,
            task.pad,
            task.paraphrases and _of_lengths(task.paraphrases.y, task.paraphrases.lengths),
        )
        for length, task in tokenized(study, [splits], most=SAMPLE).items()
    }


def row_by_row(study: Study) -> TokenizedTask:
    """Return the task with every text as one token, so that token counts are row counts."""
    split = study.data.splits["train"]
    train = split.y[: split.labeled] if study.protocol.joined else split.y
    y = {name: split.y for name, split in study.data.splits.items()}
    y["train"] = train[np.tile(np.arange(len(train)), 1 + study.protocol.joined)]
    both = y["train"][np.tile(np.arange(len(y["train"])), 2)]
    splits = {
        name: _of_lengths(labels, np.ones_like(labels, np.int64)) for name, labels in y.items()
    }
    classes = len(study.data.task.labels)
    return TokenizedTask(splits, classes, 0, _of_lengths(both, np.ones_like(both, np.int64)))


def _of_lengths(y: Labels, lengths: npt.NDArray[np.int64]) -> Tokens:
    """Return rows with the given lengths; a row of length 0 gets the length of another row."""
    filled = np.where(lengths > 0, lengths, np.resize(lengths[lengths > 0], len(lengths)))
    return Tokens(
        ids=np.empty(0, dtype=np.int32),
        types=np.empty(0, dtype=np.int8),
        content=np.empty(0, dtype=np.bool_),
        starts=np.concatenate([[0], np.cumsum(filled)]).astype(np.int64),
        y=y,
    )


def reading_notes(study: Study, splits: Splits) -> list[str]:
    """Return notes on truncated texts and on unknown tokens.

    Args:
        study: The study; the largest `max_length` counts.
        splits: Rows of a replicate; the tokenizer reads at most 200 of each split.
    """
    from sclsearch.encoders.load import load_tokenizer

    try:
        tokenizer = load_tokenizer(study.model)
    except SclsearchError:
        return []  # the model check reports this error
    texts = [
        study.data.splits[rows.split].texts[row]
        for rows in (splits.train, splits.test)
        for row in rows.index[:: -(-len(rows.index) // SAMPLE)]
    ]
    read = tokenizer(*map(list, zip(*texts, strict=True)), verbose=False)["input_ids"]
    lengths, most = [len(ids) for ids in read], study.lengths()[-1]
    cut = sum(length > most for length in lengths)
    notes = []
    if cut > FEW_CUT * len(texts):
        notes.append(
            f"max_length {most} cuts {cut} of {len(texts)} texts, the longest of "
            f"{max(lengths)} tokens: --set max_length=… reads more of them"
        )
    tokens = np.concatenate(read)
    unknown = float(np.mean(tokens == tokenizer.unk_token_id))
    if unknown > FEW_UNKNOWN:
        notes.append(
            f"{unknown:.0%} of the tokens are unknown to {study.model_name}: take a --model of "
            "the texts' language"
        )
    return notes
