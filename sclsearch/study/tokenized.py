"""Tokenization of a study's texts, once for each maximum length."""

from collections.abc import Iterable, Mapping

import numpy as np

from sclsearch.encoders.load import load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Rows, Splits, by_split
from sclsearch.study.study import Study
from sclsearch.tasks.base import Index, TaskData, Texts
from sclsearch.tasks.paraphrases import Paraphrases
from sclsearch.training.data import TokenizedTask, join, joined_rows, tokenize_task

SAMPLE = 200
"""Most texts of a split whose lengths stand for those of all."""
FEW_CUT = 0.1
"""Share of truncated texts below which no note is needed."""
FEW_UNKNOWN = 0.05
"""Share of unknown tokens below which no note is needed."""
FAR = 10.0
"""Mean or standard deviation of scores above which a regression trains badly."""
NARROW = 0.1
"""Standard deviation of scores below which a regression trains badly."""


def tokenized(study: Study, replicates: Iterable[Splits]) -> dict[int, TokenizedTask]:
    """Return token ids, and paraphrases if the study reads them, by `max_length`."""
    replicates = list(replicates)
    used = by_split(rows for splits in replicates for rows in splits.rows.values())
    drawn = by_split(splits.without_labels for splits in replicates)["train"]
    data, views, joined = paraphrased(study, drawn)
    used["train"] = np.union1d(used["train"], joined)
    tokenizer = load_tokenizer(study.model)
    return {
        length: tokenize_task(data, tokenizer, length, views, used) for length in study.lengths()
    }


def paraphrased(
    study: Study, drawn: Index
) -> tuple[TaskData, Mapping[Texts, Paraphrases] | None, Index]:
    """Return the task with joined rows, the paraphrases or None, and the training rows.

    `drawn` has all training rows that the replicates draw.
    """
    data, source, joined = study.data, study.paraphrases, study.protocol.joined
    if source is None:
        return data, None, drawn
    texts = data.splits["train"].texts
    views = source.views(texts[row] for row in drawn)
    if not joined:
        return data, views, drawn
    data = join(data, views, joined)
    texts = data.splits["train"].texts
    rows = joined_rows(Rows("train", drawn), joined, len(texts)).index
    if not study.reads_paraphrases:
        return data, None, rows
    kind = "text and every paraphrase that joins the training rows"
    return data, source.views((texts[row] for row in rows), kind), rows


def sampled_ids(study: Study, splits: Splits) -> list[list[int]]:
    """Return the token ids of some training and test texts of a replicate, without truncation."""
    texts = [
        study.data.splits[rows.split].texts[row]
        for rows in (splits.train, splits.test)
        for row in rows.index[:: -(-len(rows.index) // SAMPLE) or 1]
    ]
    tokenizer = load_tokenizer(study.model)
    ids: list[list[int]] = tokenizer(*map(list, zip(*texts, strict=True)), verbose=False)[
        "input_ids"
    ]
    return ids


def reading_notes(study: Study, splits: Splits) -> list[str]:
    """Return notes on scores, and from a sample of the texts on truncation and unknown tokens."""
    notes = _score_notes(study, splits)
    try:
        texts, unknown_token = sampled_ids(study, splits), load_tokenizer(study.model).unk_token_id
    except SclsearchError:
        return notes  # the model check reports this error
    lengths, most = [len(ids) for ids in texts], study.lengths()[-1]
    cut = sum(length > most for length in lengths)
    if cut > FEW_CUT * len(texts):
        notes.append(
            f"max_length {most} cuts {cut} of {len(texts)} sampled texts, the longest of "
            f"{max(lengths)} tokens: --set max_length=… reads more of them"
        )
    unknown = float(np.mean(np.concatenate(texts) == unknown_token))
    if unknown > FEW_UNKNOWN:
        notes.append(
            f"{unknown:.0%} of the tokens are unknown to {study.model_name}: take a --model of "
            "the texts' language"
        )
    return notes


def _score_notes(study: Study, splits: Splits) -> list[str]:
    """Return a note if the scores of a regression task are far from 0, or nearly equal."""
    if not study.data.task.regression:
        return []
    scores = splits.train.labels(study.data)
    mean, deviation = float(scores.mean()), float(scores.std())
    if abs(mean) <= FAR and NARROW <= deviation <= FAR:
        return []
    return [
        f"the training scores have mean {mean:.3g} and standard deviation {deviation:.3g}: rescale "
        "them to about 0 to 5, because the head starts at 0"
    ]
