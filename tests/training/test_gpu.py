"""Tests of training in bfloat16, on a GPU if there is one, otherwise by autocast on the CPU."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from sclsearch.training.engine import train
from sclsearch.training.evaluation import TrainingResult
from tests.training.conftest import Work, WorkFor

GPU = torch.cuda.is_available()
UPDATES = 3
STILL: dict[str, object] = {
    **{"dropout": 0.0, "learning_rate": 1e-3, "weight_decay": 0.1},
    **{"max_grad_norm": 0.5, "epochs": 2},
}

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def deterministic_afterwards() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(mode=False)


@pytest.fixture
def in_bfloat16(work_for: WorkFor) -> WorkFor:
    """Return a function that makes the data of a short seed run in bfloat16."""

    def in_bfloat16(*given: Any, **fields: Any) -> Work:
        work = limited(work_for(*given, evaluate="end", **fields))
        return work._replace(spec=replace(work.spec, numerics="cuda-bf16" if GPU else "cpu-bf16"))

    return in_bfloat16


def limited(work: Work) -> Work:
    return work._replace(spec=replace(work.spec, max_updates=UPDATES))


def numbers(result: TrainingResult) -> list[float]:
    """Return all losses of a result, in order."""
    records: list[Any] = [*result.stages, *result.evaluations]
    return [loss for record in records for loss in record["loss"].values()]


def identical(one: TrainingResult, other: TrainingResult) -> bool:
    scores = [(r.stages, r.evaluations, r.kept, r.test, r.predictions) for r in (one, other)]
    same = [torch.equal(tensor, other.weights[name]) for name, tensor in one.weights.items()]
    return scores[0] == scores[1] and all(same)


def test_a_bfloat16_seed_run_is_reproducible_to_the_bit(in_bfloat16: WorkFor, method: str) -> None:
    work = in_bfloat16(method)
    assert identical(train(*work), train(*work))


def test_without_dropout_the_losses_are_near_those_of_float32(
    work_for: WorkFor, in_bfloat16: WorkFor
) -> None:
    expected = numbers(train(*limited(work_for("scl", evaluate="end", **STILL))))
    found = numbers(train(*in_bfloat16("scl", **STILL)))
    assert found != expected
    assert found == pytest.approx(expected, rel=0.05, abs=0.02)


def test_training_in_chunks_is_reproducible_to_the_bit(in_bfloat16: WorkFor) -> None:
    work = in_bfloat16("supcl-seq", chunk_tokens=128)
    chunked = train(*work)
    assert identical(chunked, train(*work))
    assert not identical(chunked, train(*in_bfloat16("supcl-seq")))
