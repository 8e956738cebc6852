"""Easy data augmentation, EDA (Wei & Zou, 2019, https://arxiv.org/abs/1901.11196)."""

import re

import numpy as np

from sclsearch.randomness import stream

ALPHA = 0.1
# Increase it when the paraphrases of a text change.
VERSION = 1
# Operations of the first, second and third paraphrase; further ones repeat them with new draws.
OPERATIONS = ("swap", "deletion", "swap-deletion")

# Punctuation, kana and ideographs of scripts without spaces between words.
_LETTER = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff"
_WORD = re.compile(rf"([{_LETTER}]|[^\s{_LETTER}]+)(\s*)")


def eda(text: str, views: int = 2) -> tuple[str, ...]:
    """Return paraphrases of the text: words swapped, words deleted, both, and so on in turn.

    Random swap exchanges two words max(1, αl) times in a text of l words. Random deletion drops
    each word with probability α. As in the paper, α is 0.1. The draws depend only on the text and
    the paraphrase's position.

    Departures from the paper: synonym replacement and random insertion are missing, since they need
    WordNet. Every third paraphrase uses two operations; all others use one, as in the paper. Case
    and punctuation stay. A Chinese or Japanese character is a word. At least one word is deleted
    and at least one stays. Hence the first two paraphrases of a text with two or more words always
    differ. A shorter text stays unchanged.

    Args:
        text: The text.
        views: Number of paraphrases.
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
