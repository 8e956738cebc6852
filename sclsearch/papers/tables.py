"""Published tables and figures of the papers, read from `published/<paper>/table-1.yaml`."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.selection.rules import Rule, parse_rule

PUBLISHED = Path(__file__).parent / "published"
Unit = Literal["percent", "fraction"]
Settings = Mapping[str, object]

SCALES: Mapping[Unit, int] = {"percent": 100, "fraction": 1}
"""Value of a perfect score in each unit."""


@dataclass(frozen=True, slots=True)
class Row:
    """Table row: the trained method, and the fields of it that define the row."""

    # As printed.
    name: str
    # Name in `METHODS`; None if sclsearch has no such method and shows the published value only.
    method: str | None = None
    settings: Settings = field(default_factory=dict)
    # Name of the table whose settings for a task apply here too.
    settings_of: str | None = None
    # Assumptions.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Table column: task and metric, and the fields that the paper sets for the task."""

    # As printed, with the metric if a printed column has two.
    name: str
    metric: str
    # None in a mean of columns, whose names `average_of` has.
    task: str | None = None
    # Class whose F1 is printed, by its share of the training rows; None for all classes.
    of_class: Literal["minority", "majority"] | None = None
    # Name of the encoder; None uses the table's.
    model: str | None = None
    settings: Settings = field(default_factory=dict)
    average_of: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Paraphrases of each row that are added to the training rows, and their temperature."""

    views: int
    temperature: float


@dataclass(frozen=True, slots=True)
class Block:
    """Condition of one section of a table, and the fields that it sets."""

    # In the paper's terms, `N=20`; `full` or `sampled` if there is one condition.
    name: str
    # None uses the table's.
    protocol: str | None = None
    # Training rows in total, and per class.
    train_size: int | None = None
    shots: int | None = None
    # Texts of stages that read no labels, including the training rows.
    unlabeled: int | None = None
    augmentation: Augmentation | None = None
    # Task on which the same method fine-tunes the encoder beforehand.
    first_task: str | None = None
    settings: Settings = field(default_factory=dict)
    # Names of the blocks whose mean this is.
    average_of: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """Table cell: one published value, in the table's units, and all fields that it sets.

    `value` is None at a point of a figure whose value the text does not state.
    `settings` combines those of table, task, condition and row; later ones take precedence.
    """

    row: Row
    column: Column
    block: Block
    value: float | None
    std: float | None
    model: str
    settings: Settings

    @property
    def name(self) -> str:
        return f"{self.block.name}, {self.row.name}, {self.column.name}"

    @property
    def trainable(self) -> bool:
        """True if a method here reproduces it; False for published-only rows and for means."""
        averaged = self.column.average_of or self.block.average_of
        return self.row.method is not None and not averaged


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Published table or figure of a paper; a table of settings has no cells.

    The blocks of a figure are the values of its horizontal axis.
    """

    # Name on the command line, `gunel/table-4`.
    name: str
    # Authors, year and address.
    paper: str
    number: int
    title: str
    # Sections that describe it.
    source: str
    # Definition of a cell's value, in one line, and the units of values and standard deviations.
    value: str
    unit: Unit
    std_unit: Unit | None = None
    # Aggregation of the seeds into a value, and seed runs behind it; None if the paper does not
    # state them.
    rule: Rule | None = None
    runs: int | None = None
    # The protocol sets the fields that the cells' settings do not, such as epochs.
    protocol: str
    model: str
    settings: Settings = field(default_factory=dict)
    # Errata, and remarks for readers of the values.
    notes: Sequence[str] = ()
    rows: Mapping[str, Row]
    columns: Mapping[str, Column]
    blocks: Mapping[str, Block]
    # By block, row and column. A printed dash has no cell.
    cells: Sequence[Cell]
    # Selectors of the cells that a smaller scale trains by default; empty for all.
    laptop: Sequence[str] = ()
    # True if the figure is a map of embeddings, which needs the trained weights.
    embeddings: bool = False

    @property
    def figure(self) -> bool:
        return _is_figure(self.name)

    def as_metric(self, cell: Cell) -> tuple[float | None, float | None]:
        """Return value and standard deviation on the scale of the metrics, whose maximum is 1."""
        if cell.value is None:
            return None, None
        # Rounded, since 88.1 / 100 is 0.8809999999999999.
        value = round(cell.value / SCALES[self.unit], 6)
        std_scale = SCALES[self.std_unit or self.unit]
        return value, None if cell.std is None else round(cell.std / std_scale, 6)


@cache
def published_tables() -> Mapping[str, Table]:
    """Return the tables and figures in the package, by name: `gunel/table-4`."""
    return load_tables(PUBLISHED)


def load_tables(folder: Path) -> Mapping[str, Table]:
    """Return the tables of a folder, by `<paper>/table-<number>` or `<paper>/figure-<number>`.

    A file has the fields of `Table`. The entries of `rows`, `columns` and `blocks` are the fields
    of these classes by name. `cells` gives a value, `[value, standard deviation]`, or null for a
    printed dash, by block, row and column. A figure has a cell at every place.
    """
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    files = {
        path.relative_to(folder).with_suffix("").as_posix(): yaml.load(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(folder.glob("*/*.yaml"))
    }
    return {name: _table(name, files) for name in files}


def _table(name: str, files: Mapping[str, Mapping[str, Any]]) -> Table:
    file = files[name]
    rows = {row: Row(row, **entry) for row, entry in file["rows"].items()}
    columns = {column: Column(column, **entry) for column, entry in file["columns"].items()}
    blocks = {}
    for block, entry in file["blocks"].items():
        added = {key: Augmentation(**entry[key]) for key in entry if key == "augmentation"}
        blocks[block] = Block(block, **{**entry, **added})
    cells = []
    for block, row, column in product(blocks.values(), rows.values(), columns.values()):
        printed = file["cells"].get(block.name, {}).get(row.name, {}).get(column.name)
        if printed is None and not _is_figure(name):
            continue
        value, std = printed if isinstance(printed, list) else (printed, None)
        settings = {
            **file.get("settings", {}),
            **_borrowed_settings(row, column.task, files),
            **column.settings,
            **block.settings,
            **row.settings,
        }
        value = None if value is None else float(value)
        model = column.model or file["model"]
        cells.append(Cell(row, column, block, value, std, model, settings))
    rule = parse_rule(file["rule"]) if "rule" in file else None
    parts = {"rows": rows, "columns": columns, "blocks": blocks, "cells": cells, "rule": rule}
    return Table(**{**file, "name": name, **parts})


def _is_figure(name: str) -> bool:
    return "/figure-" in name


def _borrowed_settings(row: Row, task: str | None, files: Mapping[str, Any]) -> Settings:
    if row.settings_of is None:
        return {}
    columns = files[row.settings_of]["columns"].values()
    return next((c.get("settings", {}) for c in columns if c.get("task") == task), {})


def select_cells(table: Table, selectors: Sequence[str]) -> list[Cell]:
    """Return the selected cells of a table, or all cells if there is no selector.

    A selector lists names of rows, columns and conditions: `CE+SCL,20,SST-2`. It matches a cell if,
    for each kind that it names, the cell has one of these names. Case and blanks are ignored; a
    number is a training size, in total or per class.

    Raises:
        SclsearchError: The table has no values, it lacks a name, or a selector matches no value.
    """
    if not table.cells:
        raise SclsearchError(
            f"{table.name}: has only settings, no scores. Choose another table, see "
            "`sclsearch reproduce ls`."
        )
    if not selectors:
        return list(table.cells)
    selected: list[Cell] = []
    for selector in selectors:
        rows, columns, blocks = _selected_names(table, selector)
        matching = [
            cell
            for cell in table.cells
            if cell.row.name in (rows or table.rows)
            and cell.column.name in (columns or table.columns)
            and cell.block.name in (blocks or table.blocks)
        ]
        if not matching:
            raise SclsearchError(
                f"--cells {selector}: {table.name} prints no score there. Leave out a name."
            )
        selected += matching
    return [cell for cell in table.cells if cell in selected]


def _selected_names(table: Table, selector: str) -> tuple[set[str], set[str], set[str]]:
    found: tuple[set[str], set[str], set[str]] = set(), set(), set()
    kinds = table.rows, table.columns, table.blocks
    spellings: dict[str, set[tuple[int, str]]] = {}
    for kind, names in enumerate(kinds):
        for name in names:
            spellings.setdefault(_plain(name), set()).add((kind, name))
    for name, block in table.blocks.items():
        if size := block.train_size or block.shots:
            spellings.setdefault(str(size), set()).add((2, name))
    for term in _terms(selector, spellings.keys()):
        if _plain(term) not in spellings:
            raise SclsearchError(
                f"--cells {selector}: {term!r} is no row, column or condition of {table.name}."
                f"{suggestion(term, (name for names in kinds for name in names))}"
            )
        for kind, name in spellings[_plain(term)]:
            found[kind].add(name)
    return found


def _terms(selector: str, known: Set[str]) -> Iterator[str]:
    """Yield the comma-separated names, longest known match first: `[0.0,0.1]` is one name."""
    splits = selector.split(",")
    while splits:
        lengths = range(len(splits), 0, -1)
        length = next((n for n in lengths if _plain(",".join(splits[:n])) in known), 1)
        yield ",".join(splits[:length]).strip()
        splits = splits[length:]


def _plain(name: str) -> str:
    return "".join(name.lower().split())
