"""The `demo` task: English acceptability in minimal pairs, made here, so it needs no files."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from types import MappingProxyType

import numpy as np

from sclsearch.randomness import stream
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.demo_grammar import PHENOMENA
from sclsearch.tasks.demo_words import Draw, words_of

DEMO = Task(
    name="demo",
    summary="Is the sentence good English? Minimal pairs from a small grammar, made on the spot",
    labels=("unacceptable", "acceptable"),
    metric="accuracy",
    protocol="plain",
)

# A small encoder hardly learns these from some hundred rows. They stay, as room for a better
# method, but at half the share, so that the rest lifts a score clear of chance.
_HARD = frozenset({"agreement", "reflexive", "determiner", "comparative"})
_ROUND = (*PHENOMENA, *(name for name in PHENOMENA if name not in _HARD))

# Two rows a pair.
_PAIRS: Mapping[str, int] = MappingProxyType({"train": 1000, "validation": 250, "test": 250})


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences that differ in one thing, which decides between good and bad.

    Attributes:
        phenomenon: What that thing is, a name in `demo_grammar.PHENOMENA`.
        acceptable: The good sentence.
        unacceptable: The bad one.
    """

    phenomenon: str
    acceptable: str
    unacceptable: str


@cache
def pairs(split: str) -> tuple[Pair, ...]:
    """Returns the pairs of `train`, `validation` or `test`; the phenomena take turns.

    No sentence comes twice, and no content word of one split is in another.
    """
    words = words_of(split)
    streams = {name: stream(0, f"demo/{split}/{name}") for name in PHENOMENA}
    seen: set[str] = set()
    turns: Counter[str] = Counter()
    found = []
    for name in islice(cycle(_ROUND), _PAIRS[split]):
        draw = Draw(words, streams[name], turn=turns[name])
        turns[name] += 1
        good, bad = _new_pair(name, draw, seen)
        found.append(Pair(name, good, bad))
        seen |= {good, bad}
    return tuple(found)


def load_demo() -> TaskData:
    """Returns 2,000 training, 500 validation and 500 test rows, half of each acceptable."""
    return TaskData(
        task=DEMO,
        splits={name: _split(name) for name in _PAIRS},
        source="sclsearch itself",
    )


def _new_pair(name: str, draw: Draw, seen: set[str]) -> tuple[str, str]:
    while True:
        good, bad = (_sentence(text) for text in PHENOMENA[name](draw))
        if not {good, bad} & seen:
            return good, bad


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")


def _split(name: str) -> Split:
    rows = [row for p in pairs(name) for row in ((p.acceptable, 1), (p.unacceptable, 0))]
    # Rows are shuffled so that the first n of them are a fair sample, without their partners.
    rows = [rows[i] for i in stream(0, f"demo/{name}/order").permutation(len(rows))]
    return Split(
        texts=tuple((text,) for text, _ in rows), y=np.array([y for _, y in rows], dtype=np.int64)
    )
