"""The form of a published table's file: its keys, their types, and what must fit together."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, FiniteFloat

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods import METHODS
from sclsearch.reproduce.base import Unit
from sclsearch.selection.rules import parse_rule
from sclsearch.spaces.schema import Fault, read_form, unknown_keys, within
from sclsearch.tasks.metrics import METRICS


def _as_list(printed: object) -> object:
    return [printed] if isinstance(printed, int | float) else printed


Figure = Annotated[
    Annotated[list[FiniteFloat], Field(min_length=1, max_length=2)] | None,
    BeforeValidator(_as_list),
]
"""A value, `[value, standard deviation]`, or null where the paper prints a dash."""


class AugmentationEntry(BaseModel, strict=True, extra="forbid"):
    """Of a block: the paraphrases that its training rows are joined by."""

    views: Annotated[int, Field(ge=1)]
    temperature: Annotated[float, Field(gt=0)]


class RowEntry(BaseModel, strict=True):
    """What was trained; without a method there is nothing here to train."""

    method: str | None = None
    settings: dict[str, Any] = {}
    settings_of: str | None = None
    note: str = ""


class ColumnEntry(BaseModel, strict=True):
    """What it was trained on and measured by, or the columns that it is the mean of."""

    metric: str
    task: str | None = None
    of_class: Literal["minority", "majority"] | None = None
    model: str | None = None
    settings: dict[str, Any] = {}
    average_of: list[str] = []


class BlockEntry(BaseModel, strict=True):
    """Under which condition, or the blocks that it is the mean of."""

    train_size: Annotated[int, Field(ge=1)] | None = None
    shots: Annotated[int, Field(ge=1)] | None = None
    settings: dict[str, Any] = {}
    augmentation: AugmentationEntry | None = None
    first_task: str | None = None
    average_of: list[str] = []


class TableFile(BaseModel, strict=True):
    """A whole file. Figures are found by block, row and column."""

    paper: str
    number: int
    title: str
    source: str
    figure: str
    unit: Unit
    std_unit: Unit | None = None
    rule: str | None = None
    runs: Annotated[int, Field(ge=1)] | None = None
    protocol: str
    model: str
    settings: dict[str, Any] = {}
    notes: list[str] = []
    rows: dict[str, RowEntry]
    columns: dict[str, ColumnEntry]
    blocks: dict[str, BlockEntry]
    cells: dict[str, dict[str, dict[str, Figure]]]


ENTRIES: Mapping[str, type[BaseModel]] = {
    "rows": RowEntry,
    "columns": ColumnEntry,
    "blocks": BlockEntry,
}


def read_table(raw: object) -> TableFile | list[Fault]:
    """Returns the content of a file, as YAML gives it, or all of its faults."""
    form = read_form(raw, TableFile, "")
    faults = [*unknown_keys(raw, TableFile, ""), *_unknown_in_entries(raw)]
    if isinstance(form, list):
        return faults + form
    faults += [*_name_faults(form), *_average_faults(form), *_cell_faults(form)]
    return faults or form


def _unknown_in_entries(raw: object) -> Iterator[Fault]:
    for part, form in ENTRIES.items():
        entries = raw.get(part) if isinstance(raw, dict) else None
        for name, entry in (entries if isinstance(entries, dict) else {}).items():
            yield from unknown_keys(entry, form, within(part, str(name)))


def _name_faults(file: TableFile) -> Iterator[Fault]:
    if file.rule is not None:
        try:
            parse_rule(file.rule)
        except SclsearchError as error:
            yield "rule", str(error)
    for name, row in file.rows.items():
        if row.method is not None and row.method not in METHODS:
            yield f"rows.{name}.method", _unknown("method", row.method, METHODS)
    for name, column in file.columns.items():
        if column.metric not in METRICS:
            yield f"columns.{name}.metric", _unknown("metric", column.metric, METRICS)


def _average_faults(file: TableFile) -> Iterator[Fault]:
    for name, column in file.columns.items():
        if bool(column.average_of) == (column.task is not None):
            yield f"columns.{name}", "must have a task or average_of, but it has both or neither"
    for part, entries in (("columns", file.columns), ("blocks", file.blocks)):
        for name, entry in entries.items():
            for other in entry.average_of:
                if other not in entries:
                    yield f"{part}.{name}.average_of", _unknown("name", other, entries)


def _cell_faults(file: TableFile) -> Iterator[Fault]:
    """Finds figures that are missing or too many; a table without any has settings alone."""
    if not file.cells:
        return
    yield from _key_faults("cells", file.cells, file.blocks)
    for block, rows in file.cells.items():
        yield from _key_faults(f"cells.{block}", rows, file.rows)
        for row, figures in rows.items():
            yield from _key_faults(f"cells.{block}.{row}", figures, file.columns)


def _key_faults(
    place: str, there: Mapping[str, object], wanted: Mapping[str, object]
) -> Iterator[Fault]:
    for name in wanted:
        if name not in there:
            yield within(place, name), "is missing"
    for name in there:
        if name not in wanted:
            yield within(place, name), _unknown("key", name, wanted)


def _unknown(kind: str, name: str, known: Mapping[str, object]) -> str:
    return f"unknown {kind} {name!r}.{suggestion(name, known)}"
