"""Paraphrases by easy data augmentation, where there is no translation."""

from collections.abc import Sequence
from typing import Any

from sclsearch.papers.augmentation.base import Options
from sclsearch.tasks.eda import VERSION, eda
from sclsearch.tasks.paraphrases import EDA_NOTE


class EDA:
    """Random swap, deletion and both: the very paraphrases that stand in where no file is given.

    Raises:
        SclsearchError: An option has no meaning for it.
    """

    at_once = 1000
    english = False

    def __init__(self, options: Options) -> None:
        options.refuse(
            ("pivot", "second_pivot", "temperature", "seed", "models"),
            "EDA translates nothing and draws by the text alone",
        )
        self.views = options.views

    def header(self) -> dict[str, Any]:
        """Returns what EDA is."""
        return {"source": "EDA", "note": EDA_NOTE, "version": VERSION}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns each text with words swapped, with words deleted, and so on."""
        return [eda(text, self.views) for text in texts]
