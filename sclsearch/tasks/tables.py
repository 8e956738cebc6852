"""Columns of text from CSV, TSV, JSON, JSON Lines and Parquet files, and from data in memory."""

import gzip
import json
import re
import reprlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from sclsearch.canonical import check_regular, one_line
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.tasks.base import Labels, Split, Texts

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".parquet")
"""Endings of the files that can be read; each may be followed by `.gz`."""
DELIMITERS = ",;\t"
SHOWN_FAULTS = 5
SHOWN_NAMES = 10


def ending_of(path: Path) -> str:
    """Return a file's ending in lower case, without `.gz`: `.csv` for `rows.CSV.gz`."""
    endings = [ending.lower() for ending in path.suffixes]
    return next(iter(endings[-2:] if endings[-1:] == [".gz"] else endings[-1:]), "")


def read_table(
    path: Path, delimiter: str | None = None, header: Sequence[str] | None = None
) -> "pd.DataFrame":
    """Return all rows of a file, in the format of its ending; blank lines are skipped.

    Without a delimiter, that of CSV cells is detected, and a TSV file is read as GLUE's are
    written: its quotes are text. A CSV or TSV file without a header needs `header`, the names of
    all columns.
    """
    ending = ending_of(path)
    if ending not in FORMATS:
        raise SclsearchError(
            f"{path}: the file extension must be one of {', '.join(FORMATS)}, or one of these with "
            f".gz, got {ending or 'none'}. Convert the file."
        )
    with _opened(path) as file:
        return parse(file, str(path), ending, delimiter, header)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file, or of a JSON array; raise as `read_table` does."""
    with _opened(path) as file:
        return _json_objects(file, str(path))


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        check_regular(path)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield cast("IO[bytes]", file)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise SclsearchError(f"{path}: cannot be read: {error}. Check the file.") from error


def check_quotes(rows: "pd.DataFrame", path: Path, delimiter: str | None) -> None:
    """Raise SclsearchError if a cell of a TSV file is quoted as in CSV: its quotes would stay."""
    if delimiter is None and ending_of(path) == ".tsv":
        quoted = rows.apply(lambda column: column.map(_is_quoted)).any(axis=1)
        fault = (
            "quoted as in CSV, but quotes in a TSV file are text. If they are not, pass "
            "--delimiter tab."
        )
        check_values(str(path), [(row, fault) for row in rows.index[quoted]])


def _is_quoted(cell: str) -> bool:
    inner = cell[1:-1]
    quotes = cell[:1] == cell[-1:] == '"' and '""' in inner
    return quotes and '"' not in inner.replace('""', "")


def parse(
    file: IO[bytes],
    where: str,
    ending: str,
    delimiter: str | None = None,
    header: Sequence[str] | None = None,
) -> "pd.DataFrame":
    """Return the rows of an open file; `where` is its name, for errors."""
    import pandas as pd

    try:
        if ending == ".parquet":
            return pd.read_parquet(BytesIO(file.read()), dtype_backend="numpy_nullable")
        if ending in (".csv", ".tsv"):
            return _read_csv(file, ending, delimiter, header)
        # Objects keep large integers beside missing values.
        return pd.DataFrame(_json_objects(file, where), dtype=object)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except (ValueError, pd.errors.ParserError) as error:
        reason = str(error).strip().rstrip(".")
        raise SclsearchError(
            f"{where}: cannot be read: {reason}. Correct the file; text must be UTF-8."
        ) from error


def _read_csv(
    file: IO[bytes], ending: str, delimiter: str | None, header: Sequence[str] | None
) -> "pd.DataFrame":
    import pandas as pd

    first = next((line for line in iter(file.readline, b"") if line.strip()), b"")
    first = first.removeprefix(b"\xef\xbb\xbf")
    file.seek(0)
    options: dict[str, Any] = {}
    if delimiter is None and ending == ".tsv":
        delimiter = "\t"
        if not first.startswith(b'"'):
            # Only line feeds end lines, since texts may contain other line separators.
            options = {"quoting": 3, "lineterminator": "\n"}
    if delimiter is None:
        unquoted = re.sub(r'"[^"]*"', "", first.decode("utf-8", "replace"))
        delimiter = max(DELIMITERS, key=unquoted.count)
    frame: pd.DataFrame = pd.read_csv(
        file,
        sep=delimiter,
        names=None if header is None else tuple(header),
        dtype=str,
        keep_default_na=False,
        encoding="utf-8-sig",
        **options,
    )
    without_index = isinstance(frame.index, pd.RangeIndex)
    if not without_index:
        raise ValueError(
            f"rows have more cells than the header, which is {frame.columns.tolist()} with the "
            f"delimiter {delimiter!r}"
        )
    if options:
        frame.columns = frame.columns.str.removesuffix("\r")
        frame[frame.columns[-1]] = frame.iloc[:, -1].str.removesuffix("\r")
    return frame


def _json_objects(file: IO[bytes], where: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON array, or of JSON Lines; only line feeds end lines."""
    text = file.read().decode("utf-8-sig")
    array = text.lstrip().startswith("[")
    lines = [text] if array else text.split("\n")
    found: list[Any] = []
    for place, line in enumerate(lines, 1):
        try:
            found += (json.loads(line) if array else [json.loads(line)]) if line.strip() else []
        except (ValueError, RecursionError) as error:
            raise SclsearchError(
                f"{where}: line {place}: invalid JSON: {error}. Correct the file."
            ) from error
    for place, record in enumerate(found, 1):
        if not isinstance(record, dict):
            raise SclsearchError(
                f"{where}: row {place}: must be a JSON object, got {reprlib.repr(record)}. "
                "Correct the file."
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
    for name, feature in getattr(data, "features", {}).items():
        if (classes := getattr(feature, "names", None)) is not None:
            frame[name] = frame[name].map(dict(enumerate(classes)))
    return frame


def text_columns(frame: "pd.DataFrame", columns: Sequence[str], where: str) -> "pd.DataFrame":
    """Return some columns as text: whole numbers without decimals, missing values empty."""
    import pandas as pd

    header = frame.columns.tolist()
    faults = [
        f"{where}: {'two columns are' if name in header else 'no column is'} called {name!r}."
        f"{' Rename one.' if name in header else suggestion(name, header)}"
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

    if column.dtype == object:
        known = column.isna() | column.map(lambda value: isinstance(value, str | int | float))
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
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # integers with gaps
    return column.astype("string").fillna("").astype(object)


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
        names = [*map(one_line, classes[:SHOWN_NAMES]), *["…"] * (len(classes) > SHOWN_NAMES)]
        valid, expected = y >= 0, f"one of {', '.join(names)}"
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
