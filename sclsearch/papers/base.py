"""Data types of a published table: rows, columns, blocks and cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, with_config

from sclsearch.selection.rules import Rule

Unit = Literal["percent", "fraction"]
Settings = Mapping[str, object]
Count = Annotated[int, Field(ge=1, strict=True)]

SCALES: Mapping[Unit, int] = MappingProxyType({"percent": 100, "fraction": 1})


@dataclass(frozen=True, slots=True)
class Row:
    """Table row: the trained method.

    Attributes:
        name: As printed.
        method: Name in `METHODS`; None if sclsearch has no such method and shows the published
            value only.
        settings: Fields of the method that define the row; they are one layer of `Cell.settings`.
        settings_of: Name of the table whose settings for a task apply here too.
        note: Assumptions.
    """

    name: str
    method: str | None = None
    settings: Settings = field(default_factory=dict)
    settings_of: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Table column: task and metric.

    Attributes:
        name: As printed, with the metric if a printed column has two.
        metric: Name in `METRICS`.
        task: Name of the task; None in a mean of columns.
        of_class: Class whose F1 is printed, by its share of the training rows; None for all
            classes.
        model: Name of the encoder; None uses the table's.
        settings: Fields that the paper sets for the task; they are one layer of `Cell.settings`.
        average_of: Names of the columns whose mean this is.
    """

    name: str
    metric: str
    task: str | None = None
    of_class: Literal["minority", "majority"] | None = None
    model: str | None = None
    settings: Settings = field(default_factory=dict)
    average_of: tuple[str, ...] = ()


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Augmentation:
    """Paraphrases that are added to the training rows.

    Attributes:
        views: Paraphrases of each row.
        temperature: Sampling temperature of the translation models.
    """

    views: Count
    temperature: Annotated[float, Field(gt=0, strict=True)]


@dataclass(frozen=True, slots=True)
class Block:
    """Condition of one section of a table.

    Attributes:
        name: In the paper's terms, `N=20`; `full` or `sampled` if there is one condition.
        train_size: N training rows in total.
        shots: K training rows per class.
        augmentation: Paraphrases of the training rows, if any.
        first_task: Task on which the same method fine-tunes the encoder beforehand.
        settings: Fields that the condition sets; they are one layer of `Cell.settings`.
        average_of: Names of the blocks whose mean this is.
    """

    name: str
    train_size: Count | None = None
    shots: Count | None = None
    augmentation: Augmentation | None = None
    first_task: str | None = None
    settings: Settings = field(default_factory=dict)
    average_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """Table cell: one published value.

    Attributes:
        row: The trained method.
        column: Task and metric.
        block: The condition.
        value: As printed, in the table's `unit`.
        std: Standard deviation as printed, in the table's `std_unit`; None if none is printed.
        model: Name of the encoder.
        settings: Combined fields of table, task, condition and row; later ones take precedence.
    """

    row: Row
    column: Column
    block: Block
    value: float
    std: float | None
    model: str
    settings: Settings

    @property
    def trainable(self) -> bool:
        """True if a method here reproduces it; False for published-only rows and for means."""
        averaged = self.column.average_of or self.block.average_of
        return self.row.method is not None and not averaged


@dataclass(frozen=True, slots=True)
class Table:
    """Published table of a paper.

    Attributes:
        name: Name on the command line, `gunel/table-4`.
        paper: Authors, year and address.
        number: Number in the paper.
        title: Content, in one line.
        source: Sections that describe it.
        figure: Definition of a cell's value, in one line.
        unit: Unit of the values.
        std_unit: Unit of the standard deviations.
        rule: Aggregation of the seeds into a value; None if the paper does not state it.
        runs: Seed runs behind a value; None if the paper does not state it.
        protocol: Name in `PROTOCOLS`. It sets the fields that the cells' settings do not, such as
            epochs.
        model: Default encoder of the cells.
        settings: Fields that the paper sets for the whole table; see `Cell.settings`.
        notes: Errata, and remarks for readers of the values.
        rows: Rows by name.
        columns: Columns by name.
        blocks: Blocks by name.
        cells: Cells by block, row and column. A printed dash has no cell; a table of settings has
            no cells.
    """

    name: str
    paper: str
    number: int
    title: str
    source: str
    figure: str
    unit: Unit
    std_unit: Unit
    rule: Rule | None
    runs: int | None
    protocol: str
    model: str
    settings: Settings
    notes: tuple[str, ...]
    rows: Mapping[str, Row]
    columns: Mapping[str, Column]
    blocks: Mapping[str, Block]
    cells: tuple[Cell, ...]

    def as_metric(self, cell: Cell) -> tuple[float, float | None]:
        """Return value and standard deviation on the scale of the metrics, whose maximum is 1."""
        # Rounded, since 88.1 / 100 is 0.8809999999999999.
        value = round(cell.value / SCALES[self.unit], 6)
        return value, None if cell.std is None else round(cell.std / SCALES[self.std_unit], 6)
