"""Rows in memory, from pandas or `datasets`, as a Parquet file that a custom task reads."""

import hashlib
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

TableInMemory = Union["pd.DataFrame", "datasets.Dataset"]


def write_table(data: TableInMemory, columns: Sequence[str], folder: Path, name: str) -> Path:
    """Write some columns to `<folder>/<digest>/<name>.parquet` and return this path.

    The digest is that of the file's content: equal data gives the same path, and a written file
    never changes. Class numbers of a `datasets.ClassLabel` become the names of the classes; -1
    becomes an empty cell.

    Args:
        data: A pandas data frame or a `datasets.Dataset`.
        columns: Names of the columns to write.
        folder: Folder for such files.
        name: Name of the file without its extension.

    Raises:
        SclsearchError: A column is missing, or its values have no common type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if Path(name).name != name:
        raise SclsearchError(f"name: must be a file name without folders, got {name!r}.")
    try:
        table = _arrow_table(data, columns, name)
    except pa.ArrowException as error:
        raise SclsearchError(f"{name}: {error}. Give each column values of one type.") from error
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


def _arrow_table(data: Any, columns: Sequence[str], name: str) -> "pa.Table":
    import pyarrow as pa

    is_dataset = hasattr(data, "column_names")
    header = data.column_names if is_dataset else [str(column) for column in data.columns]
    column_positions(Path(name), header, columns)
    if not is_dataset:
        return pa.Table.from_pandas(data[list(columns)], preserve_index=False)
    table = data.select_columns(list(columns)).with_format("arrow")[:]
    for position, column in enumerate(columns):
        classes = getattr(data.features[column], "names", None)
        if classes is not None:
            numbers = table[column].to_pylist()
            names = [None if n is None or n < 0 else classes[n] for n in numbers]
            table = table.set_column(position, column, pa.array(names, pa.string()))
    return table
