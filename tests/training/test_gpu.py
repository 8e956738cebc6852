"""Tests of training in bfloat16, on a GPU if there is one, otherwise by autocast on the CPU."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from sclsearch.training.engine import train
from tests.training.conftest import Work, WorkFor, all_losses, identical

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def deterministic_afterwards() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(mode=False)


@pytest.fixture
def in_bfloat16(work_for: WorkFor) -> WorkFor:
    """Return a function that makes the data of a short seed run in bfloat16."""

    def in_bfloat16(method: str, **fields: Any) -> Work:
        numerics = "cuda-bf16" if torch.cuda.is_available() else "cpu-bf16"
        return work_for(method, evaluate="end", **fields).but(max_updates=3, numerics=numerics)

    return in_bfloat16


def test_a_bfloat16_seed_run_is_reproducible_to_the_bit(in_bfloat16: WorkFor, method: str) -> None:
    work = in_bfloat16(method)
    assert identical(train(*work), train(*work))


def test_without_dropout_the_losses_are_near_those_of_float32(in_bfloat16: WorkFor) -> None:
    still = {"dropout": 0.0, "learning_rate": 1e-3, "weight_decay": 0.1, "max_grad_norm": 0.5}
    work = in_bfloat16("scl", **still)
    found, expected = (all_losses(train(*one)) for one in (work, work.but(numerics="cpu-fp32")))
    assert found != expected
    assert found == pytest.approx(expected, rel=0.05, abs=0.02)


def test_training_in_chunks_is_reproducible_to_the_bit(in_bfloat16: WorkFor) -> None:
    work = in_bfloat16("supcl-seq", chunk_tokens=128)
    chunked = train(*work)
    assert identical(chunked, train(*work))
    assert not identical(chunked, train(*in_bfloat16("supcl-seq")))
