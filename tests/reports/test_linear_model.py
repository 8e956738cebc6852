"""Tests of the export of the linear model on the frozen encoder."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows
from sclsearch.reports.predictor import Refit
from sclsearch.reports.refit import restore_winner
from sclsearch.reports.report import report
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.metrics import evaluate, value
from sclsearch.training.data import tokenize_task
from sclsearch.training.device import backend_here
from sclsearch.training.evaluation import _fitted, _values, compute_features, linear_head
from tests.reports.test_heads import probabilities
from tests.reports.trained import search_on

TASK = Task("own", "a test", ("bad", "good", "fine"), "accuracy")


@pytest.fixture(scope="module")
def storage(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage of the study `mine`, of three classes."""
    lines = [f"it was {word} {n},{word}" for n in range(12) for word in TASK.labels]
    return search_on(tiny_bert, tmp_path_factory.mktemp("linear"), ["text,label", *lines])


def score_of(folder: Path, storage: Path) -> float:
    """Return the score of an export on the test rows of its replicate."""
    predictor, winner = sclsearch.load(folder), restore_winner(report(storage, "mine"), None, None)
    data, test = winner.study.data, winner.splits[predictor.record.replicate].test
    split, labels = data.splits[test.split], predictor.labels
    found = predictor.predict([split.texts[row] for row in test.index])
    numbers = [labels.index(str(one.label)) if labels else one.label for one in found]
    evaluation = evaluate(data.task, test.labels(data), np.array(numbers, np.float64))
    return value(predictor.record.metric, evaluation)


def test_the_export_predicts_like_the_baseline_in_every_library(
    storage: Path, tmp_path: Path
) -> None:
    record = sclsearch.export("mine", tmp_path / "m", storage=storage, baseline=True)
    line = report(storage, "mine").baselines[-1]
    best = line.seeds[line.reported[0]]
    assert (record.method, record.replicate) == ("logistic-regression", best.replicate)
    assert (record.validation, record.test) == (best.validation, best.test)
    assert record.mean_test == line.test_mean
    texts = ["it was good", "it was bad and dull", "a film"]
    ours = sclsearch.load(tmp_path / "m").predict_proba(texts)
    theirs = [[one[name] for name in record.labels] for one in probabilities(tmp_path / "m", texts)]
    assert theirs == pytest.approx(ours, abs=1e-5)
    assert score_of(tmp_path / "m", storage) == best.test
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "not fine-tuned, and logistic regression on the frozen encoder for own." in card
    assert "## Search" not in card
    assert "the winner" not in card


def test_a_refit_of_the_baseline_has_all_rows(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["export", "mine", "m", "--baseline", "--refit", "all", "--storage", str(storage)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "trained after the search on 27 training and validation rows and all 9 test" in (
        result.stdout
    )
    classifier = sclsearch.load("m")
    assert classifier.record.refit == Refit(27, 9)
    data = restore_winner(report(storage, "mine"), None, None).study.data
    texts = [text for split in data.splits.values() for (text,) in split.texts]
    found = [one.label for one in classifier.predict(texts)]
    # The third word of a text is its class.
    assert (
        np.mean([label == text.split()[2] for label, text in zip(found, texts, strict=True)]) > 0.9
    )


def test_a_regression_is_exported_as_ridge_regression(regression: Path, tmp_path: Path) -> None:
    record = sclsearch.export("mine", tmp_path / "m", storage=regression, baseline=True)
    assert (record.method, record.labels) == ("ridge-regression", ())
    assert score_of(tmp_path / "m", regression) == pytest.approx(record.test, abs=1e-4)
    with pytest.raises(SclsearchError, match="baseline: does not depend on a seed"):
        sclsearch.export("mine", tmp_path, storage=regression, baseline=True, ensemble=True)


@pytest.mark.parametrize("present", [(0, 1, 2), (0, 2), (1, 2)])
def test_the_head_has_the_probabilities_of_scikit_learn(
    present: tuple[int, ...], tiny_bert: Path
) -> None:
    y = np.array([present[n % len(present)] for n in range(12)], np.int64)
    texts = tuple((f"it was {TASK.labels[label]} {n}",) for n, label in enumerate(y))
    data = TaskData(TASK, {"train": Split(texts, y)}, "memory")
    encoder, rows = load_encoder(tiny_bert, "tiny"), Rows("train", np.arange(12))
    tokens = tokenize_task(data, load_tokenizer(tiny_bert), 16)
    head = linear_head(encoder, data, tokens, rows, gpu=False)
    model = Model(encoder, nn.ModuleDict())
    features = compute_features(model, tokens, (rows,), "mean", backend_here(gpu=False))
    expected = np.zeros((12, 3))
    linear = _fitted(features, rows, y, regression=False)
    expected[:, list(present)] = linear.predict_proba(_values(features, rows))
    found = head(features.values, 0.0).softmax(-1).detach().numpy()
    assert found == pytest.approx(expected, abs=1e-5)
