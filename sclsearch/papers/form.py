"""Schema of a published table's YAML file: keys, types and consistency checks."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, FiniteFloat, StrictInt

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods import METHODS
from sclsearch.papers.base import Block, Column, Count, Row, Unit
from sclsearch.selection.rules import parse_rule
from sclsearch.spaces.schema import Fault, read_form, unknown_keys, within
from sclsearch.tasks.metrics import METRICS


def _as_list(printed: object) -> object:
    return [printed] if isinstance(printed, int | float) else printed


Figure = Annotated[
    Annotated[list[Annotated[FiniteFloat, Field(strict=True)]], Field(min_length=1, max_length=2)]
    | None,
    BeforeValidator(_as_list),
]
"""Cell entry: a value, `[value, standard deviation]`, or null if the paper prints a dash."""


def _named(entries: object) -> object:
    """Give each entry its key as its name."""
    if not isinstance(entries, dict):
        return entries
    return {
        key: {**entry, "name": str(key)} if isinstance(entry, dict) else entry
        for key, entry in entries.items()
    }


class TableFile(BaseModel):
    """Content of a table file; values are found by block, row and column.

    Only numbers are strict: a strict model would reject mappings in place of dataclasses.
    """

    paper: str
    number: StrictInt
    title: str
    source: str
    figure: str
    unit: Unit
    std_unit: Unit | None = None
    rule: str | None = None
    runs: Count | None = None
    protocol: str
    model: str
    settings: dict[str, Any] = {}
    notes: list[str] = []
    rows: Annotated[dict[str, Row], BeforeValidator(_named)]
    columns: Annotated[dict[str, Column], BeforeValidator(_named)]
    blocks: Annotated[dict[str, Block], BeforeValidator(_named)]
    cells: dict[str, dict[str, dict[str, Figure]]]


ENTRIES: Mapping[str, type] = {"rows": Row, "columns": Column, "blocks": Block}


def read_table(raw: object) -> TableFile | list[Fault]:
    """Return the validated content of a parsed YAML file, or all of its faults."""
    form = read_form(raw, TableFile, "")
    faults = [*unknown_keys(raw, TableFile.model_fields, ""), *_unknown_in_entries(raw)]
    if isinstance(form, list):
        return faults + form
    faults += [*_name_faults(form), *_average_faults(form), *_cell_faults(form)]
    return faults or form


def _unknown_in_entries(raw: object) -> Iterator[Fault]:
    for part, kind in ENTRIES.items():
        known = {field.name for field in fields(kind)} - {"name"}
        entries = raw.get(part) if isinstance(raw, dict) else None
        for name, entry in (entries if isinstance(entries, dict) else {}).items():
            yield from unknown_keys(entry, known, within(part, str(name)))


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
    """Yield missing and surplus values; a table without values has only settings."""
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
