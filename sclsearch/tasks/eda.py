"""Easy data augmentation, EDA (Wei & Zou, 2019, https://arxiv.org/abs/1901.11196)."""

import re

import numpy as np

from sclsearch.randomness import stream

ALPHA = 0.1
# Raised by hand when a text's paraphrases change.
VERSION = 1
# Of the first paraphrase, the second, the third; further ones begin anew with other draws.
OPERATIONS = ("swap", "deletion", "swap-deletion")

# Marks, kana and ideographs of scripts that put no spaces between words.
_LETTER = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff"
_WORD = re.compile(rf"([{_LETTER}]|[^\s{_LETTER}]+)(\s*)")


def eda(text: str, views: int = 2) -> tuple[str, ...]:
    """Returns the text with words swapped, with words deleted, with both, and so on.

    Random swap exchanges two words max(1, αl) times in a text of l words; random deletion drops
    each word with probability α. As in the paper α is 0.1. The draws depend on nothing but the
    text and the paraphrase's place.

    Departs from the paper in this: synonym replacement and random insertion are left out, since
    they need WordNet; every third paraphrase comes from two operations, all others as in the paper
    from one; case and punctuation stay; a Chinese or Japanese character is a word; one word at
    least is deleted and one at least stays, so that the first two paraphrases of a text of two
    words or more always differ. A text of fewer words stays as it is.

    Args:
        text: The text.
        views: How many paraphrases.
    """
    found = _WORD.findall(text)
    if len(found) < 2:
        return (text,) * views
    return tuple(_paraphrase(text, found, view) for view in range(views))


def _paraphrase(text: str, found: list[tuple[str, str]], view: int) -> str:
    turn, place = divmod(view, len(OPERATIONS))
    operation = OPERATIONS[place]
    rng = stream(0, f"eda/{operation}{f'-{turn}' if turn else ''}/{text}")
    words, gaps = [word for word, _ in found], [gap for _, gap in found]
    if "swap" in operation:
        words = _swap(words, rng)
    if "deletion" in operation:
        kept = _keep(len(words), rng)
        words, gaps = [words[i] for i in kept], [gaps[i] for i in kept]
    return "".join(word + gap for word, gap in zip(words, gaps, strict=True)).strip()


def _swap(words: list[str], rng: np.random.Generator) -> list[str]:
    order = list(range(len(words)))
    for _ in range(max(1, int(ALPHA * len(words)))):
        one, other = rng.choice(len(words), 2, replace=False).tolist()
        order[one], order[other] = order[other], order[one]
    return [words[i] for i in order]


def _keep(length: int, rng: np.random.Generator) -> list[int]:
    kept = rng.random(length) >= ALPHA
    if kept.all() or not kept.any():
        kept[rng.integers(length)] ^= True
    return np.flatnonzero(kept).tolist()
