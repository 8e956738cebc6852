"""Write the rows of the `demo` task: `python -m tools.demo`, in the root of the repository.

The rows are English minimal pairs: two sentences that differ in one thing, which decides whether
the sentence is acceptable. The result is deterministic, and a test compares it with the file.
"""

import csv
import gzip
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from sclsearch.randomness import stream
from tools.demo.grammar import PHENOMENA
from tools.demo.words import Draw, words_of

TARGET = Path(__file__).parents[2] / "sclsearch" / "tasks" / "demo.csv.gz"

# A small encoder hardly learns these from some hundred rows. They stay, as room for a better
# method, but at half the share, so that the rest lifts a score clear of chance.
HARD = frozenset({"agreement", "reflexive", "determiner", "comparative"})
_ROUND = (*PHENOMENA, *(name for name in PHENOMENA if name not in HARD))

# Two rows per pair.
PAIRS: Mapping[str, int] = {"train": 1000, "validation": 250, "test": 250}


@dataclass(frozen=True, slots=True)
class Pair:
    """Minimal pair.

    Attributes:
        phenomenon: What the sentences differ in, a name in `grammar.PHENOMENA`.
        acceptable: The good sentence.
        unacceptable: The bad sentence.
    """

    phenomenon: str
    acceptable: str
    unacceptable: str


@cache
def pairs(split: str) -> tuple[Pair, ...]:
    """Return the pairs of `train`, `validation` or `test`; the phenomena take turns.

    No sentence occurs twice, and the splits share no content word.
    """
    words = words_of(split)
    streams = {name: stream(0, f"demo/{split}/{name}") for name in PHENOMENA}
    seen: set[str] = set()
    turns: Counter[str] = Counter()
    found = []
    for name in islice(cycle(_ROUND), PAIRS[split]):
        draw = Draw(words, streams[name], turn=turns[name])
        turns[name] += 1
        good, bad = _new_pair(name, draw, seen)
        found.append(Pair(name, good, bad))
        seen |= {good, bad}
    return tuple(found)


def rows(split: str) -> list[tuple[str, int]]:
    """Return the sentences of a split with their labels, in random order.

    The first n rows are therefore a fair sample, without their partners.
    """
    both = [row for p in pairs(split) for row in ((p.acceptable, 1), (p.unacceptable, 0))]
    return [both[i] for i in stream(0, f"demo/{split}/order").permutation(len(both))]


def content() -> bytes:
    """Return the CSV file, uncompressed."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("split", "label", "text"))
    writer.writerows((split, label, text) for split in PAIRS for text, label in rows(split))
    return file.getvalue().encode()


def _new_pair(name: str, draw: Draw, seen: set[str]) -> tuple[str, str]:
    while True:
        good, bad = (_sentence(text) for text in PHENOMENA[name](draw))
        if not {good, bad} & seen:
            return good, bad


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")


if __name__ == "__main__":
    TARGET.write_bytes(gzip.compress(content(), mtime=0))
