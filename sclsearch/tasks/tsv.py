"""Reader for TSV files in GLUE's format: quotes are text, and only line feeds end lines."""

from pathlib import Path

from sclsearch.tasks.tables import Row, Table, column_positions, load_text


def load_tsv(path: Path, columns: tuple[str, ...], header: tuple[str, ...] | None = None) -> Table:
    """Read some columns of a TSV file; collect rows with too few or too many cells as faults.

    Quotes are not special, since GLUE's files have unbalanced ones. Only line feeds end lines,
    since texts may contain other Unicode line separators. Blank lines are skipped.

    Args:
        path: The file.
        columns: Names of the columns to keep.
        header: Names of all columns, for a file without a header; None reads the first line.

    Raises:
        SclsearchError: The file is unreadable, or a column is missing.
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
    """Return the fault message for a row with a wrong number of cells."""
    return f"{columns} columns must be there, but there are {cells}"
