"""Sources of paraphrases: a user's JSON Lines file, or EDA without one.

The first line of the file describes it; further keys are allowed:

    {"paraphrases": 1, "source": "back-translation en-de-en and en-zh-en, opus-mt"}

Every other line has a text, or the two of a pair, and two or more paraphrases. The first ones are
used:

    {"text": ["A fine film."], "paraphrases": [["A good movie."], ["The film is fine."]]}
"""

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.tasks.base import Texts
from sclsearch.tasks.eda import VERSION, eda
from sclsearch.tasks.tables import Table, character_fault, check_faults, json_objects

FORMAT = 1
KEYS = ("text", "paraphrases")
SHOWN_FAULTS = 20
# Number of paraphrases per text that a method reads.
READ = 2
EDA_NOTE = "paraphrases: EDA (random swap and deletion), not back-translation"
Paraphrases = tuple[Texts, ...]
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ParaphraseSource:
    """Source of the paraphrases of each text.

    Attributes:
        name: For people: `EDA`, or the source that the file states.
        path: The file; None for EDA.
        note: Remark for readers of the scores; empty if there is none.
        count: Number of paraphrases used per text.
        temperature: Sampling temperature; None for EDA or if the file does not state it.
        rows: Paraphrases used of each text in the file; empty for EDA.
    """

    name: str
    path: Path | None
    note: str
    count: int
    temperature: float | None = None
    rows: Mapping[Texts, Paraphrases] = field(default_factory=dict, repr=False, compare=False)

    def views(self, texts: Iterable[Texts], kind: str = "text") -> dict[Texts, Paraphrases]:
        """Return the paraphrases of each text; the texts of a pair are paraphrased separately.

        Args:
            texts: The texts.
            kind: Noun for the texts in errors.

        Raises:
            SclsearchError: The file lacks some of them; the message has their number and the first
                one.
        """
        wanted = dict.fromkeys(texts)
        if self.path is None:
            return {row: _eda_views(row, self.count) for row in wanted}
        missing = [row for row in wanted if len(self.rows.get(row, ())) < self.count]
        if missing:
            raise SclsearchError(
                f"{self.path}: every {kind} must have {self.count} paraphrases, but "
                f"{len(missing)} of {len(wanted)} have fewer, the first {list(missing[0])}. Add "
                "them; a text is found by its exact characters."
            )
        return {row: self.rows[row] for row in wanted}

    def digest_of(self, texts: Iterable[Texts], joined: int = 0) -> str:
        """Return the SHA-256 of the paraphrases used of some texts, or of EDA's version.

        The rest of the file, such as its date and author, does not affect results or the digest.

        Args:
            texts: The texts; a text that the file lacks counts as one without paraphrases.
            joined: Number of paraphrases of each text that count as texts too.
        """
        if self.path is None:
            return digest(["eda", VERSION])
        found = {text: self.rows.get(text, ()) for text in texts}
        further = [view for views in found.values() for view in views[:joined]]
        found |= {view: self.rows.get(view, ()) for view in further}
        return digest([FORMAT, *sorted(found.items())])


def paraphrase_source(path: Path | None, count: int = READ) -> ParaphraseSource:
    """Return the paraphrase source of a file, or EDA without a file.

    Args:
        path: The file.
        count: Number of paraphrases used per text; further ones do not affect results.

    Raises:
        SclsearchError: The file is unreadable or has faults; the message names each with its line.
    """
    if path is None:
        return ParaphraseSource("EDA", None, EDA_NOTE, count)
    header, rows = _load(path, count)
    return ParaphraseSource(
        name=header["source"],
        path=path,
        note=header.get("note", ""),
        count=count,
        temperature=header.get("temperature"),
        rows=rows,
    )


def _eda_views(row: Texts, count: int) -> Paraphrases:
    return tuple(zip(*(eda(text, count) for text in row), strict=True))


def _load(path: Path, count: int) -> tuple[Record, dict[Texts, Paraphrases]]:
    lines = json_objects(path)
    place, header, reasons = next(lines, (0, {}, []))
    if not place:
        raise SclsearchError(f"{path}: a header must be there, but the file is empty.")
    faults = [(place, reason) for reason in reasons or _header_faults(header)]
    rows: dict[Texts, tuple[int, Paraphrases]] = {}
    for place, record, reasons in lines:
        told = reasons or _row_faults(record) or _add(rows, place, record, count)
        faults += [(place, reason) for reason in told]
    check_faults(Table(path, [], faults), shown=SHOWN_FAULTS)
    return header, {texts: views for texts, (_, views) in rows.items()}


def _header_faults(header: Record) -> list[str]:
    version, source, note = (header.get(key) for key in ("paraphrases", "source", "note"))
    temperature = header.get("temperature")
    reasons = []
    if version != FORMAT or isinstance(version, bool):
        reasons.append(
            f"'paraphrases' of the header must be {FORMAT}, the version of the format, "
            f"but it is {reprlib.repr(version)}"
        )
    if not isinstance(source, str) or not source.strip() or character_fault(source):
        reasons.append(
            "'source' of the header must say where the paraphrases come from, "
            f"but it is {reprlib.repr(source)}"
        )
    if "note" in header and (not isinstance(note, str) or character_fault(note)):
        reasons.append(f"'note' of the header must be text, but it is {reprlib.repr(note)}")
    if temperature is not None and type(temperature) not in (int, float):
        given = reprlib.repr(temperature)
        reasons.append(f"'temperature' of the header must be a number or null, but it is {given}")
    return reasons


def _row_faults(record: Record) -> list[str]:
    reasons = [f"{key!r} must be there, but it is not" for key in KEYS if key not in record]
    reasons += [f"unknown key {key!r}.{suggestion(key, KEYS)}" for key in record if key not in KEYS]
    if reasons:
        return reasons
    text, paraphrases = (record[key] for key in KEYS)
    if not _is_texts(text) or len(text) > 2:
        return [f"'text' must be a list of one text or two, but it is {reprlib.repr(text)}"]
    if not any(part.strip() for part in text):
        return ["'text' must hold something, but it is empty"]
    if half := _character_fault(text):
        return [f"'text' must hold whole characters, but {half}"]
    if not isinstance(paraphrases, list) or len(paraphrases) < 2:
        given = reprlib.repr(paraphrases)
        return [f"'paraphrases' must be a list of two or more, but it is {given}"]
    told = [_paraphrase_fault(text, paraphrase) for paraphrase in paraphrases]
    return [f"paraphrase {n} {reason}" for n, reason in enumerate(told, 1) if reason]


def _paraphrase_fault(text: list[str], paraphrase: object) -> str | None:
    if not _is_texts(paraphrase):
        return f"must be a list of texts, but it is {reprlib.repr(paraphrase)}"
    if len(paraphrase) != len(text):
        return f"must have as many texts as 'text', {len(text)}, but it has {len(paraphrase)}"
    # If one text of a pair is empty in the data, as in QQP, it needs no paraphrase.
    if any(part.strip() and not new.strip() for part, new in zip(text, paraphrase, strict=True)):
        return "must hold something, but a text of it is empty"
    half = _character_fault(paraphrase)
    return f"must hold whole characters, but {half}" if half else None


def _character_fault(texts: list[str]) -> str:
    return next(filter(None, map(character_fault, texts)), "")


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _add(
    rows: dict[Texts, tuple[int, Paraphrases]], place: int, record: Record, count: int
) -> list[str]:
    taken = tuple(tuple(paraphrase) for paraphrase in record["paraphrases"][:count])
    earlier, views = rows.setdefault(tuple(record["text"]), (place, taken))
    if views == taken:
        return []
    return [f"a text must have the same paraphrases each time, but line {earlier} has others"]
