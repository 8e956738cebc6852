"""Tab-separated files as GLUE has them: quotes are text, a line ends at a line feed."""

from pathlib import Path

from sclsearch.tasks.tables import Row, Table, column_positions, load_text


def load_tsv(path: Path, columns: tuple[str, ...], header: tuple[str, ...] | None = None) -> Table:
    """Reads some columns; rows with too few or too many cells become faults.

    Quotes are not special, since GLUE's files hold unbalanced ones. Lines are split at line feeds
    alone, since texts may hold other characters that Unicode calls line ends. Blank lines hold no
    row.

    Args:
        path: The file.
        columns: Names of the columns to keep.
        header: Names of all columns in a file that has no header; None reads the first line.

    Raises:
        SclsearchError: The file cannot be read, or a column is missing.
    """
    lines = [line.removesuffix("\r") for line in load_text(path).split("\n")]
    names = header or tuple(lines[0].split("\t"))
    positions = column_positions(path, names, columns)
    table = Table(path, [], [])
    first = 0 if header else 1
    for place, line in enumerate(lines[first:], first + 1):
        if not line:
            continue
        cells = line.split("\t")
        if len(cells) == len(names):
            table.rows.append(Row(place, tuple(cells[position] for position in positions)))
        else:
            table.faults.append((place, wrong_width(len(names), len(cells))))
    return table


def wrong_width(columns: int, cells: int) -> str:
    """Returns the reason of the fault."""
    return f"{columns} columns must be there, but there are {cells}"
