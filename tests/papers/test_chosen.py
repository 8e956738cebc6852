"""Cells are chosen by the names of their rows, columns and conditions, as a user writes them."""

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.base import Cell, Table
from sclsearch.papers.chosen import chosen_cells
from sclsearch.papers.tables import published_tables

TABLES = {name: table for name, table in published_tables().items() if table.cells}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> Table:
    return TABLES[request.param]


def named(cells: list[Cell]) -> set[tuple[str, str, str]]:
    return {(cell.block.name, cell.row.name, cell.column.name) for cell in cells}


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        ("gunel/table-4", ("ce+scl, 20, sst-2",), {("N=20", "CE + SCL", "SST-2")}),
        (
            "gunel/table-4",
            ("N=100,QNLI",),
            {("N=100", "CE", "QNLI"), ("N=100", "CE + SCL", "QNLI")},
        ),
        (
            "gunel/table-4",
            ("CE,20,SST-2", "CE,20,MNLI", "SST-2,N=20,CE"),
            {("N=20", "CE", "SST-2"), ("N=20", "CE", "MNLI")},
        ),
        (
            "gunel/table-5",
            ("100,CE,SST-2",),
            {(b, "CE", "SST-2") for b in ("Original", "T=0.3", "T=0.5", "T=0.7", "T=0.9")},
        ),
        (
            "supcl-seq/table-1",
            ("[0.0, 0.1],[0.1,0.1],CoLA",),
            {("full", "[0.0,0.1]", "CoLA"), ("full", "[0.1,0.1]", "CoLA")},
        ),
        ("lacon/table-4", ("20,CE,RTE",), {("20 per class", "CE", "RTE")}),
    ],
    ids=["one", "row left out", "several", "same size", "commas", "shots"],
)
def test_cells_are_chosen_by_row_column_condition_and_number(
    name: str, wanted: tuple[str, ...], expected: set[tuple[str, str, str]]
) -> None:
    table = published_tables()[name]
    found = chosen_cells(table, wanted)
    assert named(found) == expected
    assert len(found) == len(expected)
    assert found == [cell for cell in table.cells if cell in found]


def test_every_name_of_a_table_chooses_the_cells_that_bear_it(table: Table) -> None:
    for cell in table.cells:
        for name in (cell.row.name, cell.column.name, cell.block.name):
            assert cell in chosen_cells(table, [name])
        exact = f"{cell.column.name},{cell.block.name},{cell.row.name}"
        assert chosen_cells(table, [exact]) == [cell]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gunel/table-4", "CE,SST2", "'SST2' must be a row, column or condition of gunel/table-4"),
        ("gunel/table-4", "CE,SST2", "Did you mean 'SST-2'? Known: CE, CE + SCL, MNLI"),
        ("gunel/table-4", "", "--cells : '' must be a row"),
        ("gunel/table-4", "CE,", "'' must be a row"),
        ("gunel/table-4", "50", "'50' must be a row"),
        ("supcl-seq/table-2", "Dropout Augmented,WNLI", "must print a figure there, but it prints"),
        (
            "supcl-seq/table-4",
            "CoLA",
            "supcl-seq/table-4: it must hold figures, but it holds settin",
        ),
    ],
)
def test_what_a_table_does_not_print_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(SclsearchError) as caught:
        chosen_cells(published_tables()[name], [text])
    assert message in str(caught.value)
