"""The tables that sclsearch brings say what the papers print, and how each figure is made here."""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sclsearch.encoders.models import ALIASES
from sclsearch.methods import method_class
from sclsearch.methods.fields import as_tuples, build, field_errors
from sclsearch.papers.base import Cell, Table
from sclsearch.papers.tables import published_tables
from sclsearch.protocols import PROTOCOLS
from sclsearch.spaces.load import find_space, load_space
from sclsearch.tasks import TASKS

# Figures that each table prints, dashes left out.
SIZES = {
    "gunel/table-2": 14,
    "gunel/table-3": 9,
    "gunel/table-4": 18,
    "gunel/table-5": 36,
    "gunel/table-7": 4,
    "supcl-seq/table-1": 10,
    "supcl-seq/table-2": 29,
    "supcl-seq/table-3": 8,
    "supcl-seq/table-4": 0,
    "lacon/table-2": 56,
    "lacon/table-3": 21,
    "lacon/table-4": 16,
    "lacon/table-5": 8,
    "lacon/table-6": 18,
    "lacon/table-7": 20,
    "cmlm/table-1": 120,
    "cmlm/table-2": 25,
    "cmlm/table-3": 40,
}
TEXTS = {
    "gunel": "gunel-2021-scl.txt",
    "supcl-seq": "supcl-seq-2021.txt",
    "lacon": "lacon-2022.txt",
    "cmlm": "cmlm-2021.txt",
}


@pytest.fixture(params=SIZES)
def table(request: pytest.FixtureRequest) -> Table:
    return published_tables()[request.param]


def spelled(numbers: Iterable[Any]) -> str:
    return "".join(f" {float(number)}" for number in numbers) + " "


def line_of(table: Table, cell: Cell) -> tuple[int, int]:
    """Returns the place of the printed line that a figure stands in."""
    block, row, column = (
        [*names].index(name)
        for names, name in (
            (table.blocks, cell.block.name),
            (table.rows, cell.row.name),
            (table.columns, cell.column.name),
        )
    )
    # These go on to the right with the conditions, or have two lines for a row.
    turned = {"gunel/table-5": column, "supcl-seq/table-1": column, "lacon/table-4": column // 4}
    return turned.get(table.name, block), row


def settings_before(table: Table, cell: Cell) -> list[Any]:
    """Returns the settings that the paper prints before the figures of a line."""
    set_to: Mapping[str, Any] = cell.settings
    if table.name == "gunel/table-3":
        return [set_to["batch_size"]]
    if table.name == "gunel/table-4":
        return [cell.block.train_size]
    if table.name == "supcl-seq/table-1":
        return [*set_to["dropouts"], len(set_to["dropouts"]) * set_to["batch_size"]]
    return []


def printed_lines(table: Table) -> Iterator[str]:
    """Returns the numbers of each line that the paper prints, in its order."""
    lines = defaultdict(list)
    for cell in table.cells:
        lines[line_of(table, cell)].append(cell)
    for _, cells in sorted(lines.items()):
        printed = [n for cell in cells for n in (cell.value, cell.std) if n is not None]
        yield spelled([*settings_before(table, cells[0]), *printed])


def spelled_text(papers: Path, table: Table) -> str:
    text = (papers / TEXTS[table.name.partition("/")[0]]).read_text(encoding="utf-8")
    return spelled(re.findall(r"\d+(?:\.\d+)?", text))


def test_every_table_is_there_with_all_of_its_figures() -> None:
    assert {name: len(table.cells) for name, table in published_tables().items()} == SIZES


def test_the_paper_prints_every_figure_in_its_place(table: Table, papers: Path) -> None:
    text, place = spelled_text(papers, table), 0
    for line in printed_lines(table):
        place = text.find(line, place)
        assert place >= 0, line
        place += len(line) - 1


def test_the_paper_prints_the_settings_of_every_task(papers: Path) -> None:
    table = published_tables()["supcl-seq/table-4"]
    text = spelled_text(papers, table)
    for column in table.columns.values():
        set_to: Mapping[str, Any] = column.settings
        rate = f"{set_to['learning_rate']:.0e}".split("e-")
        assert spelled([*rate, set_to["batch_size"], *set_to["dropouts"]]) in text


def test_a_table_is_named_by_its_number_and_described(table: Table) -> None:
    assert table.name.endswith(f"/table-{table.number}")
    assert re.search(r" 202\d, https://arxiv.org/abs/\d{4}\.\d{5}(v1)?$", table.paper)
    assert re.search(r"section|appendix", table.source)
    assert all((table.title, table.figure, table.notes))


def test_the_settings_of_every_figure_are_fields_of_its_method(table: Table) -> None:
    for cell in filter(lambda cell: cell.trainable, table.cells):
        method = method_class(str(cell.row.method))
        assert field_errors(method, cell.settings) == []
        build(method, cell.settings, table.name)


def test_two_rows_of_a_table_are_never_trained_alike(table: Table) -> None:
    trained = [
        (cell.row.method, cell.block, cell.column, sorted(cell.settings.items()))
        for cell in table.cells
        if cell.trainable
    ]
    assert all(trained.count(one) == 1 for one in trained)


def test_only_the_best_of_several_baselines_is_published_without_a_method() -> None:
    assert {
        (table.name, cell.row.name)
        for table in published_tables().values()
        for cell in table.cells
        if cell.row.method is None
    } == {("lacon/table-7", "Baseline*")}


def test_every_task_and_encoder_is_known(table: Table) -> None:
    tasks = {column.task for column in table.columns.values()}
    firsts = {block.first_task for block in table.blocks.values()}
    assert (tasks | firsts) - {None} <= TASKS.keys()
    models = {table.model, *(cell.model for cell in table.cells)}
    assert models <= ALIASES.keys() | {"google-bert/bert-base-chinese"}


def test_the_protocol_is_known_and_counts_seeds_as_the_paper_does(table: Table) -> None:
    protocol = PROTOCOLS[table.protocol]
    assert table.rule in {None, protocol.rule}
    assert table.runs in {None, protocol.replicates}
    for block in table.blocks.values():
        if not block.average_of:
            assert protocol.few_shot == bool(block.train_size or block.shots)


def test_the_protocol_selects_by_a_metric_that_the_table_has_for_the_task(table: Table) -> None:
    protocol = PROTOCOLS[table.protocol]
    metrics = defaultdict(set)
    for column in table.columns.values():
        if column.task is not None and column.of_class is None:
            metrics[column.task].add(column.metric)
    for task, printed in metrics.items():
        assert protocol.metrics.get(task, TASKS[task].metric) in printed


@pytest.mark.parametrize(("name", "means"), [("gunel/table-2", 2), ("gunel/table-5", 6)])
def test_a_mean_is_that_of_the_figures_it_is_taken_over(name: str, means: int) -> None:
    table, found = published_tables()[name], 0
    for cell in table.cells:
        splits = [
            other.value
            for other in table.cells
            if other.row == cell.row
            and (
                (other.block == cell.block and other.column.name in cell.column.average_of)
                or (other.column == cell.column and other.block.name in cell.block.average_of)
            )
        ]
        if splits:
            found += 1
            assert abs(sum(splits) / len(splits) - cell.value) < 0.0501
    assert found == means


def test_supcl_seq_trains_with_the_settings_that_its_spaces_publish() -> None:
    table = published_tables()["supcl-seq/table-4"]
    for column in table.columns.values():
        space = load_space(find_space("supcl-seq", str(column.task)), "supcl-seq")
        settings = {**table.settings, **column.settings}
        assert {name: as_tuples(value) for name, value in settings.items()} == {
            **space.fixed,
            **space.published[0],
        }


def test_a_row_takes_its_settings_from_the_table_it_refers_to() -> None:
    cells = published_tables()["supcl-seq/table-2"].cells
    settings = {(cell.row.name, cell.column.name): cell.settings for cell in cells}
    assert settings["SupCL-Seq", "QQP"] == {
        "learning_rate": 5e-5,
        "batch_size": 16,
        "dropouts": [0.0, 0.2, 0.3, 0.4, 0.5],
        "epochs": 1,
        "tau": 0.05,
    }
    assert settings["Dropout Augmented", "STS-B Pearson"]["dropouts"] == [0.0, 0.05, 0.1, 0.2]


def test_deviations_of_cmlm_are_hundredths_of_its_fractions() -> None:
    table = published_tables()["cmlm/table-1"]
    assert table.as_metric(table.cells[0]) == (0.0751, 0.0626)
    table = published_tables()["gunel/table-4"]
    assert table.as_metric(table.cells[3]) == (0.881, 0.033)


def test_reading_the_tables_needs_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from sclsearch.papers.tables import published_tables\n"
        "published_tables()\n"
        "print(sorted({'torch', 'transformers', 'ray', 'mlflow', 'scipy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
