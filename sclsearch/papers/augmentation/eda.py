"""Paraphrasing back-end without translation: easy data augmentation."""

from collections.abc import Sequence
from typing import Any

from sclsearch.papers.augmentation.base import Options
from sclsearch.tasks.eda import VERSION, eda
from sclsearch.tasks.paraphrases import EDA_NOTE


class EDA:
    """Random swap, random deletion, and both: the paraphrases that methods use without a file.

    Raises:
        SclsearchError: An option does not apply to EDA.
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
        """Return the description of EDA for the file."""
        return {"source": "EDA", "note": EDA_NOTE, "version": VERSION}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return paraphrases of each text: words swapped, words deleted, and so on."""
        return [eda(text, self.views) for text in texts]
