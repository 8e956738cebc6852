"""A study's texts as token ids, once for each length."""

from collections.abc import Iterable

import numpy as np

from sclsearch.encoders.load import load_tokenizer
from sclsearch.protocols.base import Parts
from sclsearch.search.study import Study
from sclsearch.training.tokens import TokenisedTask, tokenise


def tokenised(study: Study, replicates: Iterable[Parts]) -> dict[int, TokenisedTask]:
    """Returns the task's token ids by `max_length`, with paraphrases where the method reads them.

    Args:
        study: The study.
        replicates: Rows of the replicates; only their training texts are paraphrased.

    Raises:
        SclsearchError: The file of paraphrases lacks some of the texts.
    """
    paraphrases = None
    if study.paraphrases is not None:
        texts = study.data.splits["train"].texts
        rows = np.unique(np.concatenate([parts.train.index for parts in replicates]))
        paraphrases = study.paraphrases.views(texts[row] for row in rows)
    tokenizer = load_tokenizer(study.model)
    return {
        length: tokenise(study.data, tokenizer, length, paraphrases) for length in study.lengths()
    }
