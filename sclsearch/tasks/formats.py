"""Columns of a user's own file: CSV, TSV, JSON Lines or Parquet, told by its ending."""

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

# A text may be longer than the 131,072 characters that csv takes a cell to have at most.
LONGEST_CELL = 2**31 - 1


def load_table(path: Path, columns: tuple[str, ...]) -> Table:
    """Reads some columns as text; rows that cannot be read become faults.

    CSV follows the usual quoting, cells of several lines included; in TSV quotes are text. Blank
    lines hold no row. Numbers and truth values of JSON and Parquet are written as JSON has them;
    null is an empty cell.

    Args:
        path: The file.
        columns: Names of the columns to keep.

    Raises:
        SclsearchError: The ending is unknown, the file cannot be read, or a column is missing.
    """
    ending = path.suffix.lower()
    if ending not in READERS:
        raise SclsearchError(
            f"{path}: the file's name must end in one of {', '.join(READERS)}, "
            f"but it ends in {ending or 'nothing'}. Convert it."
        )
    return READERS[ending](path, columns)


def load_csv(path: Path, columns: tuple[str, ...], header: tuple[str, ...] | None = None) -> Table:
    """Reads a CSV file row by row, so that of a large one only the cells to keep are in memory.

    Args:
        path: The file.
        columns: Names of the columns to keep.
        header: Names of all columns in a file that has no header; None reads the first row.

    Raises:
        SclsearchError: The file cannot be read, or a column is missing.
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
        load_text(path)  # raises the same, with the place
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
            # Where one quote is wrong, whatever follows would be misread.
            table.faults.append((place, f"the row must be CSV, but: {error}"))
            return
        if cells is None:
            return
        yield place, cells


def load_json_lines(path: Path, columns: tuple[str, ...]) -> Table:
    """Reads a file of one JSON object a line; lines end at line feeds alone."""
    table = Table(path, [], [])
    for place, record, reasons in json_objects(path):
        if reasons:
            table.faults.extend((place, reason) for reason in reasons)
        else:
            _add(table, place, record, columns)
    return table


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    """Yields the object of each line that is not blank, or why it has none, with its number."""
    for place, line in enumerate(load_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:  # also of an integer of thousands of digits
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
    """Return a JSON object; refuse keys that are there twice, of which one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"the key {twice!r} is there twice")
    return found


def load_parquet(path: Path, columns: tuple[str, ...]) -> Table:
    """Reads a Parquet file; its places are row numbers."""
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
