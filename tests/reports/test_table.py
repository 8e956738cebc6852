"""Tests of the tables of studies as data frames, files, Markdown and LaTeX."""

import json
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path

import pandas as pd
import pytest

import sclsearch
from sclsearch import SclsearchError, select
from sclsearch.reports.table import TableFormat, table_file, winner_grid
from tests.reports.conftest import WriteStudy


@pytest.fixture
def storage(write_study: WriteStudy) -> Path:
    """Return a storage with two studies; the first has an unfinished and a failed seed run."""
    values = [{"tau": 0.07, "kind": "a_b"}, {"tau": 0.5, "kind": "a|b"}, {"tau": 1, "kind": "c"}]
    write_study([(60, 50), (70, 61)], [(90, 80), "nan"], [(60, 1), None], values=values)
    return write_study([(60, 50), (70, 50)], name="other", metric="macro_f1")


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with Python values, None where a value is missing."""
    return frame.astype(object).where(frame.notna(), None)


def test_configurations_have_score_test_seeds_and_failures(storage: Path) -> None:
    frame = sclsearch.table("made-up", storage=storage)
    columns = ["configuration", "tau", "score", "test_mean", "seeds", "failures", "winner"]
    assert plain(frame[columns].round(9)).values.tolist() == [
        [0, 0.07, 0.65, 0.555, 2, 0, True],
        [1, 0.5, 0.45, 0.8, 1, 1, False],
        [2, 1.0, None, 0.01, 1, 0, False],
    ]


def test_seed_runs_are_those_of_the_reports_in_order(storage: Path) -> None:
    frame = sclsearch.table("other", "made-up", rows="seed-runs", storage=storage)
    parts = [select(name, storage=storage).frame() for name in ("other", "made-up")]
    pd.testing.assert_frame_equal(frame, pd.concat(parts, ignore_index=True))


def test_a_study_without_seed_runs_changes_no_column(
    storage: Path, write_study: WriteStudy
) -> None:
    write_study([None], name="empty")
    frame = sclsearch.table("empty", "other", rows="seed-runs", storage=storage)
    assert list(frame) == list(select("other", storage=storage).frame())


def test_files_hold_the_frame_exactly(storage: Path) -> None:
    reports = [select("made-up", storage=storage), select("other", storage=storage)]
    frame = sclsearch.table("made-up", "other", rows="seed-runs", storage=storage)
    csv, parquet, records = (
        table_file(reports, "seed-runs", form) for form in ("csv", "parquet", "json")
    )
    read = (
        pd.read_csv(StringIO(csv.decode()), dtype={"size": str}),
        pd.read_parquet(BytesIO(parquet)),
        pd.DataFrame(json.loads(records)),
    )
    for found in read:
        pd.testing.assert_frame_equal(plain(found), plain(frame))


def test_parquet_accepts_a_hyperparameter_of_several_types(write_study: WriteStudy) -> None:
    storage = write_study([(60, 50)], [(70, 50)], values=[{"depth": 3}, {"depth": "all"}])
    found = pd.read_parquet(
        BytesIO(table_file([select("made-up", storage=storage)], "configurations", "parquet"))
    )
    assert found.depth.tolist() == ["all", "3"]


def test_markdown_has_points_and_the_winner_in_bold(storage: Path) -> None:
    text = table_file([select("made-up", storage=storage)], "configurations", "md").decode()
    assert text.splitlines() == [
        "| # | tau | kind | seeds | validation accuracy | test accuracy |",
        "| --- | --- | --- | --- | --- | --- |",
        "| 0 | 0.07 | a_b | 2/2 | 65.0 | **55.5 ± 7.8** |",
        r"| 1 | 0.5 | a\|b | 1/2 | 45.0 | 80.0 |",
        "| 2 | 1 | c | 1/2 | – | – |",
    ]


def test_winners_are_methods_by_tasks_with_the_best_of_a_column_in_bold(
    write_study: WriteStudy,
) -> None:
    write_study([(60, 50), (70, 60)], [(90, 40), (90, 40)], name="scl-a")
    write_study([(60, 60), (70, 64)], name="ce-a", method="ce")
    storage = write_study([(60, 20), (70, 30)], name="ce-b", method="ce", metric="macro_f1")
    reports = [select(name, storage=storage) for name in ("ce-a", "scl-a", "ce-b")]
    assert table_file(reports, "winners", "md").decode().splitlines() == [
        "| method | cola, accuracy | cola, macro_f1 |",
        "| --- | --- | --- |",
        "| ce | **62.0 ± 2.8** | 19.9 ± 4.5 |",
        "| scl | 40.0 ± 0.0 | – |",
    ]
    latex = table_file(reports, "winners", "latex").decode().splitlines()
    assert latex[4] == r"ce & \textbf{62.0 $\pm$ 2.8} & 19.9 $\pm$ 4.5 \\"
    frame = sclsearch.table("ce-a", "scl-a", rows="winners", storage=storage)
    assert plain(frame)[["method", "configuration"]].values.tolist() == [["ce", 0], ["scl", 1]]


def test_a_winner_without_a_test_score_is_not_better_than_a_negative_one(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(60, 50)], name="scl-a")
    found = select("scl-a", storage=storage)
    reports = [
        replace(found, method=method, configurations=(replace(line, test_mean=mean),))
        for method, mean in (("scl", -0.1), ("ce", None), ("leam", -0.2))
        for line in found.configurations
    ]
    _, bold = winner_grid(reports)
    assert bold == [[False, True], [False, False], [False, False]]


def test_the_heading_of_winners_names_a_rule_that_picks_seeds(write_study: WriteStudy) -> None:
    storage = write_study([(60, 50), (70, 60), (80, 40)], rule="top-3")
    headings = {
        rule: table_file([select("made-up", rule=rule, storage=storage)], "winners", "md")
        .decode()
        .splitlines()[0]
        for rule in ("top-3", "best", "mean")
    }
    assert headings["top-3"] == "| method | cola, accuracy, top-3 |"
    assert headings["best"] == "| method | cola, accuracy, best |"
    assert headings["mean"] == "| method | cola, accuracy |"


def test_winners_of_one_method_and_task_stand_in_rows_of_their_studies(
    storage: Path, write_study: WriteStudy
) -> None:
    write_study([(60, 50)], name="third")
    reports = [select(name, storage=storage) for name in ("made-up", "third", "other")]
    lines = table_file(reports, "winners", "md").decode().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| made-up", "| third", "| other"]
    assert lines[0].startswith("| study | method |")


@pytest.mark.parametrize("form", ["md", "latex"])
def test_a_cell_is_one_line_of_limited_length(write_study: WriteStudy, form: TableFormat) -> None:
    values = [{"kind": "a\n\nb"}, {"kind": "x" * 10_000}]
    storage = write_study([(60, 50)], [(70, 50)], values=values)
    text = table_file([select("made-up", storage=storage)], "configurations", form).decode()
    assert " a b " in text
    assert f" {'x' * 299}… " in text
    assert "xx" not in text.replace("x" * 299, "")


def test_latex_is_a_booktabs_table_with_escaped_text(storage: Path) -> None:
    text = table_file([select("made-up", storage=storage)], "configurations", "latex").decode()
    assert text.splitlines() == [
        r"\begin{tabular}{llllll}",
        r"\toprule",
        r"\# & tau & kind & seeds & validation accuracy & test accuracy \\",
        r"\midrule",
        r"0 & 0.07 & a\_b & 2/2 & 65.0 & \textbf{55.5 $\pm$ 7.8} \\",
        r"1 & 0.5 & a\textbar{}b & 1/2 & 45.0 & 80.0 \\",
        r"2 & 1 & c & 1/2 & -- & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_special_characters_in_labels_are_escaped(write_study: WriteStudy) -> None:
    labels = ("<b>no|*", "x\n& \\`$")
    matrix = [[8, 2], [1, 9]]
    storage = write_study([(matrix, matrix)], name="odd", labels=labels)
    reports = [select("odd", storage=storage)]
    markdown, latex = (table_file(reports, "seed-runs", form).decode() for form in ("md", "latex"))
    assert r"| f1_&lt;b>no\|\* | f1_x &amp; \\\`$ |" in markdown.splitlines()[0]
    assert r"no\textbar{}* & f1\_x \& \textbackslash{}`\$ &" in latex.splitlines()[2]


def test_several_studies_get_columns_for_the_settings_that_differ(
    storage: Path, write_study: WriteStudy
) -> None:
    def header(*names: str) -> list[str]:
        reports = [select(name, storage=storage) for name in names]
        text = table_file(reports, "configurations", "md").decode()
        return text.splitlines()[0].strip("| ").split(" | ")

    write_study([(60, 50)], name="third")
    assert header("made-up", "other")[:2] == ["metric", "#"]
    assert header("made-up", "other")[-2:] == ["validation", "test"]
    assert header("made-up", "third")[:2] == ["study", "#"]


def test_a_markdown_table_of_seed_runs_has_all_columns(storage: Path) -> None:
    frame = select("other", storage=storage).frame()
    text = table_file([select("other", storage=storage)], "seed-runs", "md").decode()
    header, _, *rows = text.splitlines()
    assert header.strip("| ").split(" | ") == list(frame)
    assert len(rows) == 2
    assert "**" not in text


def test_a_table_without_studies_or_with_unknown_rows_is_an_error(storage: Path) -> None:
    with pytest.raises(SclsearchError, match=r"^studies: must be at least one, got none\."):
        sclsearch.table(storage=storage)
    with pytest.raises(SclsearchError, match=r"^Unknown rows 'seeds'\."):
        sclsearch.table("other", rows="seeds", storage=storage)  # type: ignore[arg-type]
