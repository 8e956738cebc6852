"""A study's texts as token ids, once for each length."""

from collections.abc import Iterable

import numpy as np

from sclsearch.encoders.load import load_tokenizer
from sclsearch.protocols.base import Parts
from sclsearch.search.study import Study
from sclsearch.training.tokens import TokenisedTask, tokenise


def tokenised(study: Study, replicates: Iterable[Parts]) -> dict[int, TokenisedTask]:
    """Returns the token ids of all rows that are read, by `max_length`, and paraphrases if any are.

    Args:
        study: The study.
        replicates: Rows of the replicates.

    Raises:
        SclsearchError: The file of paraphrases lacks some of the texts.
    """
    every = [rows for p in replicates for rows in (p.train, p.validation, p.test)]
    used = {
        split: np.unique(np.concatenate([rows.index for rows in every if rows.split == split]))
        for split in {rows.split for rows in every}
    }
    paraphrases = None
    if study.paraphrases is not None:
        texts = study.data.splits["train"].texts
        paraphrases = study.paraphrases.views(texts[row] for row in used["train"])
    tokenizer = load_tokenizer(study.model)
    return {
        length: tokenise(study.data, tokenizer, length, paraphrases, used)
        for length in study.lengths()
    }
