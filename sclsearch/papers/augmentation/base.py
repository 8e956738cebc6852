"""Interface of a paraphrasing back-end, and its options."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sclsearch.errors import SclsearchError

PAPERS = "the papers' Marian en-de-en/en-zh-en"


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

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Reject options that a back-end does not use.

        Args:
            names: Names of the unused options.
            reason: Reason in the message.

        Raises:
            SclsearchError: Some of them are given; the message names all of these.
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


def round_trips(languages: Iterable[str]) -> str:
    """Return a phrase such as `en-de-en and en-zh-en`."""
    return " and ".join(f"en-{language}-en" for language in dict.fromkeys(languages))
