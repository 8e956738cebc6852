"""Tests of exports of models that are trained after the search: refits and the linear model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import nn
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.exports.predictor import Refit, read_record
from sclsearch.exports.refit import refit_rows, refit_winner, restore_winner
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows
from sclsearch.reports.report import report
from sclsearch.store.runs import RunStore
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.metrics import evaluate, value
from sclsearch.training.baselines import _fitted, _values, linear_head
from sclsearch.training.data import tokenize_task
from sclsearch.training.device import backend_here
from sclsearch.training.engine import train as engine_train
from sclsearch.training.evaluation import TrainingResult, compute_features
from tests.exports.test_heads import probabilities
from tests.made_up import own_task, study_on
from tests.studies import same_weights

TEXTS = ["it was good", "it was bad and dull"]
SEEDS, EPOCHS = 3, 4
SETTINGS = {"epochs": EPOCHS, "batch_size": 8, "learning_rate": 1e-3, "pooling": "mean"}
Search = Callable[..., Path]


@pytest.fixture(scope="module")
def search(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Return a function that trains one configuration and returns the storage of study `mine`."""

    def search(method: str, *, unlabeled_rows: int = 0, **given: Any) -> Path:
        rows: list[tuple[object, ...]] = [
            (f"it was {word} {n}", word in {"good", "fine"})
            for n in range(20)
            for word in ("good", "bad", "fine", "dull")
        ]
        rows += [(f"a film and a {n}", None) for n in range(unlabeled_rows)]
        folder = tmp_path_factory.mktemp("refit")
        task = own_task(folder, rows, fractions=given.pop("fractions", (0.5, 0.25, 0.25)))
        given = {"seeds": SEEDS, "protocol": "plain", "settings": SETTINGS, **given}
        return study_on(tiny_bert, folder, task, method=method, **given)

    return search


@pytest.fixture(scope="module")
def scl(search: Search) -> Path:
    """Return the storage of a study of `scl`."""
    return search("scl")


def chosen_epochs(storage: Path) -> float:
    """Return the median epoch of the kept evaluations of the winner."""
    runs = list(RunStore(storage).all())
    assert len(runs) == SEEDS
    return median(float(one.evaluations[one.kept]["epoch"]) for one in runs)


def test_a_refit_trains_on_the_rows_of_the_search_for_the_epochs_that_validation_chose(
    scl: Path, tmp_path: Path
) -> None:
    given = ["export", "--storage", str(scl), "mine", str(tmp_path / "validation")]
    result = CliRunner().invoke(app, [*given, "--refit", "validation"])
    assert (result.exit_code, result.stderr) == (0, "Training the winner again …\n")
    assert "the exported model itself was not tested" in result.stdout
    records = {
        "validation": read_record(tmp_path / "validation"),
        "all": sclsearch.export("mine", tmp_path / "all", storage=scl, refit="all"),
    }
    epochs = chosen_epochs(scl)
    assert records["validation"].refit == Refit(60, 0, round(epochs * 8))
    assert records["all"].refit == Refit(60, 20, round(epochs * 10))
    for record in records.values():
        assert (record.validation, record.test) == (None, None)
        assert record.mean_test == report(scl, "mine").configurations[0].test_mean
    few, every = (load_file(tmp_path / rows / "parts.safetensors") for rows in records)
    assert not same_weights(few, every)
    labels = [one.label for one in sclsearch.load(tmp_path / "all").predict(TEXTS)]
    assert labels == ["True", "False"]
    card = (tmp_path / "all" / "README.md").read_text(encoding="utf-8")
    assert f"It was trained after the search on {records['all'].refit}. All scores below" in card
    assert "not measured on this model" in card


def test_the_epochs_of_a_refit_are_the_median_of_the_seeds(scl: Path) -> None:
    winner = restore_winner(report(scl, "mine"), None, None)
    runs = [replace(run, kept=kept) for run, kept in zip(winner.runs, (0, 1, -1), strict=True)]
    first, middle, last = (float(run.evaluations[run.kept]["epoch"]) for run in runs)
    assert first < middle < last
    ((changes, _),) = refit_winner(replace(winner, runs=runs), "validation", 1)
    assert changes["refit"].updates == round(middle * 8)


def test_the_splits_of_all_seeds_are_joined(search: Search) -> None:
    storage = search("ce", fractions=(0.75, 0, 0.25), folds=3)
    winner = restore_winner(report(storage, "mine"), None, None)
    data, splits, counts = refit_rows(winner, "all")
    assert counts == Refit(60, 20)
    texts = [texts for split in winner.study.data.splits.values() for texts in split.texts]
    assert sorted(data.splits["train"].texts) == sorted(texts)
    assert np.bincount(data.splits["train"].y).tolist() == [40, 40]
    assert len(splits.train.index) == 80
    assert not len(splits.validation.index) + len(splits.test.index)


def test_a_refit_of_several_seeds_is_an_ensemble(scl: Path, tmp_path: Path) -> None:
    record = sclsearch.export("mine", tmp_path / "m", storage=scl, refit="all", seeds=2)
    assert record.members == ("seed-0", "seed-1")
    assert not same_weights(
        *(load_file(tmp_path / "m" / n / "parts.safetensors") for n in record.members)
    )
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "Each of its 2 models was trained after the search on 60 training and" in card


def test_earlier_stages_keep_their_epochs(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    winner = restore_winner(report(search("supcl-seq", seeds=1), "mine"), None, None)
    results: list[TrainingResult] = []

    def train(*given: Any, **options: Any) -> TrainingResult:
        results.append(engine_train(*given, **options))
        return results[-1]

    monkeypatch.setattr("sclsearch.training.engine.train", train)
    ((changes, _),) = refit_winner(winner, "all", 1)
    (result,) = results
    assert {one["stage"]: one["update"] for one in result.stages} == {
        "contrast": EPOCHS * 10,
        "probe": changes["refit"].updates,
    }
    assert (result.evaluations, result.test) == ([], {})


def test_stages_without_labels_read_the_texts_without_a_label(search: Search) -> None:
    settings = {**SETTINGS, "epochs": 1, "post_epochs": 1}
    storage = search("tapt", unlabeled_rows=7, unlabeled="all", seeds=1, settings=settings)
    winner = restore_winner(report(storage, "mine"), None, None)
    for name, labeled in (("validation", 60), ("all", 80)):
        data, splits, _ = refit_rows(winner, name)  # type: ignore[arg-type]
        assert (data.splits["train"].labeled, data.splits["train"].unlabeled) == (labeled, 7)
        assert splits.unlabeled is not None
        assert (len(splits.train.index), len(splits.unlabeled.index)) == (labeled, labeled + 7)


def test_contradictory_options_are_errors(scl: Path, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"ensemble": True, "refit": "all"}, "ensemble: exports seed runs of the search"),
        ({"seeds": 2}, "seeds: counts the models that refit trains, got 2"),
        ({"refit": "test"}, "refit: .*, got 'test'"),
    ]
    for options, fault in cases:
        with pytest.raises(SclsearchError, match=fault):
            sclsearch.export("mine", tmp_path / "m", storage=scl, **options)


TASK = Task("own", "a test", ("bad", "good", "fine"), "accuracy")


@pytest.fixture(scope="module")
def linear(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage of the study `mine`, of three classes."""
    rows = [(f"it was {word} {n}", word) for n in range(12) for word in TASK.labels]
    folder = tmp_path_factory.mktemp("linear")
    return study_on(tiny_bert, folder, own_task(folder, rows))


def score_of(folder: Path, storage: Path) -> float:
    """Return the score of an export on the test rows of its replicate."""
    predictor, winner = sclsearch.load(folder), restore_winner(report(storage, "mine"), None, None)
    data, test = winner.study.data, winner.splits[predictor.record.replicate].test
    split, labels = data.splits[test.split], predictor.labels
    found = predictor.predict([split.texts[row] for row in test.index])
    numbers = [labels.index(str(one.label)) if labels else one.label for one in found]
    metric, likely = predictor.record.metric, np.ones((len(numbers), len(labels)))
    y = test.labels(data)
    return value(metric, evaluate(data.task, y, np.array(numbers, np.float64), likely, metric))


def test_the_export_predicts_like_the_baseline_in_every_library(
    linear: Path, tmp_path: Path
) -> None:
    record = sclsearch.export("mine", tmp_path / "m", storage=linear, baseline=True)
    line = report(linear, "mine").baselines[-1]
    best = line.seeds[line.reported[0]]
    assert (record.method, record.replicate) == ("logistic-regression", best.replicate)
    assert (record.validation, record.test) == (best.validation, best.test)
    assert record.mean_test == line.test_mean
    ours = sclsearch.load(tmp_path / "m").predict_proba(TEXTS)
    theirs = [[one[name] for name in record.labels] for one in probabilities(tmp_path / "m", TEXTS)]
    assert theirs == pytest.approx(ours, abs=1e-5)
    assert score_of(tmp_path / "m", linear) == best.test
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "not fine-tuned, and logistic regression on the frozen encoder for own." in card
    assert "the winner" not in card


def test_a_refit_of_the_baseline_has_all_rows(linear: Path, tmp_path: Path) -> None:
    folder, given = tmp_path / "m", {"storage": linear, "baseline": True}
    record = sclsearch.export("mine", folder, refit="all", **given)  # type: ignore[arg-type]
    assert record.refit == Refit(27, 9)
    data = restore_winner(report(linear, "mine"), None, None).study.data
    texts = [text for split in data.splits.values() for (text,) in split.texts]
    found = [one.label for one in sclsearch.load(folder).predict(texts)]
    # The third word of a text is its class.
    assert np.mean([one == t.split()[2] for one, t in zip(found, texts, strict=True)]) > 0.9


def test_a_regression_is_exported_as_ridge_regression(regression: Path, tmp_path: Path) -> None:
    record = sclsearch.export("mine", tmp_path / "m", storage=regression, baseline=True)
    assert (record.method, record.labels) == ("ridge-regression", ())
    assert score_of(tmp_path / "m", regression) == pytest.approx(record.test, abs=1e-4)
    with pytest.raises(SclsearchError, match="baseline: does not depend on a seed"):
        sclsearch.export("mine", tmp_path, storage=regression, baseline=True, ensemble=True)


def test_the_head_has_the_probabilities_of_scikit_learn_if_a_class_is_missing(
    tiny_bert: Path,
) -> None:
    y = np.array([0, 2] * 6, np.int64)
    texts = tuple((f"it was {TASK.labels[label]} {n}",) for n, label in enumerate(y))
    data = TaskData(TASK, {"train": Split(texts, y)}, "memory")
    encoder, rows = load_encoder(tiny_bert, "tiny"), Rows("train", np.arange(12))
    tokens = tokenize_task(data, load_tokenizer(tiny_bert), 16)
    head = linear_head(encoder, data, tokens, rows, gpu=False)
    model = Model(encoder, nn.ModuleDict())
    features = compute_features(model, tokens, (rows,), "mean", backend_here(gpu=False))
    expected = np.zeros((12, 3))
    linear = _fitted(features, rows, y, regression=False)
    expected[:, [0, 2]] = linear.predict_proba(_values(features, rows))
    found = head(features.values, 0.0).softmax(-1).detach().numpy()
    assert found == pytest.approx(expected, abs=1e-5)
