"""Tests of published tables: reading, selection of cells, agreement with the papers."""

from collections import defaultdict

import pytest

from sclsearch.canonical import digest
from sclsearch.papers.tables import SCALES, Cell, Table, published_tables, select_cells
from sclsearch.protocols import find_protocol
from sclsearch.tasks import TASKS

# Number of values in each table, without dashes, and of points in each figure.
SIZES = {
    **{"gunel/table-2": 14, "gunel/table-3": 9, "gunel/table-4": 18, "gunel/table-5": 36},
    **{"gunel/table-7": 4, "supcl-seq/table-1": 10, "supcl-seq/table-2": 29},
    **{"supcl-seq/table-3": 8, "supcl-seq/table-4": 0, "lacon/table-2": 56, "lacon/table-3": 21},
    **{"lacon/table-4": 16, "lacon/table-5": 8, "lacon/table-6": 18, "lacon/table-7": 20},
    **{"cmlm/table-1": 120, "cmlm/table-2": 25, "cmlm/table-3": 40},
    **{"lacon/figure-2": 64, "lacon/figure-3": 20, "lacon/figure-5a": 10, "lacon/figure-5b": 7},
    **{"lacon/figure-5c": 11, "lacon/figure-6": 39, "cmlm/figure-3": 24, "cmlm/figure-4": 16},
    **{"gunel/figure-2": 2, "gunel/figure-3": 6},
}


def cell_of(name: str, selector: str) -> Cell:
    (cell,) = select_cells(published_tables()[name], [selector])
    return cell


def test_values_are_converted_to_the_scale_of_the_metrics() -> None:
    for name, place, expected in (
        ("gunel/table-4", 3, (0.881, 0.033)),
        ("gunel/table-2", 0, (0.947, None)),
        ("cmlm/table-1", 0, (0.0751, 0.0626)),  # the deviation has another unit
    ):
        cell = published_tables()[name].cells[place]
        assert (cell.value, cell.std) == expected


def test_cells_are_selected_by_row_column_condition_and_size() -> None:
    for name, selectors, expected in (
        ("gunel/table-4", ["ce+scl, 20, sst-2"], ["N=20, CE + SCL, SST-2"]),
        ("gunel/table-4", ["SST-2,N=20,CE", "CE,20,SST-2"], ["N=20, CE, SST-2"]),
        ("supcl-seq/table-1", ["[0.0, 0.1],CoLA"], ["full, [0.0,0.1], CoLA"]),
        ("lacon/table-4", ["20,CE,RTE"], ["20 per class, CE, RTE"]),
    ):
        found = select_cells(published_tables()[name], selectors)
        assert [cell.name for cell in found] == expected


@pytest.fixture(params=SIZES)
def table(request: pytest.FixtureRequest) -> Table:
    return published_tables()[request.param]


def test_all_tables_and_values_are_shipped() -> None:
    tables = published_tables()
    assert {name: len(table.cells) for name, table in tables.items()} == SIZES
    values = [
        [[cell.name, *printed(table, cell), cell.settings] for cell in table.cells]
        + [[name, column.get("settings", {})] for name, column in table.columns.items()]
        for table in tables.values()
    ]
    # These values were compared with the texts of the papers. Compare new ones, too.
    assert digest(values).startswith("def561074c470dff")


def printed(table: Table, cell: Cell) -> list[float | None]:
    """Return a value and its standard deviation in the units of the table."""
    units = (cell.value, table.unit), (cell.std, table.std_unit or table.unit)
    return [one if one is None else round(one * SCALES[unit], 6) for one, unit in units]


def test_the_protocol_has_the_seeds_and_the_rule_of_the_paper(table: Table) -> None:
    protocol = find_protocol(table.protocol)
    assert table.rule in {None, protocol.rule}
    assert table.runs in {None, protocol.replicates}
    for block in table.blocks.values():
        protocol = find_protocol(block.get("protocol", table.protocol))
        if "average_of" not in block:
            assert protocol.few_shot == bool(block.keys() & {"train_size", "shots"})
            assert bool(protocol.joined) == ("temperature" in block)
    metrics = defaultdict(set)
    for column in table.columns.values():
        if "task" in column and "of_class" not in column:
            metrics[column["task"]].add(column["metric"])
    for task, printed in metrics.items():
        assert protocol.metrics.get(task, TASKS[task].metric) in printed
