"""Maximum length of a study's texts, from the texts themselves."""

from pathlib import Path

from sclsearch.encoders.load import load_tokenizer
from sclsearch.spaces.practical import covering_length
from sclsearch.tasks.base import TaskData

MOST_TEXTS = 2_000
"""Most training texts whose lengths are counted; they are spread evenly over the rows."""


def usual_length(data: TaskData, folder: Path, positions: int | None) -> int:
    """Return the `max_length` that leaves 95 % of the training texts whole.

    Args:
        data: The task with its rows.
        folder: Folder of the encoder, with its tokenizer.
        positions: Most tokens that the encoder reads; None for no limit.
    """
    texts = data.splits["train"].texts
    sample = texts[:: -(-len(texts) // MOST_TEXTS)]
    columns = map(list, zip(*sample, strict=True))
    ids = load_tokenizer(folder)(*columns, verbose=False)["input_ids"]
    return covering_length(map(len, ids), positions)
