"""Tests of the tables of studies: data frames, files, Markdown, LaTeX and notebooks."""

import json
import shutil
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sclsearch
from sclsearch import SclsearchError, select
from sclsearch.reports.report import Report
from sclsearch.reports.table import TableFormat, table_file, winner_grid
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import DamagedError
from tests.reports.conftest import WriteStudy
from tests.reports.trained import Trained


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


VALUES = [{"tau": 0.1, "dropouts": [0.0, 0.1]}, {"tau": 0.2, "dropouts": [0.3]}]


@pytest.fixture
def trained_report(trained: Trained) -> Report:
    return select("mine", storage=trained.storage)


def test_a_frame_has_one_row_per_stored_seed_run_with_its_scores(write_study: WriteStudy) -> None:
    storage = write_study(
        [(60, 50), (70, 55), None],
        [(80, 40), "loss ce is nan at update 7", (90, 45)],
        values=VALUES,
    )
    frame = select("made-up", storage=storage, rule="best").frame()
    assert frame.configuration.tolist() == [0, 0, 1, 1, 1]
    assert frame.replicate.tolist() == [0, 1, 0, 1, 2]
    finished = frame[frame.status == "finished"]
    assert finished.validation.tolist() == [0.6, 0.7, 0.8, 0.9]
    assert finished.test.tolist() == [0.5, 0.55, 0.4, 0.45]
    assert finished.tau.tolist() == [0.1, 0.1, 0.2, 0.2]
    assert set(frame.dropouts) == {"[0.0,0.1]", "[0.3]"}


def test_a_failed_seed_run_has_a_reason_and_no_scores(write_study: WriteStudy) -> None:
    storage = write_study([(60, 50), "loss ce is nan at update 7"], labels=("no", "yes"))
    finished, failed = select("made-up", storage=storage).frame().to_dict("records")
    assert (failed["status"], failed["failure"]) == (
        "failed",
        "raised: loss ce is nan at update 7",
    )
    assert np.isnan([failed[name] for name in ("validation", "test", "f1_no", "f1_yes")]).all()
    assert finished["status"] == "finished"
    assert finished["failure"] is None or np.isnan(finished["failure"])


def test_reported_seed_runs_and_the_winner_follow_the_rule(write_study: WriteStudy) -> None:
    storage = write_study([(60, 50), (75, 55)], [(70, 40), (70, 45)])
    for rule, winner, reported in (
        ("mean", [1, 1], [True, True]),
        ("mean/best", [1, 1], [True, False]),
        ("best/best", [0, 0], [False, True]),
    ):
        frame = select("made-up", storage=storage, rule=rule).frame()
        assert frame.configuration[frame.winner].tolist() == winner
        assert frame.reported[frame.winner].tolist() == reported


def test_f1_of_each_class_equals_that_of_scikit_learn(write_study: WriteStudy) -> None:
    from sklearn.metrics import f1_score

    matrix = np.array([[5, 2, 0], [1, 7, 3], [0, 0, 4]])
    true, predicted = (np.repeat(axis.ravel(), matrix.ravel()) for axis in np.indices((3, 3)))
    storage = write_study([(matrix.tolist(), matrix.tolist())], labels=("a", "b", "c"))
    frame = select("made-up", storage=storage).frame()
    expected = f1_score(true, predicted, average=None)
    assert frame[["f1_a", "f1_b", "f1_c"]].iloc[0].tolist() == pytest.approx(expected.tolist())


def test_a_hyperparameter_named_like_a_column_gets_a_prefix(write_study: WriteStudy) -> None:
    storage = write_study([(60, 50)], values=[{"test": 0.25}])
    frame = select("made-up", storage=storage).frame()
    assert frame.test.tolist() == [0.5]
    assert frame.hyperparameter_test.tolist() == [0.25]


def test_a_study_without_seed_runs_has_empty_frames_with_columns(write_study: WriteStudy) -> None:
    found = select("made-up", storage=write_study([None, None]))
    for frame, column in (
        (found.frame(), "validation"),
        (found.curves(), "value"),
        (found.predictions(), "predicted"),
    ):
        assert frame.empty
        assert column in frame


def test_curves_hold_every_loss_and_metric_and_mark_the_kept_evaluation(
    write_study: WriteStudy,
) -> None:
    curves = select("made-up", storage=write_study([(60, 50)])).curves()
    accuracy = curves[curves.name == "validation.accuracy"]
    assert accuracy[["stage", "step", "epoch", "value", "kept"]].values.tolist() == [
        ["final", 10, 1, 0.01, False],
        ["final", 20, 2, 0.6, True],
    ]
    metrics = ("accuracy", "mcc", "f1", "macro_f1")
    assert set(curves.name) == {f"validation.{metric}" for metric in metrics}


def test_curves_of_a_trained_study_end_at_its_validation_score(trained_report: Report) -> None:
    curves, frame = trained_report.curves(), trained_report.frame()
    kept = curves[curves.kept & (curves.name == f"validation.{trained_report.metric}")]
    assert kept.set_index("key").value.to_dict() == frame.set_index("key").validation.to_dict()
    assert {"loss.ce", "loss.scl"} < set(curves.name)


def test_predictions_give_the_scores_of_the_report(trained_report: Report) -> None:
    predictions, frame = trained_report.predictions(), trained_report.frame()
    assert trained_report.metric == "accuracy"
    right = predictions.label == predictions.predicted
    scores = right.groupby([predictions.key, predictions.split]).mean().unstack()
    expected = frame.set_index("key")[["test", "validation"]]
    pd.testing.assert_frame_equal(scores[["test", "validation"]], expected, check_names=False)


def test_the_predicted_class_has_the_largest_probability(trained_report: Report) -> None:
    predictions = trained_report.predictions()
    probabilities = predictions.filter(like="probability_")
    assert probabilities.sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-6)
    largest = probabilities.to_numpy().argmax(axis=1)
    assert (probabilities.columns[largest] == "probability_" + predictions.predicted).all()
    assert probabilities.nunique().min() > 2


def test_predictions_of_a_regression_have_scores_and_no_probabilities(regression: Path) -> None:
    found = select("scores", storage=regression)
    predictions, curves = found.predictions(), found.curves()
    assert list(predictions)[3:] == ["split", "row", "label", "predicted"]
    test = predictions[(predictions.split == "test") & (predictions.replicate == 0)]
    assert test.label.corr(test.predicted) == pytest.approx(found.frame().test[0])
    assert {"validation.pearson", "validation.spearman", "validation.mse"} < set(curves.name)


def test_a_damaged_file_of_probabilities_is_an_error_that_names_it(
    trained: Trained, tmp_path: Path
) -> None:
    storage = shutil.copytree(trained.storage, tmp_path / "storage")
    report = select("mine", storage=storage)
    run = RunStore(storage).get(report.frame().key[0])
    assert run is not None
    (rows,) = RunStore(storage).rows([run])
    assert rows is not None
    path = storage / "runs" / "rows" / f"{run.key}.npz"
    path.write_bytes(rows.encoded()[:100])
    with pytest.raises(DamagedError) as error:
        report.predictions()
    assert str(error.value).startswith(f"{path}: does not hold labels and probabilities")
    assert "Delete it; the predictions then lack" in str(error.value)
    path.unlink()
    assert report.predictions().label.isna().sum() == 1000


def test_a_report_prints_as_one_line(write_study: WriteStudy) -> None:
    report = select("made-up", storage=write_study([(60, 50), (70, 61)], [(90, 40), (90, 50)]))
    assert repr(report) == (
        "<Report made-up: scl on cola, winner #1, validation accuracy 0.9000, test 0.4500 ± 0.0707>"
    )


def test_a_report_without_a_winner_has_a_message_instead(write_study: WriteStudy) -> None:
    report = select("made-up", storage=write_study([(60, 50), None]))
    assert repr(report) == "<Report made-up: scl on cola, no configuration is finished>"
    assert "no configuration is finished" in report._repr_html_()


def test_a_notebook_shows_the_ranking_with_escaped_text(write_study: WriteStudy) -> None:
    values = [{"kind": "<script>"}, *({"kind": f"k{number}"} for number in range(24))]
    scores = [[(90 - number, 50)] for number in range(25)]
    page = select("made-up", storage=write_study(*scores, values=values))._repr_html_()
    assert "winner #0" in page
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 2
    assert "k18" in page
    assert "k19" not in page
    assert "… and 5 more" in page
