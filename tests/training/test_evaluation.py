"""Tests of predictions, probabilities and cached features."""

from typing import Any

import numpy as np
import pytest
import torch

from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Model
from sclsearch.methods.scl import CE
from sclsearch.methods.supcl_seq import SupCLSeq
from sclsearch.tasks.base import TaskData
from sclsearch.training.data import collate
from sclsearch.training.device import Backend
from sclsearch.training.engine import train
from sclsearch.training.evaluation import (
    NonFiniteLossError,
    compute_features,
    evaluate_predictions,
    predict,
)
from tests.training.conftest import Rebuilt, Trained, WorkFor

CPU = torch.device("cpu")


def test_predictions_are_in_row_order(
    work_for: WorkFor, trained: Trained, rebuilt: Rebuilt, method: str
) -> None:
    work = work_for(method)
    model = rebuilt(work, trained(method))
    rows = work.spec.splits.validation
    predictions, probabilities = predict(
        model, work.spec.method, work.tokens, rows, None, Backend(CPU)
    )
    assert predictions.dtype == np.int64
    batch = collate(work.tokens.splits[rows.split], rows.index, 0, (0.0,), CPU)
    with torch.inference_mode():
        expected = work.spec.method.scores(model, batch).argmax(1)
    assert predictions.tolist() == expected.tolist()
    counts: Any = evaluate_predictions(work.spec, work.tokens, rows, predictions, probabilities)[
        "confusion"
    ]
    hits = int((predictions == work.tokens.splits[rows.split].y[rows.index]).sum())
    assert counts[0][0] + counts[1][1] == hits


def test_probabilities_are_those_of_the_methods_scores(
    work_for: WorkFor, trained: Trained, rebuilt: Rebuilt, method: str
) -> None:
    work, result = work_for(method), trained(method)
    rows = work.spec.splits.test
    model = rebuilt(work, result)
    batch = collate(work.tokens.splits["test"], rows.index, 0, (0.0,), CPU)
    with torch.inference_mode():
        scores = work.spec.method.scores(model, batch)
        expected = work.spec.method.probabilities(scores).numpy()
    found = result.probabilities["test"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_probabilities_in_regression_have_no_classes(
    work_for: WorkFor, toy_scores: TaskData
) -> None:
    result = train(work_for("ce", data=toy_scores, epochs=1))
    assert result.probabilities["test"].shape == (len(result.predictions["test"]), 0)


@pytest.mark.parametrize("kind", ["classes", "scores"])
def test_nan_scores_raise_an_error(
    work_for: WorkFor, toy: TaskData, toy_scores: TaskData, kind: str
) -> None:
    work = work_for("ce", data={"classes": toy, "scores": toy_scores}[kind])
    encoder = load_encoder(work.spec.model, work.spec.model_name)
    model = Model(encoder, CE().new_modules(encoder, work.tokens.classes))
    with torch.no_grad():
        model.get_parameter("new_modules.head.out.bias").fill_(float("nan"))
    with pytest.raises(NonFiniteLossError, match=r"^validation: scores are NaN or infinite"):
        predict(
            model, work.spec.method, work.tokens, work.spec.splits.validation, None, Backend(CPU)
        )


def test_features_are_the_embeddings_of_their_rows_in_evaluation_mode(work_for: WorkFor) -> None:
    work = work_for("supcl-seq")
    encoder = load_encoder(work.spec.model, work.spec.model_name)
    model = Model(encoder, SupCLSeq().new_modules(encoder, 2))
    splits = work.spec.splits
    rows = (splits.train, splits.validation, splits.test, splits.validation)
    features = compute_features(model.train(), work.tokens, rows, "mean", Backend(CPU))
    assert features.values.shape == (44 + 30 + 30, 16)
    assert not features.values.requires_grad
    for part in rows:
        tokens = work.tokens.splits[part.split]
        index = part.index[::-3].copy()
        batch = features.batch(tokens, part.split, index)
        with torch.inference_mode():
            own = model.eval().embed(collate(tokens, index, 0, (0.0,), CPU), "mean")
        assert batch.features is not None
        torch.testing.assert_close(batch.features, own, rtol=1e-4, atol=1e-5)
        assert batch.y.tolist() == tokens.y[index].tolist()
