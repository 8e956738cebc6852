"""Readers for a user's own files: CSV, TSV, JSON Lines or Parquet, chosen by file extension."""

import csv
import json
import math
import reprlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from sclsearch.canonical import check_regular
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.tasks.tables import (
    Fault,
    Row,
    Table,
    character_fault,
    column_positions,
    load_bytes,
    load_text,
)
from sclsearch.tasks.tsv import load_tsv, wrong_width

# A text may exceed 131,072 characters, the default limit of a cell in the csv module.
LONGEST_CELL = 2**31 - 1


def load_table(path: Path, columns: tuple[str, ...]) -> Table:
    """Read some columns of a file as text; collect unreadable rows as faults.

    CSV follows the usual quoting, including cells of several lines; in TSV quotes are text. Blank
    lines are skipped. Numbers and booleans of JSON and Parquet are written as in JSON; null is an
    empty cell.

    Args:
        path: The file.
        columns: Names of the columns to keep.

    Raises:
        SclsearchError: The extension is unknown, the file is unreadable, or a column is missing.
    """
    ending = path.suffix.lower()
    if ending not in READERS:
        raise SclsearchError(
            f"{path}: the file's name must end in one of {', '.join(READERS)}, "
            f"but it ends in {ending or 'nothing'}. Convert it."
        )
    return READERS[ending](path, columns)


def load_csv(path: Path, columns: tuple[str, ...], header: tuple[str, ...] | None = None) -> Table:
    """Read a CSV file row by row, so that only the kept cells of a large file are in memory.

    Args:
        path: The file.
        columns: Names of the columns to keep.
        header: Names of all columns, for a file without a header; None reads the first row.

    Raises:
        SclsearchError: The file is unreadable, or a column is missing.
    """
    table = Table(path, [], [])
    names = header or ()
    try:
        check_regular(path)
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = _csv_rows(table, lines)
            names = names or next((tuple(cells) for _, cells in rows if cells), ())
            positions = column_positions(path, names, columns) if names else []
            for place, cells in rows:
                if len(cells) == len(names):
                    table.rows.append(Row(place, tuple(cells[n] for n in positions)))
                elif cells:
                    table.faults.append((place, wrong_width(len(names), len(cells))))
    except (OSError, UnicodeDecodeError):
        load_text(path)  # raises the same error, with the position
        raise
    return table


def _csv_rows(table: Table, lines: TextIO) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(lines, strict=True)
    while True:
        place = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            # After one wrong quote, all following rows would be misread.
            table.faults.append((place, f"the row must be CSV, but: {error}"))
            return
        if cells is None:
            return
        yield place, cells


def load_json_lines(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a file with one JSON object per line; only line feeds end lines."""
    table = Table(path, [], [])
    for place, record, reasons in json_objects(path):
        if reasons:
            table.faults.extend((place, reason) for reason in reasons)
        else:
            _add(table, place, record, columns)
    return table


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    """Yield line number, object (empty after a fault) and faults of each nonblank line."""
    for place, line in enumerate(load_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:  # or a huge integer
            told = getattr(error, "msg", error)
            column = f" (column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            yield place, {}, [f"the line must be JSON, but: {told}{column}"]
            continue
        if isinstance(record, dict):
            yield place, record, []
        else:
            kind = type(record).__name__
            yield place, {}, [f"the line must be one JSON object, but it is a {kind}"]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; reject duplicate keys, since one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"the key {twice!r} is there twice")
    return found


def load_parquet(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a Parquet file; positions are row numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(load_bytes(path))) as file:
            column_positions(path, file.schema_arrow.names, columns)
            records = file.read(columns=list(columns)).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise SclsearchError(f"{path}: the file must be Parquet, but: {error}.") from error
    table = Table(path, [], [], unit="row")
    for place, record in enumerate(records, 1):
        _add(table, place, record, columns)
    return table


READERS: Mapping[str, Callable[[Path, tuple[str, ...]], Table]] = MappingProxyType(
    {
        ".csv": load_csv,
        ".tsv": load_tsv,
        ".jsonl": load_json_lines,
        ".json": load_json_lines,
        ".ndjson": load_json_lines,
        ".parquet": load_parquet,
    }
)


def _add(table: Table, place: int, record: Mapping[str, object], columns: tuple[str, ...]) -> None:
    faults: list[Fault] = []
    for name in columns:
        if name not in record:
            faults.append(
                (place, f"{name!r} must be there, but it is not.{suggestion(name, record)}")
            )
        elif not _scalar(record[name]):
            given = reprlib.repr(record[name])
            faults.append((place, f"{name!r} must be text or a number, but it is {given}"))
        elif fault := character_fault(_text(record[name])):
            faults.append((place, f"{name!r} must hold whole characters, but {fault}"))
    table.faults.extend(faults)
    if not faults:
        table.rows.append(Row(place, tuple(_text(record[name]) for name in columns)))


def _scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
