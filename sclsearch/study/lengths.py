"""How long a study's texts are, for counting what training takes; no token ids."""

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
"""Share of cut texts that needs no note."""
FEW_UNKNOWN = 0.05
"""Share of unknown tokens that needs no note."""


def sampled(study: Study, splits: Splits) -> dict[int, TokenizedTask]:
    """Returns the lengths of all rows that are read, by `max_length`.

    At most 200 drawn rows of a split are tokenised; their lengths stand for those of the others.

    Args:
        study: The study.
        splits: Rows of a replicate.

    Raises:
        SclsearchError: As `tokenised`.
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
    """Returns the task as if every text were one token, for counting rows."""
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
    """Returns rows of some lengths; one of length 0 has that of another in its place."""
    filled = np.where(lengths > 0, lengths, np.resize(lengths[lengths > 0], len(lengths)))
    return Tokens(
        ids=np.empty(0, dtype=np.int32),
        types=np.empty(0, dtype=np.int8),
        content=np.empty(0, dtype=np.bool_),
        starts=np.concatenate([[0], np.cumsum(filled)]).astype(np.int64),
        y=y,
    )


def reading_notes(study: Study, splits: Splits) -> list[str]:
    """Return what a reader must know of texts that are cut, and of tokens that are unknown.

    Args:
        study: The study; its greatest `max_length` counts.
        splits: Rows of a replicate, of which at most 200 of a split are tokenised.
    """
    from sclsearch.encoders.load import load_tokenizer

    try:
        tokenizer = load_tokenizer(study.model)
    except SclsearchError:
        return []  # the check of the model says it
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
