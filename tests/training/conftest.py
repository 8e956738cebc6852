"""Fixtures for training on a toy task whose class depends on one word."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from sclsearch.encoders.load import load_tokenizer
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import build
from sclsearch.protocols.base import all_seeds
from sclsearch.protocols.papers import plain_rows
from sclsearch.randomness import stream
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.paraphrases import paraphrase_source
from sclsearch.training.data import Tokens, tokenize_task
from sclsearch.training.engine import train
from sclsearch.training.evaluation import TrainingResult
from sclsearch.training.spec import SeedRunSpec
from tests.studies import same_weights


class Work(NamedTuple):
    """Specification of a seed run, and the tokens of each split."""

    spec: SeedRunSpec
    tokens: dict[str, Tokens]

    def but(self, **changes: Any) -> "Work":
        """Return the same work with another specification."""
        return self._replace(spec=replace(self.spec, **changes))


WorkFor = Callable[..., Work]
Trained = Callable[..., TrainingResult]

FIELDS = {"learning_rate": 1e-2, "batch_size": 8, "epochs": 6, "max_length": 16}
POST = {"post_learning_rate": 1e-2, "post_epochs": 2}
# Fields with which a random encoder of width 16 learns in a second; every method has an entry.
OWN: Mapping[str, Mapping[str, object]] = {
    "ce": {"pooling": "mean"},
    "scl": {"pooling": "mean", "scl_features": "mean", "lam": 0.5},
    "supcl-seq": {"pooling": "mean", "tau": 0.3, "probe_learning_rate": 0.01},
    "simcse": {"pooling": "mean", "tau": 0.3, "probe_learning_rate": 0.05},
    "dropout-aug": {"pooling": "mean"},
    "lacon": {"pooling": "mean", "tau": 0.3, "heads": 4},
    "lacon-fusion": {"tau": 0.3, "heads": 4, "fusion_kernel": 3},
    "leam": {"kernel": 3, "mlp_dropout": 0.0},
    "lsan": {"attention_dim": 8, "epochs": 10},
    "ce-cl": {"pooling": "mean", "tau": 0.3, "alpha": 0.15},
    "setfit": {"learning_rate": 3e-3, "epochs": 10},
    "cmlm": {"pooling": "mean", "contrast_pooling": "mean", **POST, "epochs": 10},
    "tapt": {"pooling": "mean", **POST},
    "cssl": {"pooling": "mean", "contrast_pooling": "mean", **POST, "post_learning_rate": 1e-3},
}


@pytest.fixture(scope="session")
def toy() -> TaskData:
    """Return short texts; three of five have the class `good`."""
    splits = {}
    for name, rows in (("train", 44), ("validation", 30), ("test", 30)):
        rng = stream(0, name)
        y, texts = rng.permutation(np.arange(rows) % 5 > 1).astype(np.int64), []
        for good in y:
            words = [*rng.choice(["the film was", "it was a", "very", "and"], rng.integers(1, 4))]
            words.insert(len(words) if rng.random() < 0.5 else 0, "good" if good else "bad")
            texts.append((" ".join(words),))
        splits[name] = Split(tuple(texts), y)
    return TaskData(Task("toy", "one word", ("bad", "good"), "accuracy"), splits, "memory")


@pytest.fixture(scope="session")
def work_for(toy: TaskData, tiny_bert: Path) -> WorkFor:
    """Return a function that makes the training data of a seed run on the toy task."""

    def work_for(
        method: str = "ce", number: int = 0, *, data: TaskData = toy, **changes: Any
    ) -> Work:
        base = {"splits": plain_rows(data), "evaluate": "epoch", "keep": "best", "model": tiny_bert}
        given = {name: changes.pop(name, one) for name, one in base.items()}
        fields = {**FIELDS, **OWN[method], **changes}
        built, training = build(method_class(method), fields, "toy")
        spec = SeedRunSpec(
            task=data.task,
            data_digest=data.digest,
            metric=data.task.metric,
            method_name=method,
            method=built,
            training=training,
            replicate=all_seeds(number),
            model_name="tiny",
            model_digest="e" * 64,
            numerics="cpu-fp32",
            **given,
        )
        tokenizer = load_tokenizer(spec.model)
        views = paraphrase_source(None, 2).views(data.splits["train"].texts)
        read = views if any(stage.reads == "paraphrases" for stage in spec.stages) else None
        return Work(spec, tokenize_task(data, tokenizer, training.max_length, read))

    return work_for


@pytest.fixture(scope="session")
def trained(work_for: WorkFor) -> Trained:
    """Return a function that trains a method, once per method and replicate."""
    return cache(lambda method, number=0: train(*work_for(method, number)))


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def identical(one: TrainingResult, other: TrainingResult) -> bool:
    """Return whether the records and the weights of two results are equal to the bit."""
    first, second = ((r.stages, r.evaluations, r.kept, r.test, r.predictions) for r in (one, other))
    return first == second and same_weights(one.weights, other.weights)
