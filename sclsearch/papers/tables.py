"""Loader for the papers' tables in `published/<paper>/table-<number>.yaml`."""

from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from types import MappingProxyType

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.papers.base import Cell, Row, Settings, Table
from sclsearch.papers.form import TableFile, read_table
from sclsearch.selection.rules import parse_rule
from sclsearch.spaces.schema import Fault

PUBLISHED = Path(__file__).parent / "published"


@cache
def published_tables() -> Mapping[str, Table]:
    """Return the tables in the package, by name: `gunel/table-4`."""
    return load_tables(PUBLISHED)


def load_tables(folder: Path) -> Mapping[str, Table]:
    """Return the tables of a folder, by `<paper>/table-<number>`.

    Raises:
        SclsearchError: Files have faults; the message has a line for each fault of all files.
    """
    files: dict[str, TableFile] = {}
    faults: dict[str, list[Fault]] = {}
    for path in sorted(folder.glob("*/*.yaml")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        found = _read(path)
        if isinstance(found, list):
            faults[name] = found
        else:
            files[name] = found
    known = files.keys() | faults.keys()
    for name, file in files.items():
        faults[name] = [*_borrowing_faults(file, known)]
    lines = [
        f"{folder.name}/{name}.yaml: {place}: {reason}"
        if place
        else f"{folder.name}/{name}.yaml: {reason}"
        for name, found in sorted(faults.items())
        for place, reason in found
    ]
    if lines:
        raise SclsearchError("\n".join(lines))
    return MappingProxyType({name: _table(name, file, files) for name, file in files.items()})


def _read(path: Path) -> TableFile | list[Fault]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return read_table(YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")))
    except YAMLError as error:
        return [("", f"the file must be YAML, but: {error}")]


def _borrowing_faults(file: TableFile, known: Set[str]) -> Iterator[Fault]:
    for name, row in file.rows.items():
        if row.settings_of is not None and row.settings_of not in known:
            reason = f"unknown table {row.settings_of!r}.{suggestion(row.settings_of, known)}"
            yield f"rows.{name}.settings_of", reason


def _table(name: str, file: TableFile, files: Mapping[str, TableFile]) -> Table:
    cells = tuple(
        Cell(
            file.rows[row],
            file.columns[column],
            file.blocks[block],
            value=figure[0],
            std=figure[1] if len(figure) > 1 else None,
            model=file.columns[column].model or file.model,
            settings={
                **file.settings,
                **_borrowed(file.rows[row], file.columns[column].task, files),
                **file.columns[column].settings,
                **file.blocks[block].settings,
                **file.rows[row].settings,
            },
        )
        for block, figures_by_row in file.cells.items()
        for row, figures in figures_by_row.items()
        for column, figure in figures.items()
        if figure is not None
    )
    return Table(
        name=name,
        paper=file.paper,
        number=file.number,
        title=file.title,
        source=file.source,
        figure=file.figure,
        unit=file.unit,
        std_unit=file.std_unit or file.unit,
        rule=parse_rule(file.rule) if file.rule else None,
        runs=file.runs,
        protocol=file.protocol,
        model=file.model,
        settings=file.settings,
        notes=tuple(file.notes),
        rows=file.rows,
        columns=file.columns,
        blocks=file.blocks,
        cells=cells,
    )


def _borrowed(row: Row, task: str | None, files: Mapping[str, TableFile]) -> Settings:
    """Return the settings of another table for the task, if the row refers to one."""
    if row.settings_of is None:
        return {}
    columns = files[row.settings_of].columns.values()
    return next((column.settings for column in columns if column.task == task), {})
