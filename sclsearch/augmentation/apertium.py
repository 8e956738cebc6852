"""Back-translation by Apertium, which translates by rules (Forcada et al., 2011)."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sclsearch.augmentation.base import PAPERS, Options, round_trips
from sclsearch.canonical import digest, file_digest
from sclsearch.errors import SclsearchError, lookup

PROGRAM = "apertium"
# Apertium's name of a language that Debian has a package with English for.
LANGUAGES: Mapping[str, str] = MappingProxyType({"es": "spa", "ca": "cat"})
MARKS = "@#"


class Apertium:
    """English to another language and back, without sampling.

    As it draws nothing, further paraphrases by the same language are those of the paraphrase
    before: it is translated there and back once more. Its tagger remembers a little of the text
    before, so that a paraphrase can depend on the texts that are translated together.

    Raises:
        SclsearchError: An option has no meaning for it, or a program or a language is missing.
    """

    at_once = 500
    english = True

    def __init__(self, options: Options) -> None:
        options.refuse(
            ("temperature", "seed", "models"), "Apertium translates by rules and samples nothing"
        )
        given = [options.pivot or "es", options.second_pivot]
        self.views = options.views
        self.pivots = [language for language in given if language is not None]
        for language in self.pivots:
            lookup(LANGUAGES, language, "language of Apertium")
        self._modes = _modes(self.pivots)

    def header(self) -> dict[str, Any]:
        """Returns the languages, the program's version and digests of its dictionaries."""
        trips = round_trips(self.pivots)
        version = subprocess.run([PROGRAM, "-V"], capture_output=True, text=True, check=True)
        return {
            "source": f"Apertium {trips}, by rules, not sampled",
            "note": f"paraphrases: Apertium {trips}, not {PAPERS}",
            "version": version.stdout.strip(),
            "models": {name: _mode_digest(mode) for name, mode in self._modes.items()},
            "temperature": None,
        }

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns the round trips of each text."""
        last = {pivot: [" ".join(text.split()) for text in texts] for pivot in self.pivots}
        views = []
        for view in range(self.views):
            pivot = self.pivots[view % len(self.pivots)]
            last[pivot] = _round_trip(last[pivot], LANGUAGES[pivot])
            views.append(last[pivot])
        return list(zip(*views, strict=True))


def _round_trip(texts: list[str], language: str) -> list[str]:
    back = _translated(_translated(texts, f"eng-{language}"), f"{language}-eng")
    return [_unmarked(new, text) for new, text in zip(back, texts, strict=True)]


def _translated(texts: list[str], direction: str) -> list[str]:
    # A blank line ends a sentence; a single line end does not, with `-f line` neither, and words
    # would be read together with the next text's. The space keeps a full stop at the end.
    done = subprocess.run(
        [PROGRAM, "-u", direction],
        input="".join(f"{text} \n\n" for text in texts).encode(),
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    lines = done.stdout.decode().split("\n")
    return [" ".join(line.split()) for line in lines[: 2 * len(texts) : 2]]


def _unmarked(new: str, text: str) -> str:
    # Apertium marks words that it can read and not write, `darse# cuenta`.
    for mark in MARKS:
        if mark not in text:
            new = new.replace(mark, "")
    return new.strip()


def _modes(pivots: Sequence[str]) -> dict[str, Path]:
    """Returns the file of each direction."""
    pairs = [(f"eng-{LANGUAGES[pivot]}", f"{LANGUAGES[pivot]}-eng") for pivot in pivots]
    directions = list(dict.fromkeys(name for pair in pairs for name in pair))
    program = shutil.which(PROGRAM)
    modes = {} if program is None else {name: _mode(program, name) for name in directions}
    missing = [name for name, mode in modes.items() if not mode.is_file()]
    if missing or program is None:
        there = f"it lacks {', '.join(missing)}" if program else "there is no such program"
        packages = " ".join(dict.fromkeys(f"apertium-{forth}" for forth, _ in pairs))
        raise SclsearchError(
            f"--backend apertium: the program {PROGRAM!r} must be there and translate "
            f"{', '.join(directions)}, but {there}. On Debian: apt-get install {packages}"
        )
    return modes


def _mode(program: str, direction: str) -> Path:
    prefix = Path(program).resolve().parents[1]
    return prefix / "share" / "apertium" / "modes" / f"{direction}.mode"


def _mode_digest(mode: Path) -> str:
    """Returns the SHA-256 over the dictionaries and rules that a direction reads."""
    named = re.findall(r"'(/[^']+)'", mode.read_text(encoding="utf-8"))
    return digest([file_digest(Path(path)) for path in named])
