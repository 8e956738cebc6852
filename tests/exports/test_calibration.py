"""Tests of calibrated exports: temperature, threshold, and their scores before and after."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.errors import SclsearchError
from sclsearch.exports.calibration import (
    LOWEST,
    fit_temperature,
    fit_threshold,
    scaled,
)
from sclsearch.store.runs import RunStore
from sclsearch.tasks.metrics import METRICS, calibration_error, confusion
from tests.exports.test_heads import TEXTS
from tests.made_up import own_task, study_on


def drawn(seed: int, rows: int, classes: int, scale: float) -> Any:
    """Return probabilities whose logits are `scale` times too large, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes))
    y = np.array([rng.choice(classes, p=one) for one in softmax(logits, axis=1)])
    return softmax(scale * logits, axis=1).astype(np.float32), y


def test_the_temperature_undoes_a_scale_and_no_other_has_less_log_loss() -> None:
    assert fit_temperature(*drawn(0, 20_000, 4, 3.0)) == pytest.approx(3.0, rel=0.05)
    for seed in range(30):
        p, y = drawn(seed, 3 + seed, 3, 0.1 + seed / 4)
        fitted, *others = (
            log_loss(y, scaled(p, temperature), labels=range(3))
            for temperature in (fit_temperature(p, y), 1.0, *np.geomspace(0.05, 20, 40))
        )
        assert fitted <= min(others) + 1e-5
    p, _ = drawn(0, 9, 3, 1.0)
    assert fit_temperature(p, p.argmax(1)) == pytest.approx(LOWEST, rel=1e-3)


def test_the_calibration_error_is_the_weighted_gap_of_each_bin() -> None:
    p, y = drawn(1, 500, 3, 4.0)
    confidence, right, expected = p.max(1), p.argmax(1) == y, 0.0
    for low in np.arange(15) / 15:
        own = (low < confidence) & (confidence <= low + 1 / 15)
        expected += abs(right[own].sum() - confidence[own].sum()) / len(y)
    assert calibration_error(p, y) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["f1", "accuracy", "mcc"])
def test_no_other_threshold_is_better(name: str) -> None:
    for seed in range(20):
        p, y = drawn(seed, 25, 2, 2.0)
        fitted, *others = (
            METRICS[name].function(confusion(y, p[:, 1] >= threshold, 2))
            for threshold in (fit_threshold(p[:, 1], y, METRICS[name]), *p[:, 1], 0.0, 0.5, 1.0)
        )
        assert fitted == max(others)


def test_of_equal_thresholds_the_one_nearest_to_one_half_is_chosen() -> None:
    likely, y = np.array([0.1, 0.3, 0.6, 0.9]), np.array([1, 0, 1, 1])
    assert fit_threshold(likely, y, METRICS["accuracy"]) == pytest.approx(0.45)  # not 0.05


@pytest.mark.parametrize("ensemble", [False, True])
def test_an_export_applies_both_and_states_the_scores_before_and_after(
    trained: Path, tmp_path: Path, ensemble: bool
) -> None:
    given: dict[str, Any] = {"storage": trained, "ensemble": ensemble, "force": True}
    before = sclsearch.export("mine", tmp_path / "raw", **given)
    command = ["export", "mine", str(tmp_path / "m"), "--storage", str(trained), "--force"]
    command += ["--calibrate", "--threshold", "tune", *["--ensemble"] * ensemble]
    printed = CliRunner().invoke(app, command).stdout
    raw, predictor = sclsearch.load(tmp_path / "raw"), sclsearch.load(tmp_path / "m")
    own = predictor.record.calibration
    assert own is not None
    found = predictor.predict_proba(TEXTS)
    assert found == pytest.approx(scaled(raw.predict_proba(TEXTS), own.temperature), abs=1e-5)
    expected = [predictor.labels[int(one[1] >= (own.threshold or 0))] for one in found]
    assert [one.label for one in predictor.predict(TEXTS)] == expected
    (loss, less), (score, more) = (own.scores[f"validation {n}"] for n in ("log loss", "accuracy"))
    assert less <= loss
    assert more >= score
    assert ensemble or own.scores["test accuracy"][0] == pytest.approx(before.test)
    if not ensemble:  # the threshold is for calibrated probabilities
        store = RunStore(trained)
        (rows,) = store.rows([run for run in [store.get(before.key)] if run])
        assert rows is not None
        likely = scaled(rows.probabilities["validation"], own.temperature)[:, 1]
        y = rows.labels["validation"].astype(np.int64)
        assert own.threshold == fit_threshold(likely, y, METRICS["accuracy"])
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "import sclsearch" in printed  # transformers does not apply the threshold
    assert "with the same predictions" not in card
    for text in (
        f"validation log loss {loss:.4f} → {less:.4f}",
        f"temperature {own.temperature:.3g}",
    ):
        assert text in printed
        assert text in card


def test_exports_without_common_validation_rows_or_a_fitting_metric_are_refused(
    trained: Path, regression: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    rows = [(f"it was {word} {n}", word) for n in range(12) for word in ("a", "b", "c")]
    three = study_on(tiny_bert, tmp_path, own_task(tmp_path / "own", rows), folds=2)
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (trained, {"calibrate": True, "refit": "all"}, "calibrate: needs stored probabilities of"),
        (trained, {"threshold": "tune", "baseline": True}, "threshold: needs stored probabilities"),
        (regression, {"calibrate": True}, "calibrate: own must have classes, got no classes"),
        (three, {"threshold": "tune"}, "threshold: own must have two classes.* got 3 classes"),
        (three, {"calibrate": True, "ensemble": True}, "calibrate: .* the same validation"),
    ]
    for storage, options, message in cases:
        with pytest.raises(SclsearchError, match=f"^{message}"):
            sclsearch.export("mine", tmp_path / "m", storage=storage, force=True, **options)
