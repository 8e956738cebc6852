"""Rows in memory, from pandas or `datasets`, as a Parquet file that a custom task reads."""

import hashlib
import reprlib
import uuid
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from sclsearch.errors import SclsearchError
from sclsearch.tasks.tables import column_positions

if TYPE_CHECKING:
    import datasets
    import pandas as pd
    import pyarrow as pa

LONGEST_NAME = 200
"""Maximum length of a task's name in bytes: file systems allow 255 with the endings."""
TableInMemory = Union["pd.DataFrame", "datasets.Dataset"]


def write_table(data: TableInMemory, columns: Sequence[str], folder: Path, name: str) -> Path:
    """Write some columns to `<folder>/<digest>/<name>.parquet` and return this path.

    The digest is that of the file's content: equal data gives the same path, and a written file
    never changes. Class numbers of a `datasets.ClassLabel` become the names of the classes; -1
    becomes an empty cell.

    Raises:
        SclsearchError: A column is missing, or its values have no common type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    _check_arguments(data, columns, name)
    try:
        table = _arrow_table(data, columns, name)
    except pa.ArrowException as error:
        # Arrow's own message may be a tuple.
        reason = ": ".join(map(str, error.args)).rstrip(".")
        raise SclsearchError(f"{name}: {reason}. Give each column values of one type.") from error
    buffer = BytesIO()
    pq.write_table(table.replace_schema_metadata(None), buffer)
    content = buffer.getvalue()
    path = folder / hashlib.sha256(content).hexdigest()[:16] / f"{name}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        part.write_bytes(content)
        part.replace(path)
    return path


def _check_arguments(data: object, columns: Sequence[object], name: object) -> None:
    """Raise SclsearchError if the data, a column name or the task's name has the wrong type."""
    if not (
        isinstance(name, str)
        and name.isprintable()
        and 0 < len(name.encode()) <= LONGEST_NAME
        and Path(name).name == name != ".."
    ):
        raise SclsearchError(
            "name: must be a file name without folders and control characters, of at most "
            f"{LONGEST_NAME} bytes, got {reprlib.repr(name)}. Pass a short name."
        )
    for column in columns:
        if not isinstance(column, str):
            raise SclsearchError(
                f"{name}: a column's name must be text, got {column!r}. Pass it as text."
            )
    # A DatasetDict has no `features`, and an IterableDataset has no `__getitem__`.
    if not (_is_frame(data) or (hasattr(data, "features") and hasattr(data, "__getitem__"))):
        raise SclsearchError(
            f"{name}: must be a pandas data frame or a datasets.Dataset, got "
            f"{type(data).__name__}. Convert it to a data frame."
        )


def _is_frame(data: object) -> bool:
    import pandas as pd

    return isinstance(data, pd.DataFrame)


def _arrow_table(data: Any, columns: Sequence[str], name: str) -> "pa.Table":
    import pyarrow as pa

    is_frame = _is_frame(data)
    header = [str(column) for column in data.columns] if is_frame else data.column_names
    column_positions(Path(name), header, columns)
    if is_frame:
        # pandas turns integers into decimals where a column has empty cells.
        frame = data.set_axis(header, axis=1)[list(columns)]
        whole = [column for column in frame if _has_whole_decimals(frame[column])]
        frame = frame.astype(dict.fromkeys(whole, "Int64"))
        return pa.Table.from_pandas(frame, preserve_index=False)
    table = data.select_columns(list(columns)).with_format("arrow")[:]
    for position, column in enumerate(columns):
        classes = getattr(data.features[column], "names", None)
        if classes is not None:
            numbers = table[column].to_pylist()
            names = [None if n is None or n < 0 else classes[n] for n in numbers]
            table = table.set_column(position, column, pa.array(names, pa.string()))
    return table


def _has_whole_decimals(column: "pd.Series[Any]") -> bool:
    """Return True if a column has decimals that are all whole, and empty cells."""
    return bool(
        column.dtype.kind == "f" and column.isna().any() and (column.dropna() % 1 == 0).all()
    )
