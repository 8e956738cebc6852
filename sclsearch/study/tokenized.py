"""Tokenization of a study's texts, once for each maximum length."""

from collections.abc import Iterable, Mapping

from sclsearch.encoders.load import load_tokenizer
from sclsearch.protocols.base import Rows, Splits, by_split
from sclsearch.study.study import Study
from sclsearch.tasks.base import Index, TaskData, Texts
from sclsearch.tasks.paraphrases import Paraphrases
from sclsearch.training.joined import join, joined_rows
from sclsearch.training.tokens import TokenizedTask, tokenize_task


def tokenized(
    study: Study, replicates: Iterable[Splits], *, most: int | None = None
) -> dict[int, TokenizedTask]:
    """Return token ids, and paraphrases if the study reads them, by `max_length`.

    Args:
        study: The study.
        replicates: Rows of the replicates.
        most: Number of rows per split to tokenize, evenly spaced; the others have no tokens. None
            tokenizes all rows.

    Raises:
        SclsearchError: The file of paraphrases lacks some of the texts.
    """
    used = by_split(rows for splits in replicates for rows in splits.rows.values())
    if most is not None:
        used = {split: index[:: -(-len(index) // most)] for split, index in used.items()}
    data, views, used["train"] = paraphrased(study, used["train"])
    tokenizer = load_tokenizer(study.model)
    return {
        length: tokenize_task(data, tokenizer, length, views, used) for length in study.lengths()
    }


def paraphrased(
    study: Study, drawn: Index
) -> tuple[TaskData, Mapping[Texts, Paraphrases] | None, Index]:
    """Return the task with joined rows, the paraphrases or None, and the training rows.

    Args:
        study: The study.
        drawn: All training rows that the replicates draw.

    Raises:
        SclsearchError: The file of paraphrases lacks some of the texts.
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
