"""Published tables and figures of the papers, read from `published/<paper>/table-1.yaml`."""

import re
from collections.abc import Mapping, Sequence
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
    """Table cell: one published value, and what the study that reproduces it sets."""

    block: str  # condition of a section of the table; `full` or `sampled` if there is one
    row: str
    column: str  # with the metric if a printed column has two
    # On the scale of the metrics, whose maximum is 1. The value is None at a point of a figure
    # whose value the text does not state.
    value: float | None
    std: float | None
    method: str | None = None  # None if sclsearch has no such method
    note: str = ""  # assumptions about the row
    task: str | None = None  # None in a mean of columns
    metric: str
    # Class whose F1 is printed, by its share of the training rows; None for all.
    of_class: Literal["minority", "majority"] | None = None
    averages: bool = False  # whether it is a mean of other cells
    protocol: str  # sets the fields that the settings do not, such as epochs
    model: str
    train_size: int | None = None
    shots: int | None = None
    unlabeled: int | None = None  # texts of stages that read no labels, with the training rows
    temperature: float | None = None  # of the paraphrases that the protocol adds
    first_task: str | None = None  # on which the method fine-tunes the encoder beforehand
    settings: Settings  # of table, task, condition and row; later ones take precedence

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
    selected = [cell for selector in selectors for cell in _selected(table, selector)]
    return [cell for cell in table.cells if cell in selected]


def _selected(table: Table, selector: str) -> list[Cell]:
    kinds: list[dict[str, set[str]]] = []  # names by their spellings, for each kind
    for entries in (table.rows, table.columns, table.blocks):
        names: dict[str, set[str]] = {}
        for name, entry in entries.items():
            for text in (name, entry.get("train_size", name), entry.get("shots", name)):
                names.setdefault(_plain(str(text)), set()).add(name)
        kinds.append(names)
    terms = [term.strip() for term in re.split(r",(?![^\[]*\])", selector)]  # [0,0.1] is one
    for term in terms:
        if not any(_plain(term) in names for names in kinds):
            known = (*table.rows, *table.columns, *table.blocks)
            raise SclsearchError(
                f"--cells {selector}: {term!r} is no row, column or condition of {table.name}."
                f"{suggestion(term, known)}"
            )
    wanted = [{one for term in terms for one in names.get(_plain(term), ())} for names in kinds]
    found = [
        cell
        for cell in table.cells
        for own in [(cell.row, cell.column, cell.block)]
        if all(not names or one in names for one, names in zip(own, wanted, strict=True))
    ]
    if not found:
        raise SclsearchError(
            f"--cells {selector}: {table.name} prints no score there. Leave out a name."
        )
    return found


def _plain(name: str) -> str:
    return "".join(name.lower().split())
