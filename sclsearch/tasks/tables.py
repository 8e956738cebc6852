"""Tables of text cells read from a file, with one error for all faults of the file."""

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
"""Maximum length of a text in characters.

Tokenizers read all of a text, although an encoder sees only some thousand tokens.
"""
SHOWN_NAMES = 10
Fault = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Row:
    """Requested cells of one row.

    Attributes:
        place: Line on which the row starts, or number of the row, from 1.
        cells: Texts, then the label, unless the reader documents another order.
    """

    place: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Readable rows of a file, and the faults of the others.

    Attributes:
        path: The file.
        rows: Rows without a fault, in the order of the file.
        faults: Position and reason of each row that is dropped.
        unit: Unit of the positions, `line` or `row`.
    """

    path: Path
    rows: list[Row]
    faults: list[Fault]
    unit: str = "line"


def load_text(path: Path) -> str:
    """Return the text of a UTF-8 file without a byte order mark, with unchanged line ends.

    Raises:
        SclsearchError: The file is missing, unreadable or not UTF-8.
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
    """Return a file's bytes.

    Raises:
        SclsearchError: The file is missing or unreadable.
    """
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise SclsearchError(
            f"{path}: a readable file must be there, but: {error.strerror}. Check the path."
        ) from error


def column_positions(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return the position of each column in the header.

    Raises:
        SclsearchError: The header lacks a column or has it twice; the message names all of these.
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
    """Reject a file with invalid rows.

    Args:
        table: The rows read, with the reader's faults.
        faults: Further faults.
        shown: Maximum number of faults in the message.

    Raises:
        SclsearchError: There are faults; the message has the first ones by position, and the total.
    """
    every = sorted([*table.faults, *faults], key=itemgetter(0))
    if not every:
        return
    lines = [f"{table.path}: {table.unit} {place}: {reason}" for place, reason in every[:shown]]
    if len(every) > shown:
        lines.append(f"{table.path}: {len(every)} faults in all, the first {shown} shown.")
    raise SclsearchError("\n".join(lines))


def check_rows(table: Table, rows: Sequence[Row], of: str = "rows") -> None:
    """Reject a file that has no rows for some purpose.

    Args:
        table: The rows read.
        rows: The rows for the purpose.
        of: Noun for the rows in the message.

    Raises:
        SclsearchError: There are no rows; if rows have faults, the message reports those.
    """
    if not rows:
        check_faults(table)
        raise SclsearchError(f"{table.path}: {of} must be there, but there are none.")


def row_faults(
    rows: Sequence[Row], classes: Mapping[str, int] | None, *, blank_texts: bool = False
) -> list[Fault]:
    """Return the faults of rows with texts and a label.

    Args:
        rows: The rows, with the label last.
        classes: Class of each label; None in regression.
        blank_texts: True if a text may be empty.
    """
    faults = [] if blank_texts else text_faults((row.place, row.cells[:-1]) for row in rows)
    for row in rows:
        reason = _label_fault(row.cells[-1], classes)
        if reason:
            faults.append((row.place, reason))
    return faults


def text_faults(rows: Iterable[tuple[int, Sequence[str]]]) -> list[Fault]:
    """Return the faults of rows with an empty, overlong or invalid text, by position."""
    found = ((place, fault) for place, texts in rows for fault in map(_text_fault, texts))
    return list(dict.fromkeys((place, fault) for place, fault in found if fault))


def _text_fault(text: str) -> str:
    if not text.strip():
        return "every text must hold something, but one is empty"
    fault = character_fault(text)
    return f"every text must hold characters, but {fault}" if fault else ""


def rows_to_split(rows: Sequence[Row], classes: Mapping[str, int] | None) -> Split:
    """Return a split of rows without faults; the arguments are those of `row_faults`."""
    labels = [row.cells[-1] for row in rows]
    y: Labels
    if classes is None:
        y = np.array([float(label) for label in labels], np.float64)
    else:
        y = np.array([classes[label] for label in labels], np.int64)
    return Split(texts=tuple(row.cells[:-1] for row in rows), y=y)


def character_fault(text: str) -> str:
    """Return a description of the first invalid character of a text; empty if there is none.

    Half of a surrogate pair, which JSON may contain, can be neither written nor hashed. NUL ends a
    text in many programs, so two labels that differ after it would look the same.
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
    """Return True if a text is a finite number."""
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
