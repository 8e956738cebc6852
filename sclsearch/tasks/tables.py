"""Columns of a file as text, each row with its place, and all faults of a file in one error."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np

from sclsearch.canonical import check_regular
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.tasks.base import Labels, Split

SHOWN_FAULTS = 5
MOST_CHARACTERS = 1_000_000
"""Length of a text; tokenizers read all of it, though an encoder sees some thousand tokens."""
SHOWN_NAMES = 10
Fault = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of the columns asked for.

    Attributes:
        place: Line on which the row starts, or number of the row, from 1.
        cells: Texts, then the label, unless the reader says otherwise.
    """

    place: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """What could be read of a file.

    Attributes:
        path: The file.
        rows: Rows without a fault, in the order of the file.
        faults: Place and reason of each row that is left out.
        unit: What places count, `line` or `row`.
    """

    path: Path
    rows: list[Row]
    faults: list[Fault]
    unit: str = "line"


def load_text(path: Path) -> str:
    """Returns a UTF-8 file's text without a byte order mark, line ends untouched.

    Raises:
        SclsearchError: The file is missing, cannot be read or is not UTF-8.
    """
    content = load_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SclsearchError(
            f"{path}: line {line}: the file must be UTF-8, but byte {error.start} is not "
            "part of a character. Save it as UTF-8."
        ) from error


def load_bytes(path: Path) -> bytes:
    """Returns a file's bytes.

    Raises:
        SclsearchError: The file is missing or cannot be read.
    """
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise SclsearchError(
            f"{path}: a readable file must be there, but: {error.strerror}. Check the path."
        ) from error


def column_positions(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Returns where each column stands.

    Raises:
        SclsearchError: The header lacks a column or has it twice; the message names all.
    """
    faults = [
        f"{path}: {'two columns are' if name in header else 'no column is'} called {name!r}."
        f"{' Rename one.' if name in header else suggestion(name, set(header))}"
        for name in columns
        if header.count(name) != 1
    ]
    if faults and len(header) == 1 and ";" in header[0]:
        raise SclsearchError(
            f"{path}: cells must be separated by a comma, or by a tab in TSV, but they seem to be "
            f"by ';': the first line is {header[0]!r}. Save it with commas."
        )
    if faults:
        raise SclsearchError("\n".join(faults))
    return [header.index(name) for name in columns]


def check_faults(table: Table, faults: Sequence[Fault] = (), shown: int = SHOWN_FAULTS) -> None:
    """Refuses a file of which some rows cannot be used.

    Args:
        table: What was read, with the reader's faults.
        faults: Further ones.
        shown: How many are told.

    Raises:
        SclsearchError: There are faults: the first few by place, and how many there are.
    """
    every = sorted([*table.faults, *faults], key=itemgetter(0))
    if not every:
        return
    lines = [f"{table.path}: {table.unit} {place}: {reason}" for place, reason in every[:shown]]
    if len(every) > shown:
        lines.append(f"{table.path}: {len(every)} faults in all, the first {shown} shown.")
    raise SclsearchError("\n".join(lines))


def check_rows(table: Table, rows: Sequence[Row], of: str = "rows") -> None:
    """Refuses a file that leaves no rows for some use.

    Args:
        table: What was read.
        rows: The rows for that use.
        of: What they are called.

    Raises:
        SclsearchError: There are none; where rows have faults, the message tells those.
    """
    if not rows:
        check_faults(table)
        raise SclsearchError(f"{table.path}: {of} must be there, but there are none.")


def row_faults(
    rows: Sequence[Row], classes: Mapping[str, int] | None, *, blank_texts: bool = False
) -> list[Fault]:
    """Returns what is wrong with rows of texts and a label.

    Args:
        rows: The rows, their label last.
        classes: Class of each label; None in regression.
        blank_texts: Whether a text may be empty.
    """
    faults = [] if blank_texts else text_faults((row.place, row.cells[:-1]) for row in rows)
    for row in rows:
        reason = _label_fault(row.cells[-1], classes)
        if reason:
            faults.append((row.place, reason))
    return faults


def text_faults(rows: Iterable[tuple[int, Sequence[str]]]) -> list[Fault]:
    """Returns where a text is empty, too long or none, given place and texts of each row."""
    found = ((place, fault) for place, texts in rows for fault in map(_text_fault, texts))
    return list(dict.fromkeys((place, fault) for place, fault in found if fault))


def _text_fault(text: str) -> str:
    if not text.strip():
        return "every text must hold something, but one is empty"
    fault = character_fault(text)
    return f"every text must hold characters, but {fault}" if fault else ""


def rows_to_split(rows: Sequence[Row], classes: Mapping[str, int] | None) -> Split:
    """Returns rows that have no fault as a split; the arguments are those of `row_faults`."""
    labels = [row.cells[-1] for row in rows]
    y: Labels
    if classes is None:
        y = np.array([float(label) for label in labels], np.float64)
    else:
        y = np.array([classes[label] for label in labels], np.int64)
    return Split(texts=tuple(row.cells[:-1] for row in rows), y=y)


def character_fault(text: str) -> str:
    """Return which character of a text no text can have; empty if all are fine.

    Half of a surrogate pair, as JSON may hold one, can be neither written nor hashed. NUL ends a
    text in many programs, and two labels that differ behind it would look the same.
    """
    if "\0" in text:
        return f"character {text.index(chr(0)) + 1} is NUL"
    if len(text) > MOST_CHARACTERS:
        return f"{len(text):,} characters are more than {MOST_CHARACTERS:,}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start + 1} is {text[error.start]!r}, half of a pair"
    return ""


def finite(text: str) -> bool:
    """Returns whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _label_fault(label: str, classes: Mapping[str, int] | None) -> str | None:
    if not label.strip():
        return "the label must be there, but it is empty"
    if fault := character_fault(label):
        return f"the label must hold characters, but {fault}"
    if classes is None:
        return None if finite(label) else f"the label must be a number, but it is {label!r}"
    if label in classes:
        return None
    names = [*list(classes)[:SHOWN_NAMES], *(["…"] if len(classes) > SHOWN_NAMES else [])]
    return f"the label must be one of {', '.join(names)}, but it is {label!r}"
