"""Tests that all methods have the same row order and initial head in a replicate."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sclsearch.methods.base import Model, Stage
from sclsearch.training import engine
from sclsearch.training.data import batches_in_order, rows_of
from sclsearch.training.engine import train
from sclsearch.training.optimizer import adamw
from tests.training.conftest import Work, WorkFor, same_weights

POOLED = ("scl", "supcl-seq", "simcse", "dropout-aug", "ce-cl", "cmlm", "tapt", "cssl")


@pytest.fixture
def head_of(work_for: WorkFor, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Tensor]]:
    """Return a function that returns the head's first weights in a stage of a method."""
    seen: list[dict[str, Tensor]] = []

    def recorded(model: Model, stage: Stage) -> torch.optim.AdamW:
        new = model.new_modules.state_dict()
        seen.append({n: t.detach().clone() for n, t in new.items() if n.startswith("head.")})
        return adamw(model, stage)

    def head_of(method: str, number: int = 0, stage: int = -1, **fields: Any) -> dict[str, Tensor]:
        seen.clear()
        train(*work_for(method, number, epochs=1, evaluate="end", **fields))
        return seen[stage]

    monkeypatch.setattr(engine, "adamw", recorded)
    return head_of


@pytest.mark.parametrize(("pooling", "features"), [("mean", "mean"), ("head_hidden", "cls_raw")])
def test_scl_with_lambda_0_equals_cross_entropy_to_the_bit(
    work_for: WorkFor, pooling: str, features: str
) -> None:
    scl = train(*work_for("scl", lam=0.0, pooling=pooling, scl_features=features))
    ce = train(*work_for("ce", pooling=pooling))
    assert scl.predictions == ce.predictions
    assert same_weights(scl.weights, ce.weights)


def order(work: Work, remaining: int = 0) -> list[list[int]]:
    """Return the positions of the batches of a stage that `remaining` stages follow."""
    stage, seed = work.spec.stages[-1 - remaining], work.spec.replicate.order
    rows = len(rows_of(*work, stage).index)
    found = batches_in_order(rows, stage.training, remaining, seed, work.spec.max_updates)
    return [batch.tolist() for batch in found]


def test_the_last_stages_of_all_methods_read_rows_in_the_same_order(
    work_for: WorkFor, method: str
) -> None:
    shared = list(zip(order(work_for("ce")), order(work_for(method)), strict=False))
    assert len(shared) > 10
    assert all(one == other for one, other in shared)


def test_replicates_and_the_stages_of_a_method_differ_in_their_order(work_for: WorkFor) -> None:
    work = work_for("tapt")
    stages = [order(work, remaining) for remaining in range(len(work.spec.stages))]
    orders = [*stages, order(work_for("tapt", 1))]
    firsts = [np.concatenate(one)[:44].tolist() for one in orders]
    assert all(one != other for one, other in pairwise([*firsts, firsts[0]]))


@pytest.mark.parametrize("method", POOLED)
def test_heads_of_one_form_have_the_same_initial_weights_in_a_replicate(
    head_of: Callable[..., dict[str, Tensor]], method: str
) -> None:
    assert same_weights(head_of("ce"), head_of(method))
    assert not same_weights(head_of("ce"), head_of(method, 1))
