"""Tests of the tables of studies: data frames, files, Markdown, LaTeX and notebooks."""

import json
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import sclsearch
from sclsearch import select
from sclsearch.reports.table import TableFormat, TableRows, table_file
from tests.made_up import WriteStudy

ODD = "<a>~|*^"


@pytest.fixture
def storage(write_study: WriteStudy) -> Path:
    """Return a storage with two studies; the first has an unfinished and a failed seed run."""
    values = [{"tau": 0.07, "kind": "a_b"}, {"tau": 0.5, "kind": ODD}, {"tau": 1, "kind": [0.1]}]
    write_study([(60, 50), (70, 61)], [(90, 80), "nan"], [(60, 1), None], values=values)
    return write_study([(60, 50), (70, 50)], name="other", metric="macro_f1")


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with Python values, None where a value is missing."""
    return frame.astype(object).where(frame.notna(), None)


def lines(
    storage: Path, *names: str, rows: TableRows = "configurations", form: TableFormat = "md"
) -> list[str]:
    reports = [select(name, storage=storage) for name in names]
    return table_file(reports, rows, form).decode().splitlines()


def test_configurations_have_score_test_seeds_and_failures(storage: Path) -> None:
    frame = sclsearch.table("made-up", storage=storage)
    columns = ["configuration", "tau", "score", "test_mean", "seeds", "failures", "winner"]
    assert plain(frame[columns].round(9)).values.tolist() == [
        [0, 0.07, 0.65, 0.555, 2, 0, True],
        [1, 0.5, 0.45, 0.8, 1, 1, False],
        [2, 1.0, None, 0.01, 1, 0, False],
    ]
    assert frame.kind.tolist() == ["a_b", ODD, "[0.1]"]


def test_seed_runs_have_scores_status_and_what_the_rule_reports(storage: Path) -> None:
    found = select("made-up", storage=storage, rule="mean/best").frame()
    names = ["configuration", "replicate", "validation", "test", "status", "reported", "winner"]
    assert plain(found[names]).values.tolist() == [
        [0, 0, 0.6, 0.5, "finished", False, True],
        [0, 1, 0.7, 0.61, "finished", True, True],
        [1, 0, 0.9, 0.8, "finished", True, False],
        [1, 1, None, None, "failed", False, False],
        [2, 0, 0.6, 0.01, "finished", True, False],
    ]
    assert plain(found).failure.tolist() == [None, None, None, "raised: nan", None]


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


def test_a_hyperparameter_may_have_several_types_and_the_name_of_a_column(
    write_study: WriteStudy,
) -> None:
    values = [{"depth": 3, "test": 0.25}, {"depth": "all", "test": 0.5}]
    report = select("made-up", storage=write_study([(60, 50)], [(70, 50)], values=values))
    found = pd.read_parquet(BytesIO(table_file([report], "configurations", "parquet")))
    assert found.depth.tolist() == ["all", "3"]
    assert report.frame().hyperparameter_test.tolist() == [0.25, 0.5]


def test_a_csv_file_has_no_formulas(write_study: WriteStudy) -> None:
    storage = write_study([(60, 50)], [(70, 50)], values=[{"kind": "=1+1"}, {"kind": "-2"}])
    csv = table_file([select("made-up", storage=storage)], "configurations", "csv").decode()
    assert ",'=1+1," in csv
    assert ",-2," in csv


def test_markdown_and_latex_have_escaped_text_points_and_the_winner_in_bold(storage: Path) -> None:
    assert lines(storage, "made-up") == [
        "| # | tau | kind | seeds | validation accuracy | test accuracy |",
        "| --- | --- | --- | --- | --- | --- |",
        "| 0 | 0.07 | a_b | 2/2 | 65.0 | **55.5 ± 7.8** |",
        r"| 1 | 0.5 | &lt;a>~\|\*^ | 1/2 | 45.0 | 80.0 |",
        "| 2 | 1 | [0.1] | 1/2 | – | – |",
    ]
    kind = r"\textless{}a\textgreater{}\textasciitilde{}\textbar{}*\textasciicircum{}"
    assert lines(storage, "made-up", form="latex") == [
        r"\begin{tabular}{llllll}",
        r"\toprule",
        r"\# & tau & kind & seeds & validation accuracy & test accuracy \\",
        r"\midrule",
        r"0 & 0.07 & a\_b & 2/2 & 65.0 & \textbf{55.5 $\pm$ 7.8} \\",
        rf"1 & 0.5 & {kind} & 1/2 & 45.0 & 80.0 \\",
        r"2 & 1 & [0.1] & 1/2 & -- & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_headings_are_escaped_and_cells_are_one_line_of_limited_length(
    write_study: WriteStudy,
) -> None:
    matrix = [[8, 2], [1, 9]]
    labels = ("<b>no|*", "x\n& \\`$%{}#")
    values = [{"kind": "a\n\nb"}, {"kind": "x" * 10_000}]
    storage = write_study([(matrix, matrix)], [(70, 50)], labels=labels, values=values)
    for form, line, heading in (
        ("md", 0, r"| f1_&lt;b>no\|\* | f1_x &amp; \\\`$%{}# |"),
        ("latex", 2, r"no\textbar{}* & f1\_x \& \textbackslash{}`\$\%\{\}\# &"),
    ):
        found = lines(storage, "made-up", rows="seed-runs", form=form)  # type: ignore[arg-type]
        assert heading in found[line]
        text = "\n".join(found)
        assert " a b " in text
        assert f" {'x' * 299}… " in text
        assert "xx" not in text.replace("x" * 299, "")


def test_winners_are_one_row_per_study(write_study: WriteStudy) -> None:
    write_study([(60, 50), (70, 60)], [(90, 40), (90, 40)], name="scl-a")
    storage = write_study([(60, 60), (70, 64)], name="ce-a", method="ce")
    assert lines(storage, "ce-a", "scl-a", rows="winners")[2:] == [
        "| ce | 0 | 0.1 | 2/2 | 65.0 | 62.0 ± 2.8 |",
        "| scl | 1 | 0.2 | 2/2 | 90.0 | 40.0 ± 0.0 |",
    ]


def test_f1_of_each_class_equals_that_of_scikit_learn(write_study: WriteStudy) -> None:
    matrix = np.array([[5, 2, 0], [1, 7, 3], [0, 0, 4]])
    true, predicted = (np.repeat(axis.ravel(), matrix.ravel()) for axis in np.indices((3, 3)))
    seeds = [(matrix.tolist(), matrix.tolist()), "nan"]
    storage = write_study(seeds, labels=("a", "b", "c"))
    found = select("made-up", storage=storage).frame()[["f1_a", "f1_b", "f1_c"]].to_numpy(float)
    assert found[0] == pytest.approx(f1_score(true, predicted, average=None))
    assert np.isnan(found[1]).all()


def test_curves_hold_every_metric_and_mark_the_kept_evaluation(
    write_study: WriteStudy, trained: Path
) -> None:
    curves = select("made-up", storage=write_study([(60, 50)])).curves()
    accuracy = curves[curves.name == "validation.accuracy"]
    assert accuracy[["stage", "step", "epoch", "value", "kept"]].values.tolist() == [
        ["final", 10, 1, 0.01, False],
        ["final", 20, 2, 0.6, True],
    ]
    curves = select("mine", storage=trained).curves()
    assert {"loss.ce", "loss.scl", "validation.macro_f1"} < set(curves.name)


def test_predictions_give_the_scores_and_probabilities_of_the_report(trained: Path) -> None:
    report = select("mine", storage=trained)
    predictions, frame = report.predictions(), report.frame()
    right = predictions.label == predictions.predicted
    scores = right.groupby([predictions.key, predictions.split]).mean().unstack()
    expected = frame.set_index("key")[["test", "validation"]].sort_index()
    pd.testing.assert_frame_equal(scores[["test", "validation"]], expected, check_names=False)
    probabilities = predictions.filter(like="probability_")
    assert probabilities.sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-6)
    largest = probabilities.to_numpy().argmax(axis=1)
    assert (probabilities.columns[largest] == "probability_" + predictions.predicted).all()


def test_predictions_of_a_regression_have_scores_and_no_probabilities(regression: Path) -> None:
    found = select("mine", storage=regression)
    predictions = found.predictions()
    assert list(predictions)[3:] == ["split", "row", "label", "predicted"]
    test = predictions[(predictions.split == "test") & (predictions.replicate == 0)]
    assert test.label.corr(test.predicted) == pytest.approx(found.frame().test[0])
    assert {"validation.pearson", "validation.spearman"} < set(found.curves().name)
