"""Rows of text cells from a stream, such as standard input, as they arrive."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from sclsearch.errors import SclsearchError
from sclsearch.tasks.tables import (
    Fault,
    Row,
    csv_rows,
    json_records,
    record_cells,
    selected_cells,
    text_faults,
)

StreamFormat = Literal["csv", "jsonl"]
NAME = "standard input"


def stream_rows(
    file: BinaryIO, form: StreamFormat, columns: tuple[str, ...], texts: int
) -> Iterator[Row]:
    """Yield the requested cells of each row of a stream, in order.

    Unlike a file, a stream is not read to its end before the first row is yielded, so an error
    comes after the rows before it.

    The first `texts` of the columns have texts, which may be empty.

    Raises:
        SclsearchError: A row is invalid, or a column is missing; the message has the line.
    """
    lines = _decoded(file)
    for row in _csv(lines, columns) if form == "csv" else _json_lines(lines, columns):
        for place, reason in text_faults([(row.place, row.cells[:texts])], blank_texts=True):
            raise _error(place, reason)
        yield row


def _decoded(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a stream, as UTF-8 in every locale, without a byte order mark."""
    for place, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if place == 1 else "utf-8")
        except UnicodeDecodeError as error:
            fault = f"byte {error.start + 1} is not valid UTF-8, got 0x{line[error.start]:02x}"
            raise _error(place, fault) from error


def _csv(lines: Iterator[str], columns: tuple[str, ...]) -> Iterator[Row]:
    faults: list[Fault] = []
    for found in selected_cells(csv_rows(lines, faults), Path(NAME), columns):
        if not isinstance(found, Row):
            raise _error(*found)
        yield found
    for place, reason in faults:
        raise _error(place, reason)


def _json_lines(lines: Iterator[str], columns: tuple[str, ...]) -> Iterator[Row]:
    for place, record, reasons in json_records(lines):
        cells, faults = ((), reasons) if reasons else record_cells(record, columns)
        for reason in faults:
            raise _error(place, reason)
        yield Row(place, cells)


def _error(place: int, reason: str) -> SclsearchError:
    return SclsearchError(f"{NAME}: line {place}: {reason}. Mend the line.")
