"""Rows of text cells from a stream, such as standard input, as they arrive."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from sclsearch.errors import SclsearchError
from sclsearch.tasks.tables import (
    Fault,
    Row,
    cell_rows,
    csv_rows,
    json_records,
    record_rows,
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
    faults: list[Fault] = []
    if form == "csv":
        found = cell_rows(csv_rows(lines, faults), Path(NAME), columns)
    else:
        found = record_rows(json_records(lines), columns)
    for row in found:
        if not isinstance(row, Row):
            raise _error(*row)
        for fault in text_faults([(row.place, row.cells[:texts])], blank_texts=True):
            raise _error(*fault)
        yield row
    for place, reason in faults:
        raise _error(place, f"{reason}; JSON Lines need --format jsonl")


def _decoded(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a stream, as UTF-8 in every locale, without a byte order mark."""
    for place, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if place == 1 else "utf-8")
        except UnicodeDecodeError as error:
            fault = f"byte {error.start + 1} is not valid UTF-8, got 0x{line[error.start]:02x}"
            raise _error(place, fault) from error


def _error(place: int, reason: str) -> SclsearchError:
    return SclsearchError(f"{NAME}: line {place}: {reason.rstrip('.')}. Correct the line.")
