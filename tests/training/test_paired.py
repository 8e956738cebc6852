"""Tests that all methods have the same row order and initial head in a replicate."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from sclsearch.methods.base import Model, Stage, Training
from sclsearch.methods.scl import CE
from sclsearch.tasks.base import Index
from sclsearch.training import engine
from sclsearch.training.data import batches_in_order, rows_of
from sclsearch.training.engine import train
from sclsearch.training.optimizer import adamw
from tests.training.conftest import Work, WorkFor

POOLED = ("scl", "supcl-seq", "simcse", "dropout-aug", "ce-cl", "cmlm", "tapt", "cssl")


@pytest.fixture
def head_of(work_for: WorkFor, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Tensor]]:
    """Return a function that returns the head's first weights in the last stage of a method."""
    seen: list[dict[str, Tensor]] = []

    def recorded(model: Model, stage: Stage) -> torch.optim.AdamW:
        seen.append(
            {name: t.detach().clone() for name, t in model.new_modules.state_dict().items()}
        )
        return adamw(model, stage)

    def head_of(method: str, number: int = 0) -> dict[str, Tensor]:
        train(*work_for(method, number, epochs=1, evaluate="end"))
        return {name: tensor for name, tensor in seen[-1].items() if name.startswith("head.")}

    monkeypatch.setattr(engine, "adamw", recorded)
    return head_of


@pytest.mark.parametrize(("pooling", "features"), [("mean", "mean"), ("head_hidden", "cls_raw")])
def test_scl_with_lambda_0_equals_cross_entropy_to_the_bit(
    work_for: WorkFor, pooling: str, features: str
) -> None:
    scl = train(*work_for("scl", lam=0.0, pooling=pooling, scl_features=features))
    ce = train(*work_for("ce", pooling=pooling))
    assert scl.predictions == ce.predictions
    assert all(torch.equal(tensor, ce.weights[name]) for name, tensor in scl.weights.items())


def order(work: Work, remaining: int = 0) -> Iterator[Index]:
    """Yield the positions of the batches of a stage that `remaining` stages follow."""
    stage = work.spec.stages[-1 - remaining]
    rows = rows_of(*work, stage).index
    return batches_in_order(
        len(rows), stage.training, remaining, work.spec.replicate.order, work.spec.max_updates
    )


def test_the_last_stages_of_all_methods_read_rows_in_the_same_order(
    work_for: WorkFor, method: str
) -> None:
    one, other = work_for("ce"), work_for(method)
    both = [list(order(work)) for work in (one, other)]
    shared = list(zip(*both, strict=False))
    assert len(shared) > 10
    assert all(np.array_equal(*batches) for batches in shared)


@pytest.mark.parametrize("method", POOLED)
def test_heads_of_one_form_have_the_same_initial_weights(
    head_of: Callable[..., dict[str, Tensor]], method: str
) -> None:
    one, other = head_of("ce"), head_of(method)
    assert one
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_replicates_differ_in_order_and_initial_weights(
    work_for: WorkFor, head_of: Callable[..., dict[str, Tensor]]
) -> None:
    works = [work_for("ce", number) for number in range(2)]
    one, other = (head_of("ce", number) for number in range(2))
    assert not torch.equal(one["head.out.weight"], other["head.out.weight"])
    orders = [np.concatenate(list(order(work))) for work in works]
    assert not np.array_equal(orders[0], orders[1])


def test_the_stages_of_a_method_differ_in_their_order(work_for: WorkFor) -> None:
    work = work_for("tapt")
    orders = [
        np.concatenate(list(order(work, remaining)))[:44]
        for remaining in range(len(work.spec.stages))
    ]
    assert all(not np.array_equal(*both) for both in pairwise(orders))


def test_the_name_of_a_stage_does_not_affect_the_training(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = train(*work_for("ce"))
    stages = CE.stages

    def renamed(self: CE, training: Training) -> tuple[Stage, ...]:
        return tuple(replace(stage, name="another") for stage in stages(self, training))

    monkeypatch.setattr(CE, "stages", renamed)
    assert train(*work_for("ce")).predictions == before.predictions
