"""Paraphrases by easy data augmentation, where there is no translation."""

from collections.abc import Sequence
from typing import Any

from sclsearch.augmentation.base import Options
from sclsearch.errors import SclsearchError
from sclsearch.tasks.eda import VERSION, eda
from sclsearch.tasks.paraphrases import EDA_NOTE


class EDA:
    """Random swap and random deletion: the very paraphrases that stand in where no file is given.

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
        if options.views != 2:
            raise SclsearchError(
                f"--views: EDA makes 2 paraphrases of a text, but {options.views} are asked for. "
                "Take --views 2 or another --backend."
            )

    def header(self) -> dict[str, Any]:
        """Returns what EDA is."""
        return {"source": "EDA", "note": EDA_NOTE, "version": VERSION}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns each text with words swapped, and with words deleted."""
        return [eda(text) for text in texts]
