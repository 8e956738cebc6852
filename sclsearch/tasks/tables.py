"""Tables of text cells from CSV, TSV, JSON Lines or Parquet files.

A reader returns the valid rows of a file and the faults of the others, so that one error can report
all faults of the file. This is why the readers are not those of pandas: these stop at the first
fault or do not report its line, and their cells need a conversion back to text.
"""

import csv
import json
import math
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TextIO

import numpy as np

from sclsearch.canonical import check_regular, one_line
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.tasks.base import Split

SHOWN_FAULTS = 5
SHOWN_NAMES = 10
MOST_CHARACTERS = 1_000_000
"""Maximum length of a text in characters.

Tokenizers read all of a text, although an encoder sees only some thousand tokens.
"""
# A text may exceed 131,072 characters, the default limit of a cell in the csv module.
LONGEST_CELL = 2**31 - 1
Fault = tuple[int, str]
Cells = Iterator[tuple[int, list[str]]]
Records = Iterator[tuple[int, dict[str, Any], list[str]]]


class Row(NamedTuple):
    """Requested cells of one row.

    Attributes:
        place: Line on which the row starts, or number of the row, from 1.
        cells: Texts, then the label, unless the reader documents another order.
        values: The cells as JSON Lines or Parquet has them, with their types; else empty.
    """

    place: int
    cells: tuple[str, ...]
    values: tuple[str | float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Valid rows of a file, and the faults of the others.

    Attributes:
        path: The file.
        rows: Rows without a fault, in the order of the file.
        faults: Position and reason of each row that is dropped.
        unit: Unit of the positions, `line` or `row`.
    """

    path: Path
    rows: list[Row] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unit: str = "line"


def load_table(
    path: Path, columns: tuple[str, ...], header: tuple[str, ...] | None = None
) -> Table:
    """Read some columns of a file as text, in the format of the file extension.

    Blank lines are skipped. Numbers and booleans of JSON and Parquet are written as in JSON; null
    is an empty cell.

    `header` names all columns of a CSV or TSV file without a header.

    Raises:
        SclsearchError: The extension is unknown, the file is unreadable, or a column is missing.
    """
    ending = path.suffix.lower()
    if ending not in READERS:
        load_bytes(path)  # a missing file is the first error to report
        raise SclsearchError(
            f"{path}: the file extension must be one of {', '.join(READERS)}, "
            f"got {ending or 'none'}. Convert the file."
        )
    return READERS[ending](path, columns, *([header] if header else []))


def _load_cells(
    path: Path,
    columns: tuple[str, ...],
    header: tuple[str, ...] | None = None,
    *,
    parse: Callable[[TextIO, list[Fault]], Cells],
    newline: str,
) -> Table:
    """Read row by row, so that only the kept cells of a large file are in memory."""
    table = Table(path)
    try:
        check_regular(path)
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            _fill(table, cell_rows(parse(file, table.faults), path, columns, header))
    except (OSError, UnicodeDecodeError):
        load_text(path)  # raises the same error, with the position
        raise
    return table


def _fill(table: Table, found: Iterable[Row | Fault]) -> Table:
    for one in found:
        if isinstance(one, Row):
            table.rows.append(one)
        else:
            table.faults.append(one)
    return table


def cell_rows(
    rows: Cells, path: Path, columns: tuple[str, ...], header: tuple[str, ...] | None = None
) -> Iterator[Row | Fault]:
    """Yield the requested cells of each row, or its fault, as they arrive; skip blank rows."""
    filled = ((place, cells) for place, cells in rows if cells)
    names = header or next((tuple(cells) for _, cells in filled), ())
    positions = column_positions(path, names, columns) if names else []
    for place, cells in filled:
        if len(cells) == len(names):
            yield Row(place, tuple(cells[position] for position in positions))
        else:
            yield place, f"must have {len(names)} columns, got {len(cells)}"


def csv_rows(lines: Iterable[str], faults: list[Fault]) -> Cells:
    """Yield line number and cells of each row; at invalid CSV, append the fault and stop."""
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(lines, strict=True)
    while True:
        place = reader.line_num + 1
        try:
            yield place, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # After one wrong quote, all following rows would be misread.
            faults.append((place, f"invalid CSV: {error}"))
            return


def _tsv_rows(file: TextIO, _: list[Fault]) -> Cells:
    """Yield rows in GLUE's format: quotes are text, since GLUE's files have unbalanced ones."""
    for place, line in enumerate(file, 1):
        content = line.removesuffix("\n").removesuffix("\r")
        yield place, content.split("\t") if content else []


def load_json_lines(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a file with one JSON object per line; only line feeds end lines."""
    records = list(json_objects(path))
    if keys := {key for _, record, _ in records for key in record}:
        column_positions(path, sorted(keys), columns)  # raises for a key that no object has
    return _fill(Table(path), record_rows(iter(records), columns))


def json_objects(path: Path) -> Records:
    """Yield line number, object (empty after a fault) and faults of each nonblank line."""
    return json_records(load_text(path).split("\n"))


def json_records(lines: Iterable[str]) -> Records:
    """Yield what `json_objects` yields, for lines that may still arrive."""
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            yield place, {}, [f"invalid JSON: {error.msg} (column {error.colno})"]
        except (ValueError, RecursionError) as error:  # a repeated key, a huge integer, deep lists
            yield place, {}, [f"invalid JSON: {error}"]
        else:
            if isinstance(record, dict):
                yield place, record, []
            else:
                yield place, {}, [f"must be a JSON object, got a {type(record).__name__}"]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; reject duplicate keys, since one value would be lost."""
    ((name, count),) = Counter(name for name, _ in pairs).most_common(1) or [("", 1)]
    if count > 1:
        raise ValueError(f"the key {name!r} is there twice")
    return dict(pairs)


def load_parquet(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a Parquet file; positions are row numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(load_bytes(path))) as file:
            column_positions(path, file.schema_arrow.names, columns)
            records = file.read(columns=list(columns)).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise SclsearchError(f"{path}: invalid Parquet: {error}.") from error
    numbered: Records = ((place, record, []) for place, record in enumerate(records, 1))
    return _fill(Table(path, unit="row"), record_rows(numbered, columns))


READERS: Mapping[str, Callable[..., Table]] = MappingProxyType(
    {
        ".csv": partial(_load_cells, parse=csv_rows, newline=""),
        # Only line feeds end lines, since texts may contain other line separators.
        ".tsv": partial(_load_cells, parse=_tsv_rows, newline="\n"),
        ".jsonl": load_json_lines,
        ".json": load_json_lines,
        ".ndjson": load_json_lines,
        ".parquet": load_parquet,
    }
)


def record_rows(records: Records, columns: tuple[str, ...]) -> Iterator[Row | Fault]:
    """Yield the requested cells of each object as text, or its faults, as they arrive."""
    for place, record, reasons in records:
        faults = reasons or list(filter(None, (_cell_fault(record, name) for name in columns)))
        if faults:
            yield from ((place, fault) for fault in faults)
        else:
            values = tuple(record[name] for name in columns)
            yield Row(place, tuple(map(_cell, values)), values)


def _cell_fault(record: Mapping[str, object], name: str) -> str:
    if name not in record:
        return f"{name!r} is missing.{suggestion(name, record)}"
    value = record[name]
    if not isinstance(value, str | int | float | None) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        return f"{name!r} must be text or a number, got {reprlib.repr(value)}"
    fault = character_fault(_cell(value))
    return f"{name!r} is invalid: {fault}" if fault else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


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
            f"{path}: line {line}: byte {error.start} is not valid UTF-8. Save the file as UTF-8."
        ) from error


def load_bytes(path: Path) -> bytes:
    """Return a file's bytes; raise SclsearchError if it is missing or unreadable."""
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise SclsearchError(
            f"{path}: cannot be read: {error.strerror}. Check the path."
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
    marks = {".tsv": ";,", ".csv": ";"}.get(path.suffix.lower(), "")
    found = next((mark for mark in marks if len(header) == 1 and mark in header[0]), None)
    if faults and found:
        advice = "Save the file with commas" if found == ";" else "Name the file .csv"
        raise SclsearchError(
            f"{path}: cells must be separated by a comma, or by a tab in TSV, got {found!r} in the "
            f"first line {header[0]!r}. {advice}."
        )
    if faults:
        raise SclsearchError("\n".join(faults))
    return [header.index(name) for name in columns]


def check_faults(table: Table, faults: Sequence[Fault] = (), shown: int = SHOWN_FAULTS) -> None:
    """Raise SclsearchError if a table has faults, or if there are further ones.

    The message has the first `shown` faults by position, and the total.
    """
    every = sorted([*table.faults, *faults], key=itemgetter(0))
    if not every:
        return
    lines = [f"{table.path}: {table.unit} {place}: {reason}" for place, reason in every[:shown]]
    if len(every) > shown:
        lines.append(f"{table.path}: {len(every)} faults in all, the first {shown} shown.")
    raise SclsearchError("\n".join(lines))


def check_rows(table: Table, rows: Sequence[Row], of: str = "rows") -> None:
    """Raise SclsearchError if `rows`, a part of a table, are empty; its faults come first."""
    if not rows:
        check_faults(table)
        raise SclsearchError(f"{table.path}: there are no {of}. Add some.")


def to_splits(
    table: Table,
    splits: Mapping[str, Sequence[Row]],
    classes: Mapping[str, int] | None,
    *,
    blank_texts: bool = False,
) -> dict[str, Split]:
    """Return the splits of a table, whose rows end with the label.

    `classes` has the class of each label; None in regression. A text may be empty if `blank_texts`
    is True.
    """
    rows = [row for split_rows in splits.values() for row in split_rows]
    check_rows(table, rows)
    labels = ((row.place, _label_fault(row.cells[-1], classes)) for row in rows)
    faults = [] if blank_texts else text_faults((row.place, row.cells[:-1]) for row in rows)
    check_faults(table, faults + [(place, fault) for place, fault in labels if fault])
    return {
        name: Split(
            tuple(row.cells[:-1] for row in split_rows),
            np.array([float(row.cells[-1]) for row in split_rows], np.float64)
            if classes is None
            else np.array([classes[row.cells[-1]] for row in split_rows], np.int64),
        )
        for name, split_rows in splits.items()
    }


def text_faults(
    rows: Iterable[tuple[int, Sequence[str]]], *, blank_texts: bool = False
) -> list[Fault]:
    """Return the faults of rows with an overlong, invalid or empty text, by position.

    Args:
        rows: Position and texts of each row.
        blank_texts: True if a text may be empty.
    """
    found = (
        (
            place,
            character_fault(text)
            if text.strip() or blank_texts
            else "a text is empty; fill it in or leave it out",
        )
        for place, texts in rows
        for text in texts
    )
    return list(dict.fromkeys((place, fault) for place, fault in found if fault))


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
        return f"character {error.start + 1} is {text[error.start]!r}, half of a surrogate pair"
    return ""


def finite(text: str) -> bool:
    """Return True if a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _label_fault(label: str, classes: Mapping[str, int] | None) -> str:
    if not label.strip():
        return "the label is empty"
    if fault := character_fault(label):
        return f"the label is invalid: {fault}"
    if classes is None:
        return "" if finite(label) else f"the label must be a number, got {label!r}"
    if label in classes:
        return ""
    names = [*map(one_line, list(classes)[:SHOWN_NAMES]), *["…"] * (len(classes) > SHOWN_NAMES)]
    return f"the label must be one of {', '.join(names)}, got {reprlib.repr(label)}"
