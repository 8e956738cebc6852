"""Published tables: reading of a file, selection of cells, and agreement with the papers' texts."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sclsearch.encoders.models import ALIASES
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import as_tuples, build, field_errors
from sclsearch.papers.tables import Augmentation, Cell, Table, published_tables, select_cells
from sclsearch.protocols import PROTOCOLS
from sclsearch.selection.rules import Rule, Top
from sclsearch.spaces.load import find_space, load_space
from sclsearch.tasks import TASKS
from sclsearch.tasks.metrics import METRICS
from tests.papers.conftest import write_table

TABLE = """
paper: Someone et al. 2020
number: 1
title: Two tasks
source: section 1
figure: mean of all seeds
unit: fraction
std_unit: percent
rule: mean
protocol: plain
model: bert-base
settings: {batch_size: 8, epochs: 3}
rows:
  CE: {method: ce}
  Ours: {method: scl, settings: {tau: 0.3, epochs: 9}, settings_of: some/table-2}
  Theirs: {}
columns:
  A: {task: cola, metric: mcc, model: roberta-base, settings: {epochs: 4}}
  B: {task: qnli, metric: f1, of_class: minority}
  Mean: {metric: accuracy, average_of: [A, B]}
blocks:
  N=20: {train_size: 20, settings: {batch_size: 4}}
  T=0.5: {shots: 5, augmentation: {views: 3, temperature: 0.5}, first_task: sst2}
  All: {average_of: [N=20, T=0.5]}
cells:
  N=20:
    CE: {A: [0.5, 1.5], B: 0.25, Mean: 0.375}
    Ours: {A: 0.6, B: 0.7, Mean: null}
    Theirs: {A: 1}
  T=0.5:
    CE: {A: 0.5, B: null}
  All:
    CE: {A: 0.5, B: null}
"""
SETTINGS = """
paper: Someone et al. 2020
number: 2
title: Settings
source: appendix A
figure: none
unit: fraction
protocol: plain
model: bert-base
rows: {}
columns:
  A: {task: cola, metric: mcc, settings: {learning_rate: 1.0e-3, tau: 0.1}}
blocks: {}
cells: {}
"""
# Values that each table prints, without dashes.
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


@pytest.fixture
def some(tmp_path: Path) -> Table:
    path = tmp_path / "published" / "some" / "table-2.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(SETTINGS, encoding="utf-8")
    return write_table(tmp_path, TABLE)


def cell_of(table: Table, *names: str) -> Cell:
    (found,) = (
        cell for cell in table.cells if (cell.block.name, cell.row.name, cell.column.name) == names
    )
    return found


def test_a_file_becomes_a_table(some: Table) -> None:
    assert (some.name, some.number, some.title) == ("some/table-1", 1, "Two tasks")
    assert (some.rule, some.runs, some.protocol) == (Rule(Top(), Top()), None, "plain")
    block, column = some.blocks["T=0.5"], some.columns["B"]
    assert (block.train_size, block.shots, block.first_task) == (None, 5, "sst2")
    assert block.augmentation == Augmentation(views=3, temperature=0.5)
    assert (column.metric, column.of_class) == ("f1", "minority")


def test_a_dash_is_no_cell_and_values_are_converted_to_the_scale_of_the_metrics(
    some: Table,
) -> None:
    assert [cell.value for cell in some.cells] == [0.5, 0.25, 0.375, 0.6, 0.7, 1.0, 0.5, 0.5]
    assert [some.as_metric(cell) for cell in some.cells[:2]] == [(0.5, 0.015), (0.25, None)]
    table = published_tables()["gunel/table-4"]
    assert table.as_metric(table.cells[3]) == (0.881, 0.033)


@pytest.mark.parametrize(
    ("row", "column", "model", "settings"),
    [
        ("CE", "A", "roberta-base", {"batch_size": 4, "epochs": 4}),
        (
            "Ours",
            "A",
            "roberta-base",
            {"batch_size": 4, "epochs": 9, "learning_rate": 1e-3, "tau": 0.3},
        ),
        ("Ours", "B", "bert-base", {"batch_size": 4, "epochs": 9, "tau": 0.3}),
    ],
)
def test_settings_of_a_row_override_condition_task_other_table_and_table(
    some: Table, row: str, column: str, model: str, settings: dict[str, object]
) -> None:
    cell = cell_of(some, "N=20", row, column)
    assert (cell.model, cell.settings) == (model, settings)


def test_published_only_rows_and_means_are_not_trainable(some: Table) -> None:
    assert [cell.name for cell in some.cells if not cell.trainable] == [
        "N=20, CE, Mean",
        "N=20, Theirs, A",
        "All, CE, A",
    ]


@pytest.mark.parametrize(
    ("name", "selectors", "expected"),
    [
        ("gunel/table-4", ("ce+scl, 20, sst-2",), {"N=20, CE + SCL, SST-2"}),
        ("gunel/table-4", ("N=100,QNLI",), {"N=100, CE, QNLI", "N=100, CE + SCL, QNLI"}),
        (
            "gunel/table-4",
            ("CE,20,SST-2", "CE,20,MNLI", "SST-2,N=20,CE"),
            {"N=20, CE, SST-2", "N=20, CE, MNLI"},
        ),
        (
            "gunel/table-5",
            ("100,CE,SST-2",),
            {f"{b}, CE, SST-2" for b in ("Original", "T=0.3", "T=0.5", "T=0.7", "T=0.9")},
        ),
        (
            "supcl-seq/table-1",
            ("[0.0, 0.1],[0.1,0.1],CoLA",),
            {"full, [0.0,0.1], CoLA", "full, [0.1,0.1], CoLA"},
        ),
        ("lacon/table-4", ("20,CE,RTE",), {"20 per class, CE, RTE"}),
    ],
    ids=["one", "row left out", "several", "same size", "commas", "shots"],
)
def test_cells_are_selected_by_row_column_condition_and_size(
    name: str, selectors: tuple[str, ...], expected: set[str]
) -> None:
    table = published_tables()[name]
    found = select_cells(table, selectors)
    assert {cell.name for cell in found} == expected
    assert found == [cell for cell in table.cells if cell in found]


@pytest.mark.parametrize(
    ("name", "selector", "message"),
    [
        ("gunel/table-4", "CE,SST2", "'SST2' .* Did you mean 'SST-2'?"),
        ("gunel/table-4", "", "'' is no row, column or condition"),
        ("gunel/table-4", "CE,", "''"),
        ("gunel/table-4", "50", "'50'"),
        ("supcl-seq/table-2", "Dropout Augmented,WNLI", "prints no score"),
        ("supcl-seq/table-4", "CoLA", "^supcl-seq/table-4: has only settings"),
    ],
)
def test_a_selector_that_matches_no_value_is_an_error(
    name: str, selector: str, message: str
) -> None:
    with pytest.raises(SclsearchError, match=message):
        select_cells(published_tables()[name], [selector])


@pytest.fixture(params=SIZES)
def table(request: pytest.FixtureRequest) -> Table:
    return published_tables()[request.param]


def test_each_name_of_a_table_selects_its_cells(table: Table) -> None:
    for cell in table.cells:
        for name in (cell.row.name, cell.column.name, cell.block.name):
            assert cell in select_cells(table, [name])
        exact = f"{cell.column.name},{cell.block.name},{cell.row.name}"
        assert select_cells(table, [exact]) == [cell]


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
    """Return the place of the printed line that a value is on."""
    block, row, column = (
        [*names].index(name)
        for names, name in (
            (table.blocks, cell.block.name),
            (table.rows, cell.row.name),
            (table.columns, cell.column.name),
        )
    )
    # These tables print conditions side by side, or two lines per row.
    turned = {"gunel/table-5": column, "supcl-seq/table-1": column, "lacon/table-4": column // 4}
    return turned.get(table.name, block), row


def printed_lines(table: Table) -> Iterator[str]:
    """Return the numbers of each line that the paper prints, with settings before the values."""
    lines = defaultdict(list)
    for cell in table.cells:
        lines[line_of(table, cell)].append(cell)
    for _, cells in sorted(lines.items()):
        settings: Mapping[str, Any] = cells[0].settings
        before = {
            "gunel/table-3": lambda cell, set_to: [set_to["batch_size"]],
            "gunel/table-4": lambda cell, set_to: [cell.block.train_size],
            "supcl-seq/table-1": lambda cell, set_to: [
                *set_to["dropouts"],
                len(set_to["dropouts"]) * set_to["batch_size"],
            ],
        }.get(table.name, lambda cell, set_to: [])(cells[0], settings)
        values = [n for cell in cells for n in (cell.value, cell.std) if n is not None]
        yield spelled([*before, *values])


def test_the_paper_prints_all_values_in_their_place(table: Table, papers: Path) -> None:
    assert len(table.cells) == SIZES[table.name]
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


def test_a_table_is_named_by_its_number_and_described(table: Table) -> None:
    assert table.name.endswith(f"/table-{table.number}")
    assert re.search(r" 202\d, https://arxiv.org/abs/\d{4}\.\d{5}(v1)?$", table.paper)
    assert re.search(r"section|appendix", table.source)
    assert all((table.title, table.figure, table.notes))
    assert {table.unit, table.std_unit or table.unit} <= {"percent", "fraction"}


def test_the_words_of_a_table_are_known(table: Table) -> None:
    tasks = {column.task for column in table.columns.values()}
    firsts = {block.first_task for block in table.blocks.values()}
    assert (tasks | firsts) - {None} <= TASKS.keys()
    models = {table.model, *(cell.model for cell in table.cells)}
    assert models <= ALIASES.keys() | {"google-bert/bert-base-chinese"}
    assert {column.metric for column in table.columns.values()} <= METRICS.keys()
    assert {row.method for row in table.rows.values()} - {None} <= METHODS.keys()
    for entries in (table.columns, table.blocks):
        assert all(set(entry.average_of) <= entries.keys() for entry in entries.values())
    for column in table.columns.values():
        assert bool(column.average_of) == (column.task is None)
        assert column.of_class in {None, "minority", "majority"}


def test_cells_have_the_fields_of_their_methods_and_none_is_trained_twice(table: Table) -> None:
    trained = []
    for cell in filter(lambda cell: cell.trainable, table.cells):
        method = method_class(str(cell.row.method))
        assert field_errors(method, cell.settings) == []
        build(method, cell.settings, table.name)
        trained.append((cell.row.method, cell.block, cell.column, sorted(cell.settings.items())))
    assert all(trained.count(one) == 1 for one in trained)


def test_only_one_row_has_no_method() -> None:
    assert {
        (table.name, cell.row.name)
        for table in published_tables().values()
        for cell in table.cells
        if cell.row.method is None
    } == {("lacon/table-7", "Baseline*")}


def test_the_protocol_counts_seeds_and_selects_as_the_paper_does(table: Table) -> None:
    protocol = PROTOCOLS[table.protocol]
    assert table.rule in {None, protocol.rule}
    assert table.runs in {None, protocol.replicates}
    for block in table.blocks.values():
        if not block.average_of:
            assert protocol.few_shot == bool(block.train_size or block.shots)
        if block.augmentation:
            assert block.augmentation.views == PROTOCOLS["gunel-noisy"].joined
    metrics = defaultdict(set)
    for column in table.columns.values():
        if column.task is not None and column.of_class is None:
            metrics[column.task].add(column.metric)
    for task, printed in metrics.items():
        assert protocol.metrics.get(task, TASKS[task].metric) in printed


@pytest.mark.parametrize(("name", "means"), [("gunel/table-2", 2), ("gunel/table-5", 6)])
def test_a_mean_is_that_of_the_values_it_names(name: str, means: int) -> None:
    table, found = published_tables()[name], 0
    for cell in table.cells:
        values = [
            other.value
            for other in table.cells
            if other.row == cell.row
            and (
                (other.block == cell.block and other.column.name in cell.column.average_of)
                or (other.column == cell.column and other.block.name in cell.block.average_of)
            )
        ]
        if values:
            found += 1
            assert abs(sum(values) / len(values) - cell.value) < 0.0501
    assert found == means


def test_supcl_seq_trains_with_the_settings_of_its_search_spaces() -> None:
    table = published_tables()["supcl-seq/table-4"]
    for column in table.columns.values():
        space = load_space(find_space("supcl-seq", str(column.task)), "supcl-seq")
        settings = {**table.settings, **column.settings}
        assert {name: as_tuples(value) for name, value in settings.items()} == {
            **space.fixed,
            **space.published[0],
        }


def test_reading_the_tables_imports_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from sclsearch.papers.tables import published_tables\n"
        "published_tables()\n"
        "print(sorted({'torch', 'transformers', 'ray', 'mlflow', 'scipy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
