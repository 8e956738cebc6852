"""Blocks of replicates, and the same replicates each by itself."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from sclsearch.protocols.replicates import all_seeds, seated
from sclsearch.training.engine import train
from sclsearch.training.job import Work
from sclsearch.training.outcome import Outcome

Found = list[Any]

STILL: dict[str, object] = {"dropout": 0.0, "learning_rate": 1e-3, "weight_decay": 0.1}
# A softmax does not see them: what they get is rounding, of which AdamW makes whole steps.
UNSEEN = ("key.bias", "k_lin.bias", "attention.conv.bias")
VIEWS = {"supcl-seq", "simcse", "dropout-aug"}


def still(method: str) -> dict[str, object]:
    """Returns what takes all noise from a method that masks no tokens."""
    own: dict[str, object] = {"dropouts": (0.0, 0.0)} if method in VIEWS else {}
    if method == "leam":
        own["mlp_dropout"] = 0.0
    return {**STILL, "max_grad_norm": 0.5, "epochs": 2, **own}


def seats(work: Work, block: int) -> list[Work]:
    """Returns a work for each replicate of the first block of S."""
    return [
        replace(work, job=replace(work.job, replicate=seated(all_seeds, number, block)))
        for number in range(block)
    ]


def alone(works: Sequence[Work]) -> list[Outcome]:
    return [
        train(replace(w, job=replace(w.job, replicate=replace(w.job.replicate, seat=None))))
        for w in works
    ]


def numbers(outcome: Outcome) -> list[float]:
    """Returns all losses of an outcome, in order."""
    notes: list[Any] = [*outcome.stages, *outcome.evaluations]
    return [loss for note in notes for loss in note["loss"].values()]


def assert_alike(one: Outcome, other: Outcome, atol: float = 2e-4) -> None:
    assert numbers(one) == pytest.approx(numbers(other), rel=1e-3, abs=1e-4)
    assert one.weights.keys() == other.weights.keys()
    for name in one.weights.keys() - {name for name in one.weights if name.endswith(UNSEEN)}:
        tensor = one.weights[name]
        torch.testing.assert_close(tensor, other.weights[name], atol=atol, rtol=1e-3, msg=name)
    assert one.test == other.test
    assert one.kept == other.kept


def identical(one: Outcome, other: Outcome) -> bool:
    figures = [(o.stages, o.evaluations, o.kept, o.test, o.predictions) for o in (one, other)]
    same = [torch.equal(tensor, other.weights[name]) for name, tensor in one.weights.items()]
    return figures[0] == figures[1] and all(same)
