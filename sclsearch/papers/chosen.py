"""Selection of a published table's cells by names of rows, columns and conditions."""

from collections.abc import Iterator, Mapping, Sequence, Set

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.papers.base import Cell, Table


def chosen_cells(table: Table, wanted: Sequence[str]) -> list[Cell]:
    """Return the selected cells of a table, or all cells if nothing is selected.

    Args:
        table: The table.
        wanted: Selectors, each a list of names of rows, columns and conditions: `CE+SCL,20,SST-2`.
            A selector matches a cell if, for each kind that it names, the cell has one of these
            names. Case and blanks are ignored; a number is a training size, in total or per class.

    Raises:
        SclsearchError: The table has no values, it lacks a name, or a selector matches no value.
    """
    if not table.cells:
        raise SclsearchError(f"{table.name}: it must hold figures, but it holds settings alone.")
    if not wanted:
        return list(table.cells)
    chosen: set[int] = set()
    for text in wanted:
        wish = _wish(table, text)
        found = {number for number, cell in enumerate(table.cells) if _fits(cell, wish)}
        if not found:
            raise SclsearchError(
                f"--cells {text}: {table.name} must print a figure there, but it prints none. "
                "Leave out a name."
            )
        chosen |= found
    return [table.cells[number] for number in sorted(chosen)]


def _wish(table: Table, text: str) -> list[set[str]]:
    """Return the names in a selector, as printed in the table: rows, columns, conditions."""
    names = _names(table)
    terms = list(_terms(text, {plain for kind in names for plain in kind}))
    for term in terms:
        if not any(_plain(term) in kind for kind in names):
            every = {name for kind in names for found in kind.values() for name in found}
            raise SclsearchError(
                f"--cells {text}: {term!r} must be a row, column or condition of {table.name}, "
                f"but it is none.{suggestion(term, every)}"
            )
    return [{n for term in terms for n in kind.get(_plain(term), ())} for kind in names]


def _terms(text: str, known: Set[str]) -> Iterator[str]:
    """Yield the comma-separated names, longest known match first: `[0.0,0.1]` is one name."""
    splits = text.split(",")
    while splits:
        lengths = range(len(splits), 0, -1)
        length = next((n for n in lengths if _plain(",".join(splits[:n])) in known), 1)
        yield ",".join(splits[:length]).strip()
        splits = splits[length:]


def _names(table: Table) -> tuple[Mapping[str, set[str]], ...]:
    """Return the printed names of rows, columns and conditions, by their accepted spellings."""
    blocks = {_plain(name): {name} for name in table.blocks}
    for name, block in table.blocks.items():
        size = block.train_size or block.shots
        if size is not None:
            blocks.setdefault(str(size), set()).add(name)
    rows = {_plain(name): {name} for name in table.rows}
    return rows, {_plain(name): {name} for name in table.columns}, blocks


def _fits(cell: Cell, wish: list[set[str]]) -> bool:
    own = (cell.row.name, cell.column.name, cell.block.name)
    return all(not names or name in names for name, names in zip(own, wish, strict=True))


def _plain(name: str) -> str:
    return "".join(name.lower().split())
