"""Columns of text from CSV, TSV, JSON, JSON Lines and Parquet files, and from data in memory."""

import csv
import gzip
import json
import re
import reprlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import check_regular, one_line
from sclsearch.errors import SclsearchError, listed, suggestion
from sclsearch.tasks.base import Labels, Split, Texts

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".parquet")
"""Endings of the files that can be read; each may be followed by `.gz`."""
DELIMITERS = ",;\t|~"
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
SHOWN_FAULTS = 5
_SIGNATURES = {  # first bytes of files that are often named `.csv`
    b"\x1f\x8b": "It is compressed: add .gz to its name",
    b"PK\x03\x04": "It is an Excel workbook or a zip archive: save the rows as CSV",
    b"\xd0\xcf\x11\xe0": "It is an Excel workbook: save the rows as CSV",
}


def ending_of(path: Path) -> str:
    """Return a file's ending in lower case, without `.gz`: `.csv` for `rows.CSV.gz`."""
    endings = [ending.lower() for ending in path.suffixes]
    return next(iter(endings[-2:] if endings[-1:] == [".gz"] else endings[-1:]), "")


def read_table(path: Path, delimiter: str | None = None, **options: Any) -> "pd.DataFrame":
    """Return all rows of a file, in the format of its ending; blank lines are skipped.

    Raise SclsearchError for an unreadable file. The options are those of `parse`.
    """
    return parse(_content(path), str(path), ending_of(path), delimiter, **options)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON file; raise as `read_table` does."""
    with _errors(str(path)):
        return _records(_content(path).decode("utf-8-sig"), columns=False)


def _content(path: Path) -> bytes:
    try:
        check_regular(path)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        reason = f"{error}".removesuffix(f": {str(path)!r}")
        raise SclsearchError(f"{path}: cannot be read: {reason}. Check the file.") from error


@contextmanager
def _errors(where: str) -> Iterator[None]:
    try:
        yield
    # Also errors of pandas and pyarrow, and those of unknown metadata in Parquet files.
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = one_line(str(error), 300).rstrip(".")
        action = "Correct the file"
        if isinstance(error, UnicodeDecodeError):
            found = (text for start, text in _SIGNATURES.items() if error.object.startswith(start))
            action = next(found, "Save it as UTF-8")
        raise SclsearchError(f"{where}: cannot be read: {reason}. {action}.") from error


def parse(
    content: bytes,
    where: str,
    ending: str,
    delimiter: str | None = None,
    header: Sequence[str] | None = None,
    *,
    literal: bool = False,
) -> "pd.DataFrame":
    """Return the rows of a file's content; `where` is its name, for errors.

    Without a delimiter, that of CSV cells is detected. Without one, quotes in a TSV file are text
    if they are not those of CSV, or if `literal`, as in GLUE's files. A CSV or TSV file without a
    header needs `header`, the names of all columns.
    """
    import pandas as pd

    if ending not in FORMATS:
        raise SclsearchError(
            f"{where}: the file extension must be one of {', '.join(FORMATS)}, or one of these "
            f"with .gz, got {ending or 'none'}. Convert the file."
        )
    with _errors(where):
        if not content or content.isspace():
            raise ValueError("it is empty")
        if ending == ".parquet":
            return _read_parquet(content, where)
        text = content.decode("utf-8-sig")
        if ending in (".csv", ".tsv"):
            return _read_csv(text, ending, delimiter, header, literal)
        # Objects keep large integers beside missing values.
        rows = _records(text, columns=ending == ".json")
        return pd.DataFrame(rows, dtype=object)


def _read_csv(
    text: str, ending: str, delimiter: str | None, header: Sequence[str] | None, literal: bool
) -> "pd.DataFrame":
    import pandas as pd

    if ending == ".csv" and (line := re.match(r'"?sep=(.)"?\r?\n', text)):  # for Excel
        delimiter, text = delimiter or line[1], "\n" + text[line.end() :]
    start = re.match(r"[\r\n]*([^\r\n]*)", text)
    first = start[1] if start else ""
    strict = ending == ".csv" or delimiter is not None or first.startswith('"')
    if delimiter is None:
        unquoted = re.sub(r'"[^"]*"', "", first)
        delimiter = "\t" if ending == ".tsv" else max(DELIMITERS, key=unquoted.count)
    rows = _quoted_cells(text, delimiter, strict=strict) if strict or not literal else []
    if not rows:
        lines = (line.removesuffix("\r") for line in text.split("\n"))
        rows = [line.split(delimiter) for line in lines if line.strip(" ")]
    names, *rows = rows
    if header is not None:
        names, rows = [*header], [names, *rows]
    for number, row in enumerate(rows, 1):
        if len(row) > len(names):
            raise ValueError(f"row {number}: must have {len(names)} cells, got {len(row)}")
        row.extend([""] * (len(names) - len(row)))
    return pd.DataFrame(rows, columns=names, dtype=object)


def _quoted_cells(text: str, delimiter: str, *, strict: bool) -> list[list[str]]:
    """Return the cells of each row, with the quotes of CSV.

    If a quote cannot be one of CSV, raise ValueError if `strict`, otherwise return no rows. Then
    neither can the quotes around both a tab and a line feed: they may belong to two texts.
    """
    csv.field_size_limit(2**31 - 1)
    # A single carriage return ends a row of CSV, but is text in TSV.
    lines = StringIO(text, newline="" if strict else "\n")
    reader, rows, line = csv.reader(lines, delimiter=delimiter, strict=True), [], 1
    try:
        for row in reader:
            if not strict and any("\t" in cell and "\n" in cell for cell in row):
                return []
            rows += [row] if row else []
            line = reader.line_num + 1
    except csv.Error as error:
        if not strict:
            return []
        raise ValueError(
            f"line {line}: a cell that begins with a quote must end with one, and a quote within "
            f'it must be doubled, as "" ({error})'
        ) from error
    return rows


def _read_parquet(content: bytes, where: str) -> "pd.DataFrame":
    """Return the rows, with the names of classes that `datasets` has written."""
    import pandas as pd
    from pyarrow import parquet

    frame = pd.read_parquet(BytesIO(content), dtype_backend="numpy_nullable")
    written = (parquet.read_schema(BytesIO(content)).metadata or {}).get(b"huggingface", b"{}")
    features = json.loads(written).get("info", {}).get("features", {})
    # Other programs drop columns, but keep their metadata.
    kinds = {n: one for n, one in features.items() if isinstance(one, dict) and n in frame}
    names = {name: one["names"] for name, one in kinds.items() if one["_type"] == "ClassLabel"}
    return _with_names(frame, names, where)


def _with_names(
    frame: "pd.DataFrame", classes: Mapping[str, Sequence[str]], where: str
) -> "pd.DataFrame":
    """Return the rows with names instead of class numbers; -1 becomes empty."""
    for name, names in classes.items():
        numbers = frame[name]
        valid = numbers.isna() | numbers.between(-1, len(names) - 1)
        reason = f"must be a class below {len(names)}, or -1 for none, got "
        faults = ((row, f"{reason}{value:g}") for row, value in numbers[~valid].items())
        check_values(f"{where}: column {name!r}", faults)
        frame[name] = numbers.map(dict(enumerate(names)))
    return frame


def _records(text: str, *, columns: bool) -> list[dict[str, Any]]:
    """Return the objects of JSON Lines, of a JSON array, or of a JSON object of columns."""
    import pandas as pd

    decoder, found, place = json.JSONDecoder(), [], 0
    while start := _NOT_SPACE.search(text, place):
        value, place = decoder.raw_decode(text, start.start())
        found.append(value)
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    elif (
        columns
        and [*map(type, found)] == [dict]
        and all(isinstance(one, list | dict) for one in found[0].values())
    ):
        cells = ([*(one.values() if isinstance(one, dict) else one)] for one in found[0].values())
        if any(isinstance(cell, list | dict) for column in cells for cell in column):
            keys = listed(map(repr, found[0]))
            raise ValueError(f"the rows must be an array of objects, got an object with {keys}")
        found = pd.DataFrame(found[0], dtype=object).to_dict("records")
    for row, wrong in enumerate((not isinstance(record, dict) for record in found), 1):
        if wrong:
            raise ValueError(
                f"row {row}: must be a JSON object, got {reprlib.repr(found[row - 1])}"
            )
    return found


def to_frame(data: Any, where: str) -> "pd.DataFrame":
    """Return a pandas data frame, a `datasets.Dataset` or another table with `to_pandas` as frame.

    Class numbers of a `datasets.ClassLabel` become the names of the classes; -1 becomes empty.
    """
    import pandas as pd

    if not isinstance(data, pd.DataFrame) and not hasattr(data, "to_pandas"):
        raise SclsearchError(
            f"{where}: must be a file, a pandas data frame or a datasets.Dataset, got "
            f"{type(data).__name__}. Convert it to a data frame."
        )
    frame = data if isinstance(data, pd.DataFrame) else data.to_pandas()
    frame = frame.reset_index(drop=True).set_axis([str(name) for name in frame.columns], axis=1)
    features = getattr(data, "features", {}).items()
    names = {name: one.names for name, one in features if getattr(one, "names", None) is not None}
    return _with_names(frame, names, where)


def text_columns(frame: "pd.DataFrame", columns: Sequence[str], where: str) -> "pd.DataFrame":
    """Return some columns as text: whole numbers without decimals, missing values empty."""
    import pandas as pd

    header = frame.columns.tolist()
    shown = [" ".join(name.splitlines()) for name in header]
    faults = [
        f"{where}: {'two columns are' if name in header else 'no column is'} called {name!r}."
        f"{' Rename one.' if name in header else suggestion(name, shown)}"
        for name in columns
        if header.count(name) != 1
    ]
    if faults:
        raise SclsearchError("\n".join(faults))
    texts = {name: _as_text(frame[name], f"{where}: column {name!r}") for name in columns}
    found = pd.DataFrame(texts, index=frame.index)
    for name in columns:
        reasons = found[name].map(character_fault)
        check_values(where, reasons[reasons != ""].items())
    return found


def _as_text(column: "pd.Series[Any]", where: str) -> "pd.Series[Any]":
    import pandas as pd

    column = column.astype(object)
    known = column.map(lambda value: pd.api.types.is_scalar(value) and type(value) is not bytes)
    if not known.all():
        row = int(known.argmin())
        raise SclsearchError(
            f"{where}: row {row + 1}: must be text or a number, got "
            f"{reprlib.repr(column.iloc[row])}. Name another column."
        )
    cells = [
        f"{cell:.0f}" if isinstance(cell, float) and cell.is_integer() else str(cell)
        for cell in column.where(column.notna(), "")
    ]
    return pd.Series(cells, column.index, dtype=object)


def check_values(where: str, faults: Iterable[tuple[Any, str]]) -> None:
    """Raise SclsearchError with the first faults: positions of rows, from 0, and reasons."""
    rows = sorted((int(row), reason) for row, reason in faults)
    if rows:
        lines = [f"{where}: row {row + 1}: {reason}" for row, reason in rows[:SHOWN_FAULTS]]
        if len(rows) > SHOWN_FAULTS:
            lines.append(f"{where}: {len(rows)} faults in all, the first {SHOWN_FAULTS} shown.")
        raise SclsearchError("\n".join(lines))


def has_blank(texts: Texts) -> bool:
    """Return True if a text of the row is empty or white space."""
    return not all(text.strip() for text in texts)


def to_split(
    texts: Sequence[Texts],
    labels: "pd.Series[Any]",
    classes: Sequence[str] | None,
    where: str,
    *,
    blank_texts: bool = False,
    ids: Sequence[str] = (),
) -> Split:
    """Return rows as a split; without `classes`, the labels are scores.

    The index of the labels has the position of each row in its file, `where`, for errors.
    """
    import pandas as pd

    if labels.empty:
        raise SclsearchError(f"{where}: there are no rows. Add some.")
    y: Labels
    if classes is None:
        y = pd.to_numeric(labels, errors="coerce").to_numpy(np.float64)
        valid, expected = np.isfinite(y), "a number"
    else:
        numbers = {name: n for n, name in enumerate(classes)}
        y = np.array([numbers.get(label, -1) for label in labels], np.int64)
        valid, expected = y >= 0, f"one of {listed(map(one_line, classes))}"
    faults = [
        (row, f"the label must be {expected}, got {reprlib.repr(label)}")
        for row, label in labels[~valid].items()
    ]
    if not blank_texts:
        own = zip(labels.index, texts, strict=True)
        faults += [(row, "a text is empty") for row, text in own if has_blank(text)]
    check_values(where, faults)
    return Split(tuple(texts), y, ids=tuple(ids))


def character_fault(text: str) -> str:
    """Return why a text cannot be written or hashed; empty if it can.

    JSON may contain half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start + 1} is {text[error.start]!r}, half of a surrogate pair"
    return ""
