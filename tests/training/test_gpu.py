"""As on a GPU, in bfloat16: a seed run repeats bit for bit, alone and in lockstep, and learns.

On a GPU where one is there, otherwise by the autocast of a CPU.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sclsearch.training.engine import train, train_block
from sclsearch.training.fastest import fastest_lockstep
from sclsearch.training.job import Work
from tests.training.blocks import Found, identical, numbers, seats, still

WorkFor = Callable[..., Work]

GPU = torch.cuda.is_available()
UPDATES = 3
# A CPU's autocast leaves convolutions as they are, and through vmap none is of two types.
CONVOLVING = {"leam", "lacon-fusion"}

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def deterministic_afterwards() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(mode=False)


@pytest.fixture
def in_bfloat16(work_for: WorkFor, monkeypatch: pytest.MonkeyPatch) -> WorkFor:
    """Returns what makes the work of a seed run that is trained in bfloat16, a few updates long."""

    def on_cpu(_: torch.device) -> torch.autocast:
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def in_bfloat16(*given: Any, **fields: Any) -> Work:
        work = short(work_for(*given, evaluate="end", **fields))
        if GPU:
            return replace(work, job=replace(work.job, numerics="cuda-bf16"))
        for module in ("alone", "evaluation", "lockstep"):
            monkeypatch.setattr(f"sclsearch.training.{module}.autocast", on_cpu)
        return work

    return in_bfloat16


def short(work: Work) -> Work:
    return replace(work, job=replace(work.job, most_updates=UPDATES))


def test_a_seed_run_repeats_bit_for_bit(in_bfloat16: WorkFor, method: str) -> None:
    work = in_bfloat16(method)
    assert identical(train(work), train(work))


def test_a_block_repeats_bit_for_bit(in_bfloat16: WorkFor, method: str) -> None:
    works = seats(in_bfloat16(method), 2)
    found: Found = [*train_block(works)]
    again: Found = [*train_block(works)]
    one_by_one = any(note.startswith("lockstep") for one in found for note in one.notes)
    assert one_by_one == (method in CONVOLVING and not GPU)
    assert all(identical(one, other) for one, other in zip(found, again, strict=True))


@pytest.mark.parametrize("block", [1, 3])
def test_without_noise_the_losses_are_those_of_float32_up_to_bfloat16(
    work_for: WorkFor, in_bfloat16: WorkFor, block: int
) -> None:
    fields = still("scl")
    expected = numbers(train(short(work_for("scl", evaluate="end", **fields))))
    work = in_bfloat16("scl", **fields)
    found: Found = [*train_block(seats(work, block) if block > 1 else [work])]
    assert numbers(found[0]) != expected
    assert numbers(found[0]) == pytest.approx(expected, rel=0.05, abs=0.02)


@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("method", ["ce", "supcl-seq"])
def test_all_that_a_linear_layer_returns_is_bfloat16(
    in_bfloat16: WorkFor, method: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[torch.dtype] = set()
    forward = nn.Linear.forward

    def noted(self: nn.Linear, x: Tensor) -> Tensor:
        y = forward(self, x)
        if torch.is_autocast_enabled(x.device.type):  # probes of the encoder are in float32
            seen.add(y.dtype)
        return y

    monkeypatch.setattr(nn.Linear, "forward", noted)
    work = in_bfloat16(method)
    assert len([*train_block(seats(work, block) if block > 1 else [work])]) == block
    assert seen == {torch.bfloat16}


def test_a_batch_in_chunks_repeats_bit_for_bit(
    in_bfloat16: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = in_bfloat16("supcl-seq")
    whole = train(work)
    for name, positions in (("LIMIT", 1), ("CHUNK", 128)):
        monkeypatch.setattr(f"sclsearch.encoders.gradient_cache.{name}", positions)
    chunked = train(work)
    assert identical(chunked, train(work))
    assert not identical(chunked, whole)


@pytest.mark.skipif(not GPU, reason="no GPU is there")
def test_the_fastest_size_is_one_of_those_that_were_measured(in_bfloat16: WorkFor) -> None:
    assert fastest_lockstep(in_bfloat16("ce"), 3, (2, 3, 4)) in {1, 2, 3}
