"""Tests of published tables: reading, selection of cells, agreement with the papers."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods import method_class
from sclsearch.methods.fields import build, field_errors
from sclsearch.papers.tables import Cell, Table, published_tables, select_cells
from sclsearch.protocols import find_protocol
from sclsearch.tasks import TASKS
from sclsearch.tasks.metrics import METRICS
from tests.papers.conftest import DEMO, write_table

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
TEXTS = {
    "gunel": "gunel-2021-scl.txt",
    "supcl-seq": "supcl-seq-2021.txt",
    "lacon": "lacon-2022.txt",
    "cmlm": "cmlm-2021.txt",
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
        table = published_tables()[name]
        assert table.as_metric(table.cells[place]) == expected


def test_settings_combine_table_task_condition_and_row(tmp_path: Path) -> None:
    demo = DEMO.replace("{tau: 0.3, lam: 0.9}", "{tau: 0.3, epochs: 9}")
    demo = demo.replace("metric: accuracy}", "metric: accuracy, settings: {epochs: 4, tau: 1}}", 1)
    table = write_table(tmp_path, demo.replace("{train_size: 20}", "{settings: {epochs: 5}}"))
    assert [cell.settings["epochs"] for cell in table.cells] == [5, 5, 5, 9, 5, 4]
    assert [cell.settings.get("tau") for cell in table.cells] == [1, None, None, 0.3, 1, 1]


def test_cells_are_selected_by_row_column_condition_and_size() -> None:
    for name, selectors, expected in (
        ("gunel/table-4", ["ce+scl, 20, sst-2"], ["N=20, CE + SCL, SST-2"]),
        ("gunel/table-4", ["SST-2,N=20,CE", "CE,20,SST-2"], ["N=20, CE, SST-2"]),
        ("supcl-seq/table-1", ["[0.0, 0.1],CoLA"], ["full, [0.0,0.1], CoLA"]),
        ("lacon/table-4", ["20,CE,RTE"], ["20 per class, CE, RTE"]),
    ):
        found = select_cells(published_tables()[name], selectors)
        assert [cell.name for cell in found] == expected


def test_a_selector_that_matches_no_value_is_an_error() -> None:
    for name, selector, message in (
        ("gunel/table-4", "CE,SST2", "'SST2' .* Did you mean 'SST-2'?"),
        ("supcl-seq/table-2", "Dropout Augmented,WNLI", "prints no score"),
        ("supcl-seq/table-4", "CoLA", "^supcl-seq/table-4: has only settings"),
    ):
        with pytest.raises(SclsearchError, match=message):
            select_cells(published_tables()[name], [selector])


@pytest.fixture(params=SIZES)
def table(request: pytest.FixtureRequest) -> Table:
    return published_tables()[request.param]


@pytest.fixture(scope="session")
def papers() -> Path:
    """Return the folder with the papers' texts."""
    given = os.environ.get("SCLSEARCH_TEST_PAPERS")
    folder = Path(given) if given else Path(__file__).parents[3] / "shared" / "papers"
    if not folder.is_dir():
        pytest.skip(f"no papers in {folder}; set SCLSEARCH_TEST_PAPERS to a folder with their text")
    return folder


def spelled(numbers: Iterable[Any]) -> str:
    return "".join(f" {float(number)}" for number in numbers) + " "


def spelled_text(papers: Path, table: Table) -> str:
    text = (papers / TEXTS[table.name.partition("/")[0]]).read_text(encoding="utf-8")
    return spelled(re.findall(r"\d+(?:\.\d+)?", text))


def line_of(table: Table, cell: Cell) -> tuple[int, int]:
    """Return the position of the printed line that contains a value."""
    kinds = (
        (table.blocks, cell.block.name),
        (table.rows, cell.row.name),
        (table.columns, cell.column.name),
    )
    block, row, column = ([*names].index(name) for names, name in kinds)
    # These tables print conditions side by side, or two lines per row.
    turned = {"gunel/table-5": column, "supcl-seq/table-1": column, "lacon/table-4": column // 4}
    turned["lacon/figure-2"] = column // 4
    return turned.get(table.name, block), row


def printed_lines(table: Table) -> Iterator[str]:
    """Return the numbers of each line that the paper prints, with settings before the values."""
    lines = defaultdict(list)
    for cell in table.cells:
        lines[line_of(table, cell)].append(cell)
    for _, cells in sorted(lines.items()):
        settings: Mapping[str, Any] = cells[0].settings
        before: list[Any] = []
        if table.name == "gunel/table-3":
            before = [settings["batch_size"]]
        elif table.name == "gunel/table-4":
            before = [cells[0].block.train_size]
        elif table.name == "supcl-seq/table-1":
            dropouts = settings["dropouts"]
            before = [*dropouts, len(dropouts) * settings["batch_size"]]
        values = [n for cell in cells for n in (cell.value, cell.std) if n is not None]
        yield spelled([*before, *values])


def test_the_paper_prints_all_values_in_the_same_order(table: Table, papers: Path) -> None:
    text, place = spelled_text(papers, table), 0
    for line in printed_lines(table):
        place = text.find(line, place)
        assert place >= 0, line
        place += len(line) - 1


def test_the_paper_prints_the_settings_of_each_task(papers: Path) -> None:
    table = published_tables()["supcl-seq/table-4"]
    text = spelled_text(papers, table)
    for column in table.columns.values():
        set_to: Mapping[str, Any] = column.settings
        rate = f"{set_to['learning_rate']:.0e}".split("e-")
        assert spelled([*rate, set_to["batch_size"], *set_to["dropouts"]]) in text


def test_all_tables_and_values_are_shipped() -> None:
    assert {name: len(table.cells) for name, table in published_tables().items()} == SIZES


def test_cells_have_known_tasks_and_fields_and_none_is_trained_twice(table: Table) -> None:
    trained = []
    for cell in filter(lambda cell: cell.trainable, table.cells):
        assert {cell.column.task, cell.block.first_task} - {None} <= TASKS.keys()
        assert cell.column.metric in METRICS
        method = method_class(str(cell.row.method))
        assert field_errors(method, cell.settings) == []
        build(method, cell.settings, table.name)
        trained.append((cell.row.method, cell.block, cell.column, sorted(cell.settings.items())))
    assert all(trained.count(one) == 1 for one in trained)


def test_the_protocol_has_the_seeds_and_the_rule_of_the_paper(table: Table) -> None:
    protocol = find_protocol(table.protocol)
    assert table.rule in {None, protocol.rule}
    assert table.runs in {None, protocol.replicates}
    for block in table.blocks.values():
        protocol = find_protocol(block.protocol or table.protocol)
        if not block.average_of:
            assert protocol.few_shot == bool(block.train_size or block.shots)
        if block.augmentation:
            assert block.augmentation.views == find_protocol("gunel-noisy").joined
    metrics = defaultdict(set)
    for column in table.columns.values():
        if column.task is not None and column.of_class is None:
            metrics[column.task].add(column.metric)
    for task, printed in metrics.items():
        assert protocol.metrics.get(task, TASKS[task].metric) in printed
