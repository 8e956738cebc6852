"""A study's texts as token ids, once for each length."""

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
    """Returns the token ids of all rows that are read, by `max_length`, and paraphrases if any are.

    Args:
        study: The study.
        replicates: Rows of the replicates.
        most: Rows of a split, taken evenly; the others stay without tokens. None is all.

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
    """Returns the task with the rows that join, paraphrases if any are read, and training rows.

    Args:
        study: The study.
        drawn: All training rows that its replicates draw.

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
