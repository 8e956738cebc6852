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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Table cell: one published value, and what the study that reproduces it sets.

    Attributes:
        block: Condition of a section of the table, in the paper's terms; `full` or `sampled` if
            there is one condition.
        row: Row, as printed.
        column: Column, as printed, with the metric if a printed column has two.
        value: Published value, on the scale of the metrics, whose maximum is 1. None at a point of
            a figure whose value the text does not state.
        std: Its standard deviation, on the same scale.
        method: Name in `METHODS`; None if sclsearch has no such method.
        note: Assumptions about the row.
        task: Name in `TASKS`; None in a mean of columns.
        metric: Metric of the value.
        of_class: Class whose F1 is printed, by its share of the training rows; None for all.
        averages: Whether the value is a mean of others.
        protocol: Protocol, which sets the fields that the settings do not, such as epochs.
        model: Encoder.
        train_size: Training rows in total.
        shots: Training rows per class.
        unlabeled: Texts of stages that read no labels, including the training rows.
        temperature: Temperature of the paraphrases that the protocol adds to the training rows.
        first_task: Task on which the same method fine-tunes the encoder beforehand.
        settings: Hyperparameters that table, task, condition and row set; later ones take
            precedence.
    """

    block: str
    row: str
    column: str
    value: float | None
    std: float | None
    method: str | None = None
    note: str = ""
    task: str | None = None
    metric: str
    of_class: Literal["minority", "majority"] | None = None
    averages: bool = False
    protocol: str
    model: str
    train_size: int | None = None
    shots: int | None = None
    unlabeled: int | None = None
    temperature: float | None = None
    first_task: str | None = None
    settings: Settings

    @property
    def name(self) -> str:
        return f"{self.block}, {self.row}, {self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Published table or figure of a paper; a table of settings has no cells.

    The blocks of a figure are the values of its horizontal axis. `rows`, `columns` and `blocks`
    have the fields of `Cell` that they set, by name; a row may take the settings of another table
    (`settings_of`), a column or block may be a mean (`average_of`).
    """

    name: str  # on the command line, `gunel/table-4`
    paper: str  # authors, year and address
    number: int
    title: str
    source: str  # sections that describe it
    value: str  # definition of a cell's value, in one line
    unit: Unit
    std_unit: Unit | None = None
    # Aggregation of the seeds into a value, and seed runs behind it; None if the paper does not
    # state them.
    rule: Rule | None = None
    runs: int | None = None
    protocol: str
    model: str
    settings: Settings = field(default_factory=dict)
    notes: Sequence[str] = ()  # errata, and remarks for readers of the values
    rows: Mapping[str, Mapping[str, Any]]
    columns: Mapping[str, Mapping[str, Any]]
    blocks: Mapping[str, Mapping[str, Any]]
    cells: Sequence[Cell]  # by block, row and column; a printed dash has no cell
    laptop: Sequence[str] = ()  # selectors of the cells that a smaller scale trains by default
    embeddings: bool = False  # True for a map of embeddings, which needs the trained weights


@cache
def published_tables() -> Mapping[str, Table]:
    """Return the tables and figures in the package, by name: `gunel/table-4`."""
    return load_tables(PUBLISHED)


def load_tables(folder: Path) -> Mapping[str, Table]:
    """Return the tables of a folder, by `<paper>/table-<number>` or `<paper>/figure-<number>`.

    A file has the fields of `Table`. `cells` gives a value, `[value, standard deviation]`, or null
    for a printed dash, by block, row and column. A figure has a cell at every place.
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
    scale, std_scale = SCALES[file["unit"]], SCALES[file.get("std_unit", file["unit"])]
    parts = (file["blocks"].items(), file["rows"].items(), file["columns"].items())
    cells = []
    for (block, condition), (row, method), (column, task) in product(*parts):
        printed = file["cells"].get(block, {}).get(row, {}).get(column)
        if printed is None and "/figure-" not in name:
            continue
        value, std = printed if isinstance(printed, list) else (printed, None)
        shared = {name: file[name] for name in ("protocol", "model")}
        entries = {**shared, **task, **condition, **method}
        borrowed = files[entries.pop("settings_of")]["columns"] if "settings_of" in entries else {}
        of_task = (
            c.get("settings", {}) for c in borrowed.values() if c.get("task") == task.get("task")
        )
        layers: Sequence[Mapping[str, Any]] = (
            file,
            {"settings": next(of_task, {})},
            task,
            condition,
            method,
        )
        entries["settings"] = {k: v for one in layers for k, v in one.get("settings", {}).items()}
        entries["averages"] = entries.pop("average_of", None) is not None
        cells.append(
            Cell(
                block=block,
                row=row,
                column=column,
                # Rounded, since 88.1 / 100 is 0.8809999999999999.
                value=None if value is None else round(value / scale, 6),
                std=None if std is None else round(std / std_scale, 6),
                **entries,
            )
        )
    rule = parse_rule(file["rule"]) if "rule" in file else None
    return Table(**{**file, "name": name, "cells": cells, "rule": rule})


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
            if cell.row in (rows or table.rows)
            and cell.column in (columns or table.columns)
            and cell.block in (blocks or table.blocks)
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
        if size := block.get("train_size") or block.get("shots"):
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
