"""What a published table is: its rows, columns, blocks and figures."""

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
    """What was trained.

    Attributes:
        name: As printed.
        method: Name in `METHODS`; None where the figure is published only: nothing here makes it.
        settings: The method's fields that make the row; of it alone, see `Cell.settings`.
        settings_of: Name of the table whose settings for a task are taken over.
        note: What is assumed.
    """

    name: str
    method: str | None = None
    settings: Settings = field(default_factory=dict)
    settings_of: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """What it was trained on and measured by.

    Attributes:
        name: As printed, with the metric where a printed column has two.
        metric: Name in `METRICS`.
        task: Name of the task; None in a mean of columns.
        of_class: The class whose F1 it is, by its training rows; None for all.
        model: Name of the encoder; None is the table's.
        settings: What the paper sets for the task; of it alone, see `Cell.settings`.
        average_of: Names of the columns that it is the mean of.
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
    """Paraphrases that join the training rows.

    Attributes:
        views: Paraphrases of each row.
        temperature: Of the translation models' sampling.
    """

    views: Count
    temperature: Annotated[float, Field(gt=0, strict=True)]


@dataclass(frozen=True, slots=True)
class Block:
    """The condition of a part of a table.

    Attributes:
        name: In the paper's terms, `N=20`; `full` or `sampled` where there is one condition.
        train_size: N training rows in total.
        shots: K training rows of each class.
        augmentation: Paraphrases of the training rows, if any.
        first_task: Task that the encoder is fine-tuned on before, by the same method.
        settings: What the condition sets; of it alone, see `Cell.settings`.
        average_of: Names of the blocks that it is the mean of.
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
    """A printed figure.

    Attributes:
        row: What was trained.
        column: On which task, by which metric.
        block: Under which condition.
        value: As printed, in the table's `unit`.
        std: Standard deviation as printed, in the table's `std_unit`; None without one.
        model: Name of the encoder.
        settings: All that is set: by table, task, condition and row, the later before the earlier.
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
        """Whether it comes from training by a method here; not so published only and means."""
        averaged = self.column.average_of or self.block.average_of
        return self.row.method is not None and not averaged


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a paper.

    Attributes:
        name: The name on the command line, `gunel/table-4`.
        paper: Authors, year and address.
        number: Its number in the paper.
        title: What it holds, in one line.
        source: Sections that describe it.
        figure: What a figure is, in one line.
        unit: Of the values.
        std_unit: Of the standard deviations.
        rule: How seeds become a figure; None where the paper does not say.
        runs: Seed runs behind a figure; None where the paper does not say.
        protocol: Name in `PROTOCOLS`. It sets what the cells' settings do not, such as epochs.
        model: Name of the encoder where a cell has no other.
        settings: What the paper sets for the whole table; see `Cell.settings`.
        notes: Errata, and what a reader of the figures must know.
        rows: By name.
        columns: By name.
        blocks: By name.
        cells: By block, row and column; a dash has none, nor has a table of settings.
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
        """Returns value and standard deviation in the unit of the metrics here: 1 is the best."""
        # Rounded, since 88.1 / 100 is 0.8809999999999999.
        value = round(cell.value / SCALES[self.unit], 6)
        return value, None if cell.std is None else round(cell.std / SCALES[self.std_unit], 6)
