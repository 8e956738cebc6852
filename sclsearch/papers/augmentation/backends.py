"""Interface of a paraphrasing back-end, and the back-end without translation: EDA."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sclsearch.errors import SclsearchError
from sclsearch.tasks.paraphrases import EDA_NOTE, EDA_VERSION, eda


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a paraphrasing back-end; None uses the back-end's default.

    Attributes:
        views: Paraphrases per text, two or more.
        pivot: Language of the round-trip translation, `de`.
        second_pivot: Language for every second paraphrase.
        temperature: Sampling temperature.
        seed: Sampling seed.
        models: Folder with the folders of the translation models.
    """

    views: int = 2
    pivot: str | None = None
    second_pivot: str | None = None
    temperature: float | None = None
    seed: int | None = None
    models: Path | None = None


class Backend(Protocol):
    """Generator of paraphrases."""

    @property
    def at_once(self) -> int:
        """Number of rows whose texts it receives per call."""
        ...

    @property
    def english(self) -> bool:
        """True if the texts must be English."""
        ...

    def header(self) -> dict[str, Any]:
        """Return the header of a paraphrase file.

        It has `source` and `note` for readers, and all other settings that determine the
        paraphrases.

        Raises:
            SclsearchError: A required resource is unavailable.
        """
        ...

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the paraphrases of each text, a pure function of the texts and the header.

        A paraphrase is empty if the back-end found none. No text is blank.
        """
        ...


class EDA:
    """Easy data augmentation: the paraphrases that methods use without a file.

    Raises:
        SclsearchError: An option does not apply to EDA; the message names all of these.
    """

    at_once = 1000
    english = False

    def __init__(self, options: Options) -> None:
        unused = ("pivot", "second_pivot", "temperature", "seed", "models")
        faults = [
            f"--{name.replace('_', '-')}: does not apply to --backend eda, got {given}. "
            "Leave it out."
            for name in unused
            if (given := getattr(options, name)) is not None
        ]
        if faults:
            raise SclsearchError("\n".join(faults))
        self.views = options.views

    def header(self) -> dict[str, Any]:
        """Return the description of EDA for the file."""
        return {"source": "EDA", "note": EDA_NOTE, "version": EDA_VERSION}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return paraphrases of each text: words swapped, words deleted, and so on."""
        return [eda(text, self.views) for text in texts]
