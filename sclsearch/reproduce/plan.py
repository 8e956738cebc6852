"""Which studies make the cells of a published table, and which cells cannot be made here."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from pathlib import Path

from sclsearch.errors import SclsearchError, lookup, suggestion
from sclsearch.methods import method_class
from sclsearch.methods.base import Training, reads_paraphrases
from sclsearch.protocols import PROTOCOLS, gunel
from sclsearch.protocols.base import Protocol
from sclsearch.protocols.scale import SCALES
from sclsearch.reproduce.base import Cell, Settings, Table
from sclsearch.search.options import How, What
from sclsearch.selection.rules import Rule
from sclsearch.tasks.paraphrases import paraphrase_source

SCALED_CONFIGS = 2
SHARED = frozenset(field.name for field in fields(Training))
NO_TEMPERATURE = (
    "T does not apply to these paraphrases: the conditions that differ in it are one figure"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How a table is to be reproduced.

    Attributes:
        how: Where and with what; rule and number of configurations are the table's.
        scale: Name in `SCALES`; None is the paper's own.
        model: Encoder instead of the paper's, or of the scale's.
        paraphrases: File for the methods, and the training rows, that read paraphrases.
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
        note: What a reader of the figure must know of the plan; empty if there is nothing to say.
    """

    cell: Cell
    what: What | None
    how: How
    reason: str = ""
    note: str = ""


def plan_cells(table: Table, cells: Sequence[Cell], wishes: Wishes) -> list[PlannedCell]:
    """Returns the study of each cell.

    At the paper's scale a study is one configuration, the cell's settings. At another it is a
    search over two, the first the space's published one: rates and batch sizes of large encoders
    do not suit a small one, so only what makes the method is set, and what alone tells a cell from
    another of its table.

    Where paraphrases join the training rows, a file of another temperature than the cell's does
    not make it. One that names none, and EDA, make a figure that is every temperature's.

    Raises:
        SclsearchError: The scale is unknown, no cell reads the paraphrases, or the file has faults.
    """
    if wishes.scale is not None:
        lookup(SCALES, wishes.scale, "scale")
    if wishes.paraphrases and not any(map(_reads_paraphrases, cells)):
        raise SclsearchError(
            f"--paraphrases {wishes.paraphrases}: it must come with a cell that reads paraphrases, "
            "by its method or among its training rows, but there is none. Leave it out."
        )
    joined = any(cell.block.augmentation for cell in cells)
    temperature = paraphrase_source(wishes.paraphrases).temperature if joined else None
    return [_planned(table, cell, wishes, temperature) for cell in cells]


def _planned(table: Table, cell: Cell, wishes: Wishes, temperature: float | None) -> PlannedCell:
    scaled = wishes.scale is not None
    reason = _reason(cell) or _other_temperature(cell, temperature)
    if reason or cell.row.method is None or cell.column.task is None:
        return PlannedCell(cell, None, wishes.how, reason or "published only")
    what = What(
        method=cell.row.method,
        task=cell.column.task,
        model=wishes.model or (None if scaled else cell.model),
        protocol=_protocol(table, cell).name,
        scale=wishes.scale,
        train_size=cell.block.train_size,
        shots=cell.block.shots,
        settings=_making(table, cell) if scaled else cell.settings,
        paraphrases=wishes.paraphrases if _reads_paraphrases(cell) else None,
        searched=scaled,
    )
    configs = SCALED_CONFIGS if scaled else None
    how = replace(wishes.how, rule=str(_rule(table, wishes.scale)), configs=configs)
    note = NO_TEMPERATURE if cell.block.augmentation and temperature is None else ""
    return PlannedCell(cell, what, how, note=note)


def _protocol(table: Table, cell: Cell) -> Protocol:
    return gunel.NOISY if cell.block.augmentation else PROTOCOLS[table.protocol]


def _other_temperature(cell: Cell, temperature: float | None) -> str:
    wanted = cell.block.augmentation
    if wanted is None or temperature in (None, wanted.temperature):
        return ""
    return f"its paraphrases have T={wanted.temperature:g}, those of the file T={temperature:g}"


def _rule(table: Table, scale: str | None) -> Rule:
    """Returns the rule, said in any case: records of a study may hold that of an earlier start."""
    protocol = PROTOCOLS[table.protocol]
    return SCALES[scale](protocol).rule if scale else table.rule or protocol.rule


def _own(cell: Cell) -> Settings:
    """Returns what makes the method, without what every method shares."""
    return {name: value for name, value in cell.settings.items() if name not in SHARED}


def _making(table: Table, cell: Cell) -> Settings:
    """Returns what makes the cell: the method's own, and what alone tells it from other cells."""
    alike = [other for other in table.cells if _made_alike(cell) == _made_alike(other)]
    telling = {
        name: cell.settings[name]
        for name in SHARED & cell.settings.keys()
        if any(cell.settings[name] != other.settings.get(name) for other in alike)
    }
    return {**_own(cell), **telling}


def _made_alike(cell: Cell) -> tuple[object, ...]:
    # Not conditions as such: batch sizes are one.
    condition = cell.block.train_size, cell.block.shots, cell.block.augmentation
    return cell.row.method, cell.column, condition, _own(cell)


def _reads_paraphrases(cell: Cell) -> bool:
    if cell.row.method is None:
        return False
    joined = cell.block.augmentation is not None
    return joined or reads_paraphrases(method_class(cell.row.method)(), Training())


def _reason(cell: Cell) -> str:
    if not cell.trainable:
        return "a mean of others" if cell.row.method else "published only"
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
            is among what one of them names of each kind. Case and blanks do not count; a number
            is a training size, in total or of each class.

    Raises:
        SclsearchError: The table holds no figures, a name is none of the table's, or no figure is
            printed where the names meet.
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
    """Returns the names that are asked for, as the table has them: rows, columns, conditions."""
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
    """Yields the names between commas, the longest known first: `[0.0,0.1]` is one."""
    parts = text.split(",")
    while parts:
        lengths = range(len(parts), 0, -1)
        length = next((n for n in lengths if _plain(",".join(parts[:n])) in known), 1)
        yield ",".join(parts[:length]).strip()
        parts = parts[length:]


def _names(table: Table) -> tuple[Mapping[str, set[str]], ...]:
    """Returns the names of rows, columns and conditions by how they may be written."""
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


def studies_of(planned: Sequence[PlannedCell]) -> Iterator[PlannedCell]:
    """Yields one cell of each study: two metrics of a task come from one."""
    seen: list[What] = []
    for one in planned:
        if one.what is not None and one.what not in seen:
            seen.append(one.what)
            yield one
