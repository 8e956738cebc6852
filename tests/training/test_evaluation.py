"""Tests of evaluations, of the evaluation that is kept, of stored weights, and of baselines."""

import errno
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, log_loss
from sklearn.preprocessing import StandardScaler

from sclsearch.canonical import digest
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows, Splits
from sclsearch.tasks import load_task
from sclsearch.tasks.metrics import value
from sclsearch.training import baselines as module
from sclsearch.training.baselines import LOGISTIC, MAJORITY, baselines
from sclsearch.training.data import collate, tokenize_task
from sclsearch.training.device import Backend
from sclsearch.training.engine import train
from sclsearch.training.evaluation import (
    NonFiniteLossError,
    TrainingResult,
    evaluate_rows,
    save_tensors,
    save_weights,
)
from tests.studies import same_weights
from tests.training.conftest import Trained, Work, WorkFor

CPU = torch.device("cpu")


def rebuilt(work: Work, result: TrainingResult) -> Model:
    """Return the model with the weights of a seed run."""
    encoder = load_encoder(work.spec.model, work.spec.model_name)
    modules = work.spec.stages[-1].new_modules(encoder, len(work.spec.task.labels))
    model = Model(encoder, modules)
    model.load_state_dict(result.weights)
    return model.eval()


def test_the_weights_reproduce_the_stored_evaluations_predictions_and_probabilities(
    work_for: WorkFor, trained: Trained, method: str
) -> None:
    work, result = work_for(method), trained(method)
    model, splits = rebuilt(work, result), work.spec.splits
    kept: Any = result.evaluations[result.kept]
    for name, stored in (("validation", kept["validation"]), ("test", result.test)):
        rows = splits.rows[name]
        found, predictions, _ = evaluate_rows(*work, rows, model, None, Backend(CPU))
        assert (found, predictions) == (stored, result.predictions[name])
        tokens, probabilities = work.tokens[rows.split], result.probabilities[name]
        with torch.inference_mode():
            scores = work.spec.method.scores(model, collate(tokens, rows.index, (0.0,), CPU))
            expected = work.spec.method.probabilities(scores).numpy()
        np.testing.assert_allclose(probabilities, expected, rtol=1e-4, atol=1e-5)
        exact = probabilities.astype(np.float64)
        exact /= exact.sum(1, keepdims=True)
        loss = log_loss(tokens.y[rows.index], exact, labels=[0, 1])
        assert stored["log_loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("learning_rate", [1e-12, 0.1])
def test_the_latest_evaluation_with_the_best_score_and_then_the_lowest_loss_is_kept(
    work_for: WorkFor, keep: str, learning_rate: float
) -> None:
    work = work_for("ce", keep=keep, evaluate=1, epochs=8, learning_rate=learning_rate)
    result = train(*work)
    evaluations: list[Any] = [one["validation"] for one in result.evaluations]
    ranks = [(value("accuracy", one), -one["log_loss"]) for one in evaluations]
    best = max(n for n, rank in enumerate(ranks) if rank == max(ranks))
    assert result.kept == (47 if keep == "last" else best)
    assert (result.kept < 47) == (keep == "best" and learning_rate == 0.1)
    model, rows = rebuilt(work, result), work.spec.splits.validation
    found, _, _ = evaluate_rows(*work, rows, model, None, Backend(CPU))
    assert found == evaluations[result.kept]
    with torch.no_grad():
        model.get_parameter("new_modules.head.out.bias").fill_(float("nan"))
    with pytest.raises(NonFiniteLossError, match=r"^validation: scores are NaN or infinite"):
        evaluate_rows(*work, rows, model, None, Backend(CPU))


def test_stored_weights_and_identity_are_exact(
    tmp_path: Path, work_for: WorkFor, trained: Trained
) -> None:
    spec, result = work_for("lacon").spec, trained("lacon")
    path = tmp_path / "weights.safetensors"
    save_weights(path, result, spec)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert same_weights(stored, result.weights)
    assert {name.partition(".")[0] for name in stored} == {"encoder", "new_modules"}
    assert metadata["key"] == spec.key == digest(json.loads(metadata["identity"]))


def test_a_full_disk_raises_an_os_error_with_the_path(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            save_tensors(tmp_path / "weights.safetensors", {"a": torch.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EIO
    assert caught.value.filename == str(tmp_path / "weights.safetensors")


def test_both_baselines_use_the_rows_of_the_replicate_and_the_linear_one_few_rows_on_a_cpu(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, tokenizer = load_task("demo"), load_tokenizer(tiny_bert)
    encoder, tokens = load_encoder(tiny_bert, "t"), tokenize_task(data, tokenizer, 16)
    train, validation, test = (
        Rows(name, np.arange(rows))
        for name, rows in (("train", 30), ("validation", 40), ("test", 50))
    )
    splits = {0: Splits(train=train, validation=validation, test=test)}
    found = baselines(data, tokens, splits, encoder, data.task.metric)[0]
    y, true = train.labels(data), test.labels(data)
    expected = np.zeros((2, 2), int)
    expected[:, np.bincount(y).argmax()] = np.bincount(true)
    assert found[MAJORITY]["test"]["confusion"] == expected.tolist()

    def features(rows: Rows) -> Any:
        read = []
        for number in rows.index:
            (text,) = data.splits[rows.split].texts[number]
            given = tokenizer(text, truncation=True, max_length=16, return_tensors="pt")
            with torch.no_grad():
                read.append(encoder.cpu().model(**given).last_hidden_state[0].mean(0).double())
        return torch.stack(read).numpy()

    scaler = StandardScaler().fit(features(train))
    linear = LogisticRegression(max_iter=1000).fit(scaler.transform(features(train)), y)
    predicted = linear.predict(scaler.transform(features(test)))
    assert found[LOGISTIC]["test"]["confusion"] == confusion_matrix(true, predicted).tolist()
    monkeypatch.setattr(module, "MOST_ROWS_ON_CPU", 100)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert baselines(data, tokens, splits, encoder, data.task.metric)[0].keys() == {MAJORITY}
