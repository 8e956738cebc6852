"""Evaluation of a seed run on its test rows, at the end of its training."""

from sclsearch.methods.base import Model
from sclsearch.training.device import Backend
from sclsearch.training.evaluation import Features, compute_features, evaluate_predictions, predict
from sclsearch.training.result import TrainingResult
from sclsearch.training.spec import TrainingData


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
    """Return the embeddings of all rows that a stage with a frozen encoder reads."""
    spec, stage = data.spec, data.spec.stages[position]
    last = position == len(spec.stages) - 1
    evaluated = (spec.splits.validation, spec.splits.test) if last else ()
    read = (data.rows_of(stage), *evaluated)
    return compute_features(model, data.tokens, read, str(stage.frozen_pooling), backend)
