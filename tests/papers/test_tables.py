"""A file becomes a table whose cells say all that is needed to train them; faults come at once."""

from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.papers.base import Augmentation, Cell
from sclsearch.papers.tables import load_tables
from sclsearch.selection.rules import Rule, Top


def find(folder: Path, block: str, row: str, column: str) -> Cell:
    (found,) = (
        cell
        for cell in load_tables(folder)["some/table-1"].cells
        if (cell.block.name, cell.row.name, cell.column.name) == (block, row, column)
    )
    return found


def test_a_file_becomes_a_table(folder: Path) -> None:
    table = load_tables(folder)["some/table-1"]
    assert (table.name, table.paper, table.number) == ("some/table-1", "Someone et al. 2020", 1)
    assert (table.title, table.source, table.figure) == (
        "Two tasks",
        "section 1",
        "mean of all seeds",
    )
    assert (table.rule, table.runs, table.protocol) == (Rule(Top(), Top()), 2, "plain")
    assert (table.model, table.notes) == ("bert-base", ("Not printed",))
    assert (*table.rows,) == ("CE", "Ours", "Theirs")
    assert (*table.columns,) == ("A", "B", "Mean")
    assert (*table.blocks,) == ("N=20", "T=0.5", "All")


def test_a_table_without_rule_and_runs_leaves_them_open(folder: Path) -> None:
    table = load_tables(folder)["some/table-2"]
    assert (table.rule, table.runs, table.std_unit) == (None, None, "fraction")


def test_a_dash_is_no_cell(folder: Path) -> None:
    cells = load_tables(folder)["some/table-1"].cells
    assert [cell.value for cell in cells] == [0.5, 0.25, 0.375, 0.6, 0.7, 0.65, 1.0, 0.5, 0.5]
    assert [cell.std for cell in cells] == [1.5] + 8 * [None]


def test_settings_of_a_row_go_before_condition_task_another_table_and_table(folder: Path) -> None:
    assert find(folder, "N=20", "Ours", "A").settings == {
        "batch_size": 4,
        "epochs": 9,
        "learning_rate": 1e-3,
        "tau": 0.3,
    }
    assert find(folder, "N=20", "CE", "A").settings == {"batch_size": 4, "epochs": 4}
    assert find(folder, "N=20", "Ours", "B").settings == {"batch_size": 4, "epochs": 9, "tau": 0.3}


def test_a_task_may_have_another_encoder(folder: Path) -> None:
    assert find(folder, "N=20", "CE", "A").model == "roberta-base"
    assert find(folder, "N=20", "CE", "B").model == "bert-base"


def test_conditions_of_a_block_and_measures_of_a_column_are_kept(folder: Path) -> None:
    block = find(folder, "T=0.5", "CE", "A").block
    assert (block.train_size, block.shots, block.first_task) == (None, 5, "sst2")
    assert block.augmentation == Augmentation(views=3, temperature=0.5)
    column = find(folder, "N=20", "CE", "B").column
    assert (column.metric, column.of_class) == ("f1", "minority")


@pytest.mark.parametrize(
    ("block", "row", "column", "trainable"),
    [
        ("N=20", "CE", "A", True),
        ("N=20", "Theirs", "A", False),
        ("N=20", "CE", "Mean", False),
        ("All", "CE", "A", False),
    ],
)
def test_figures_published_only_and_means_are_not_trainable(
    folder: Path, block: str, row: str, column: str, trainable: bool
) -> None:
    assert find(folder, block, row, column).trainable is trainable


def test_figures_are_told_in_the_unit_of_the_metrics(folder: Path) -> None:
    table = load_tables(folder)["some/table-1"]
    assert table.as_metric(table.cells[0]) == (0.5, 0.015)
    assert table.as_metric(table.cells[1]) == (0.25, None)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("number: 1", "", "number: is missing"),
        ("number: 1", "nubmer: 1\nnumber: 1", "nubmer: unknown key. Did you mean 'number'?"),
        ("unit: fraction", "unit: cm", "unit: input should be 'percent' or 'fraction', but"),
        ("rule: mean", "rule: median", "rule: Unknown rule 'median'. It must be mean, best,"),
        ("runs: 2", "runs: 0", "runs: input should be greater than or equal to 1, but there is 0"),
        ("method: ce,", "method: xe,", "rows.CE.method: unknown method 'xe'. Did you mean 'ce'?"),
        ("note: as", "nota: as", "rows.CE.nota: unknown key. Did you mean 'note'?"),
        ("Theirs: {}", "Theirs: {name: We}", "rows.Theirs.name: unknown key. Did you mean 'note'?"),
        ("metric: mcc", "metric: mc", "columns.A.metric: unknown metric 'mc'. Did you mean 'mcc'?"),
        ("task: cola, ", "", "columns.A: must have a task or average_of, but it has both or"),
        ("of_class: min", "of_class: max", "columns.B.of_class: input should be 'minority' or"),
        ("[A, B]", "[A, C]", "columns.Mean.average_of: unknown name 'C'. Known: A, B, Mean."),
        ("[N=20, T", "[N=2, T", "blocks.All.average_of: unknown name 'N=2'. Did you mean 'N=20'?"),
        ("size: 20", "size: '20'", "blocks.N=20.train_size: input should be a valid integer, but"),
        ("views: 3, ", "", "blocks.T=0.5.augmentation.views: is missing"),
        ("of: some/table-2", "of: some/table-3", "rows.Ours.settings_of: unknown table 'some/t"),
        ("B: 0.25, ", "", "cells.N=20.CE.B: is missing"),
        ("B: 0.25, ", "B: 0.25, C: 1.0, ", "cells.N=20.CE.C: unknown key 'C'. Known: A, B, Mean."),
        ("B: 0.25", "B: [1, 2, 3]", "cells.N=20.CE.B: list should have at most 2 items after"),
        ("B: 0.25", "B: true", "cells.N=20.CE.B[0]: input should be a valid number, but there is"),
        ("B: 0.25", "B: .nan", "cells.N=20.CE.B[0]: input should be a finite number, but there"),
        ("\n  All:\n    CE: {A", "\n  Al:\n    CE: {A", "cells.All: is missing"),
        ("title: Two tasks", "number: 1", "the file must be YAML, but: while constructing"),
    ],
)
def test_a_fault_is_named_with_file_and_place(
    folder: Path, good: str, old: str, new: str, fault: str
) -> None:
    assert good.count(old) == 1
    file = folder / "some" / "table-1.yaml"
    file.write_text(good.replace(old, new), encoding="utf-8")
    with pytest.raises(SclsearchError) as caught:
        load_tables(folder)
    assert str(caught.value).startswith(f"{folder.name}/some/table-1.yaml: {fault}")


def test_all_faults_of_all_files_are_told_at_once(folder: Path, good: str) -> None:
    first, second = (folder / "some" / f"table-{number}.yaml" for number in (1, 2))
    first.write_text(good.replace("task: cola", "tsak: cola").replace("B: 0.25, ", ""))
    second.write_text(second.read_text().replace("unit: fraction", "").replace("model: ", "mo: "))
    with pytest.raises(SclsearchError) as caught:
        load_tables(folder)
    assert [line.partition(": ")[2] for line in str(caught.value).splitlines()] == [
        "columns.A.tsak: unknown key. Did you mean 'task'? Known: average_of, metric, model, "
        "of_class, settings, task.",
        "columns.A: must have a task or average_of, but it has both or neither",
        "cells.N=20.CE.B: is missing",
        "mo: unknown key. Did you mean 'model'? Known: blocks, cells, columns, figure, model, "
        "notes, number, paper, protocol, rows, rule, runs, settings, source, std_unit, title, "
        "unit.",
        "unit: is missing",
        "model: is missing",
    ]
