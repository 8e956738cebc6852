"""On a GPU: a seed run repeats bit for bit, alone and in lockstep, and learns as on a CPU."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from sclsearch.training.engine import train, train_block
from sclsearch.training.fastest import fastest_lockstep
from sclsearch.training.job import Work
from tests.training.blocks import Found, identical, numbers, seats, still

WorkFor = Callable[..., Work]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is there"),
]


@pytest.fixture(autouse=True)
def deterministic_afterwards() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(mode=False)


@pytest.fixture
def on_gpu(work_for: WorkFor) -> WorkFor:
    """Returns what makes the work of a seed run that is trained on the GPU."""

    def on_gpu(*given: Any, **fields: Any) -> Work:
        work = work_for(*given, **fields)
        return replace(work, job=replace(work.job, numerics="cuda-bf16"))

    return on_gpu


def test_a_seed_run_repeats_bit_for_bit(on_gpu: WorkFor, method: str) -> None:
    work = on_gpu(method, epochs=2)
    assert identical(train(work), train(work))


def test_a_block_repeats_bit_for_bit(on_gpu: WorkFor, method: str) -> None:
    works = seats(on_gpu(method, epochs=2), 3)
    found: Found = [*train_block(works)]
    again: Found = [*train_block(works)]
    assert not any(note.startswith("lockstep") for one in found for note in one.notes)
    assert all(identical(one, other) for one, other in zip(found, again, strict=True))


@pytest.mark.parametrize("block", [1, 3])
def test_without_noise_the_losses_are_those_of_a_cpu_up_to_bfloat16(
    work_for: WorkFor, on_gpu: WorkFor, block: int
) -> None:
    fields = still("scl")
    expected = numbers(train(work_for("scl", **fields)))
    work = on_gpu("scl", **fields)
    found: Found = [*train_block(seats(work, block) if block > 1 else [work])]
    assert numbers(found[0]) == pytest.approx(expected, rel=0.05, abs=0.02)


def test_a_batch_in_chunks_repeats_bit_for_bit(
    on_gpu: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.training.job.LIMIT", 1)
    work = on_gpu("supcl-seq", epochs=1)
    assert identical(train(work), train(work))


def test_the_fastest_size_is_one_of_those_that_were_measured(on_gpu: WorkFor) -> None:
    assert fastest_lockstep(on_gpu("ce"), 3, (2, 3, 4)) in {1, 2, 3}
