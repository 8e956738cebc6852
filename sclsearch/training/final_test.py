"""Evaluation of a seed run on its test rows: at the end of its training, or later."""

import time
from collections.abc import Mapping

from torch import Tensor

from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Model
from sclsearch.training.device import Backend, backend_for
from sclsearch.training.evaluation import Features, compute_features, evaluate_predictions, predict
from sclsearch.training.result import TrainingResult
from sclsearch.training.spec import TrainingData


def evaluate_test(data: TrainingData, weights: Mapping[str, Tensor]) -> TrainingResult:
    """Evaluate a trained seed run on its test rows.

    On the machine that trained it, the result is the one that training itself would have had.

    Args:
        data: The seed run and the data that it reads.
        weights: Its weights, as in `TrainingResult.weights`.

    Returns:
        A result that has `test`, its predictions, its probabilities and `seconds` alone.
    """
    started, spec = time.perf_counter(), data.spec
    backend, stage = backend_for(spec.numerics), spec.stages[-1]
    encoder = load_encoder(spec.model, spec.model_name, backend.device)
    model = Model(encoder, stage.new_modules(encoder, data.tokens.classes))
    model.load_state_dict(weights)
    model.to(backend.device)
    last = len(spec.stages) - 1
    features = features_of(data, last, model, backend) if stage.frozen_pooling is not None else None
    result = TrainingResult()
    add_test(result, data, model, features, backend)
    result.seconds = time.perf_counter() - started
    return result


def add_test(
    result: TrainingResult,
    data: TrainingData,
    model: Model,
    features: Features | None,
    backend: Backend,
) -> None:
    """Evaluate a model on the test rows; add scores, predictions and probabilities to a result."""
    spec = data.spec
    predictions, probabilities = predict(
        model, spec.method, data.tokens, spec.splits.test, features, backend
    )
    result.predictions["test"] = predictions.tolist()
    result.probabilities["test"] = probabilities
    result.test = evaluate_predictions(
        spec, data.tokens, spec.splits.test, predictions, probabilities
    )


def features_of(data: TrainingData, position: int, model: Model, backend: Backend) -> Features:
    """Return the embeddings of all rows that a stage with a frozen encoder reads.

    A later test computes them all again: in other batches the last digits would differ.
    """
    spec, stage = data.spec, data.spec.stages[position]
    last = position == len(spec.stages) - 1
    evaluated = (spec.splits.validation, spec.splits.test) if last else ()
    read = (data.rows_of(stage), *evaluated)
    return compute_features(model, data.tokens, read, str(stage.frozen_pooling), backend)
