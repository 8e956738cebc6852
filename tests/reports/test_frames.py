"""Tests of a study's data frames against its report and its stored seed runs."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sclsearch import select
from sclsearch.reports.report import Report
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import DamagedError
from tests.reports.conftest import WriteStudy
from tests.reports.trained import Trained

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
