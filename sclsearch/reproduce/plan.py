"""Which studies make the cells of a published table, and which cells cannot be made here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods.base import Training
from sclsearch.reproduce.base import Cell, Table
from sclsearch.search.options import How, What

SCALED_CONFIGS = 2
SHARED = frozenset(field.name for field in fields(Training))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How a table is to be reproduced.

    Attributes:
        how: Where and with what; rule and number of configurations are the table's.
        scale: Name in `SCALES`; None is the paper's own.
        model: Encoder instead of the paper's, or of the scale's.
        paraphrases: File for the methods that read paraphrases.
    """

    how: How
    scale: str | None = None
    model: str | None = None
    paraphrases: Path | None = None


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell and the study that makes it.

    Attributes:
        cell: The published figure.
        what: What is trained; None where it cannot be.
        how: How it is trained.
        reason: Why it cannot be trained here; empty if it can.
    """

    cell: Cell
    what: What | None
    how: How
    reason: str = ""


def plan_cells(table: Table, cells: Sequence[Cell], wishes: Wishes) -> list[PlannedCell]:
    """Returns the study of each cell.

    At the paper's scale a study is one configuration, the cell's settings. At another it is a
    search over two, the first the space's published one: rates and batch sizes of large encoders
    do not suit a small one, so only what makes the method is set.
    """
    return [_planned(table, cell, wishes) for cell in cells]


def _planned(table: Table, cell: Cell, wishes: Wishes) -> PlannedCell:
    reason = _reason(cell)
    if reason or cell.row.method is None or cell.column.task is None:
        return PlannedCell(cell, None, wishes.how, reason or "published only")
    scaled = wishes.scale is not None
    own = {name: value for name, value in cell.settings.items() if name not in SHARED}
    what = What(
        method=cell.row.method,
        task=cell.column.task,
        model=wishes.model or (None if scaled else cell.model),
        protocol=table.protocol,
        scale=wishes.scale,
        train_size=cell.block.train_size,
        shots=cell.block.shots,
        settings=own if scaled else cell.settings,
        paraphrases=wishes.paraphrases if cell.row.method == "cssl" else None,
        searched=scaled,
    )
    rule = None if scaled or table.rule is None else str(table.rule)
    configs = SCALED_CONFIGS if scaled else None
    return PlannedCell(cell, what, replace(wishes.how, rule=rule, configs=configs))


def _reason(cell: Cell) -> str:
    if not cell.trainable:
        return "a mean of others" if cell.row.method else "published only"
    if cell.block.augmentation is not None:
        return "training rows cannot be joined by paraphrases yet"
    if cell.block.first_task is not None:
        return f"an encoder cannot be fine-tuned on {cell.block.first_task} first yet"
    if cell.column.split is not None:
        return f"no protocol tests on {cell.column.split} yet"
    return ""


def chosen_cells(table: Table, wanted: Sequence[str]) -> list[Cell]:
    """Returns the cells that are asked for, all without a wish.

    Args:
        table: The table.
        wanted: Each names rows, columns and conditions, `CE+SCL,20,SST-2`; a cell is chosen if it
            is among what one of them names of each kind. Case and blanks do not count.

    Raises:
        SclsearchError: A name is none of the table's.
    """
    if not wanted:
        return list(table.cells)
    wishes = [_wish(table, text) for text in wanted]
    return [cell for cell in table.cells if any(_fits(cell, wish) for wish in wishes)]


def _wish(table: Table, text: str) -> list[set[str]]:
    """Returns the names that are asked for, as the table has them: rows, columns, conditions."""
    names = _names(table)
    wish: list[set[str]] = [set() for _ in names]
    for term in text.split(","):
        found = False
        for kind, known in zip(wish, names, strict=True):
            if (name := known.get(_plain(term))) is not None:
                kind.add(name)
                found = True
        if not found:
            every = [name for known in names for name in dict.fromkeys(known.values())]
            raise SclsearchError(
                f"--cells {text}: {term.strip()!r} must be a row, column or condition of "
                f"{table.name}, but it is none.{suggestion(term.strip(), every)}"
            )
    return wish


def _names(table: Table) -> tuple[Mapping[str, str], ...]:
    columns = {_plain(name): name for name in table.columns}
    sizes = {
        str(size): name
        for name, block in table.blocks.items()
        if (size := block.train_size or block.shots) is not None
    }
    blocks = {**sizes, **{_plain(name): name for name in table.blocks}}
    return {_plain(name): name for name in table.rows}, columns, blocks


def _fits(cell: Cell, wish: list[set[str]]) -> bool:
    own = (cell.row.name, cell.column.name, cell.block.name)
    return all(not names or name in names for name, names in zip(own, wish, strict=True))


def _plain(name: str) -> str:
    return "".join(name.lower().split())


def studies_of(planned: Sequence[PlannedCell]) -> Iterator[PlannedCell]:
    """Yields one cell of each study: two metrics of a task come from one."""
    seen: list[What] = []
    for one in planned:
        if one.what is not None and one.what not in seen:
            seen.append(one.what)
            yield one
