"""Paraphrases of texts, from a user's JSON Lines file or from EDA.

EDA is easy data augmentation (Wei & Zou, 2019, https://arxiv.org/abs/1901.11196).

The first line of a file describes it; further keys are allowed:

    {"paraphrases": 1, "source": "back-translation en-de-en and en-zh-en, opus-mt"}

Every other line has a text, or the two of a pair, and two or more paraphrases. The first ones are
used:

    {"text": ["A fine film."], "paraphrases": [["A good movie."], ["The film is fine."]]}
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Len, MinLen
from pydantic import AfterValidator, BaseModel, ValidationError, model_validator

from sclsearch.arguments import fault_texts
from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.tasks.base import Texts
from sclsearch.tasks.tables import character_fault, check_values, read_records

FORMAT = 1
# Number of paraphrases per text that a method reads.
READ = 2

# Increase it when EDA's paraphrases of a text change.
EDA_VERSION = 1
EDA_NOTE = "paraphrases: EDA (random swap and deletion), not back-translation"
ALPHA = 0.1
# Operations of the first, second and third paraphrase; further ones repeat them with new draws.
OPERATIONS = ("swap", "deletion", "swap-deletion")
# Punctuation, kana and ideographs of scripts without spaces between words.
_LETTER = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff"
_WORD = re.compile(rf"([{_LETTER}]|[^\s{_LETTER}]+)(\s*)")

Paraphrases = tuple[Texts, ...]


@dataclass(frozen=True, slots=True)
class ParaphraseSource:
    """Source of the paraphrases of each text: EDA, or a file."""

    name: str  # for people: `EDA`, or the source that the file states
    path: Path | None
    note: str  # for readers of the scores
    count: int  # paraphrases used per text
    temperature: float | None = None  # of sampling, if the file states it
    rows: Mapping[Texts, Paraphrases] = field(default_factory=dict, repr=False, compare=False)

    def views(self, texts: Iterable[Texts], kind: str = "text") -> dict[Texts, Paraphrases]:
        """Return the paraphrases of each text; the texts of a pair are paraphrased separately.

        `kind` is the noun for the texts in errors.
        """
        wanted = dict.fromkeys(texts)
        if self.path is None:
            return {
                row: tuple(zip(*(eda(text, self.count) for text in row), strict=True))
                for row in wanted
            }
        missing = [row for row in wanted if len(self.rows.get(row, ())) < self.count]
        if missing:
            raise SclsearchError(
                f"{self.path}: every {kind} must have {self.count} paraphrases, {len(missing)} of "
                f"{len(wanted)} have fewer, the first {list(missing[0])}. Add them with the exact "
                "characters of the text."
            )
        return {row: self.rows[row] for row in wanted}

    def digest_of(self, texts: Iterable[Texts], joined: int = 0) -> str:
        """Return the SHA-256 of the paraphrases used of some texts, or of EDA's version.

        `joined` paraphrases of each text count as texts too. The rest of the file, such as its date
        and author, does not affect results or the digest.
        """
        if self.path is None:
            return digest(["eda", EDA_VERSION])
        found = {text: self.rows.get(text, ()) for text in texts}
        further = [view for views in found.values() for view in views[:joined]]
        found |= {view: self.rows.get(view, ()) for view in further}
        return digest([FORMAT, *sorted(found.items())])


def paraphrase_source(path: Path | None, count: int = READ) -> ParaphraseSource:
    """Return the source of a file, or EDA; paraphrases after `count` do not affect results."""
    if path is None:
        return ParaphraseSource("EDA", None, EDA_NOTE, count)
    header, *records = read_records(path) or [{}]
    if not header:
        raise SclsearchError(f"{path}: the file is empty. Add a header and texts.")
    faults = [(0, reason) for reason in _faults(_Header, header)]
    rows: dict[Texts, Paraphrases] = {}
    first: dict[Texts, int] = {}
    for row, record in enumerate(records, 1):
        if wrong := _faults(_Record, record):
            faults += [(row, reason) for reason in wrong]
            continue
        text = tuple(record["text"])
        views = tuple(tuple(paraphrase) for paraphrase in record["paraphrases"][:count])
        earlier = first.setdefault(text, row)
        if rows.setdefault(text, views) != views:
            faults.append((row, f"the text has other paraphrases in row {earlier + 1}"))
    check_values(str(path), faults)
    note, temperature = header.get("note", ""), header.get("temperature")
    return ParaphraseSource(header["source"], path, note, count, temperature, rows)


def _check_text(text: str) -> str:
    if fault := character_fault(text):
        raise ValueError(fault)
    return text


Text = Annotated[str, AfterValidator(_check_text)]


class _Header(BaseModel, strict=True):
    paraphrases: Literal[1]  # FORMAT
    source: Annotated[Text, MinLen(1)]
    note: Text = ""
    temperature: float | None = None


class _Record(BaseModel, strict=True, extra="forbid"):
    text: Annotated[list[Text], Len(1, 2)]
    paraphrases: Annotated[list[list[Text]], MinLen(2)]

    @model_validator(mode="after")
    def check(self) -> "_Record":
        for n, views in enumerate(self.paraphrases):
            pairs = zip(self.text, views, strict=False)
            # If one text of a pair is empty in the data, as in QQP, it needs no paraphrase.
            empty = any(part.strip() and not view.strip() for part, view in pairs)
            if empty or len(views) != len(self.text):
                raise ValueError(f"paraphrases[{n}]: must have {len(self.text)} texts, got {views}")
        return self


def _faults(form: type[BaseModel], record: Mapping[str, Any]) -> list[str]:
    try:
        form.model_validate(record)
    except ValidationError as error:
        return fault_texts(error, form.model_fields)
    return []


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
        for _ in range(max(1, int(ALPHA * len(words)))):
            one, other = rng.choice(len(words), 2, replace=False).tolist()
            words[one], words[other] = words[other], words[one]
    if "deletion" in operation:
        kept = _keep(len(words), rng)
        words, gaps = [words[i] for i in kept], [gaps[i] for i in kept]
    return "".join(word + gap for word, gap in zip(words, gaps, strict=True)).strip()


def _keep(length: int, rng: np.random.Generator) -> list[int]:
    kept = rng.random(length) >= ALPHA
    if kept.all() or not kept.any():
        kept[rng.integers(length)] ^= True
    return np.flatnonzero(kept).tolist()
