"""What a back-end of paraphrases is, and what a user may tell it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sclsearch.errors import SclsearchError

PAPERS = "the papers' Marian en-de-en/en-zh-en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user tells a back-end; None leaves it to the back-end.

    Attributes:
        views: Paraphrases of each text, two or more.
        pivot: Language that a text is translated to and back from, `de`.
        second_pivot: The language of every second paraphrase.
        temperature: Of sampling.
        seed: Of sampling.
        models: Folder with the folders of the translation models.
    """

    views: int = 2
    pivot: str | None = None
    second_pivot: str | None = None
    temperature: float | None = None
    seed: int | None = None
    models: Path | None = None

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Refuses options that a back-end has no use for.

        Raises:
            SclsearchError: Some of them are given; the message names all.
        """
        given = {name: getattr(self, name) for name in names}
        faults = [
            f"--{name.replace('_', '-')}: it must be left out, for {reason}, but it is {value}."
            for name, value in given.items()
            if value is not None
        ]
        if faults:
            raise SclsearchError("\n".join(faults))


class Backend(Protocol):
    """Makes paraphrases."""

    @property
    def at_once(self) -> int:
        """How many rows' texts it is given at a time."""
        ...

    @property
    def english(self) -> bool:
        """Whether the texts must be English."""
        ...

    def header(self) -> dict[str, Any]:
        """Returns `source` and `note` for a reader, and all else that determines its paraphrases.

        Raises:
            SclsearchError: Something that it needs cannot be had.
        """
        ...

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns the paraphrases of each text, a pure function of the texts and the header.

        A paraphrase is empty where the back-end found none. No text is blank.
        """
        ...


def round_trips(languages: Iterable[str]) -> str:
    """Returns `en-de-en and en-zh-en`."""
    return " and ".join(f"en-{language}-en" for language in dict.fromkeys(languages))
