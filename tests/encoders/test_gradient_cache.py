"""Tests of states and gradients of a batch that is processed in chunks."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from sclsearch.encoders import savings
from sclsearch.encoders.encoder import Encoder
from sclsearch.objectives import sup_con
from tests.encoders.conftest import Inputs

RATES = (0.0, 0.1, 0.4)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set limits that divide three views of nine texts of twelve tokens into five chunks."""
    monkeypatch.setattr(savings, "LIMIT", 100)
    monkeypatch.setattr(savings, "CHUNK", 80)


@pytest.fixture
def texts() -> Inputs:
    """Return ids, mask and types of nine texts of 1 to 12 tokens."""
    mask = torch.arange(12) < torch.tensor([3, 12, 1, 7, 2, 12, 12, 5, 9])[:, None]
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(2))
    return torch.where(mask, ids, 0), mask, torch.zeros_like(ids)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that turns off division, or recomputation of chunks."""

    def whole(*, in_chunks: bool) -> None:
        if in_chunks:
            kept = lambda forward, *tensors, use_reentrant: forward(*tensors)  # noqa: E731
            monkeypatch.setattr(savings, "checkpoint", kept)
        else:
            monkeypatch.setattr(savings, "LIMIT", 10**9)

    return whole


def contrasted(
    encoder: Encoder,
    texts: Inputs,
    rates: tuple[float, ...],
    between: Callable[[], object] = lambda: None,
) -> tuple[Tensor, Tensor]:
    """Return the states of all rows, and the gradient of a contrastive loss."""
    torch.manual_seed(3)
    encoder.zero_grad()
    states = encoder.hidden(*texts, rates)  # [V * B, T, d]
    y = (torch.arange(len(texts[0])) % 2).repeat(len(rates))
    loss = sup_con(encoder.pool(states, texts[1], "mean"), y, tau=0.1)
    between()
    loss.backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    return states.detach()[texts[1].repeat(len(rates), 1)], torch.cat(grads)


def relative_distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def test_without_dropout_states_and_gradients_equal_those_of_the_whole_batch(
    encoder: Encoder, texts: Inputs, whole: Callable[..., None]
) -> None:
    encoder.train()
    states, gradient = contrasted(encoder, texts, (0.0, 0.0))
    whole(in_chunks=False)
    expected_states, expected = contrasted(encoder, texts, (0.0, 0.0))
    torch.testing.assert_close(states, expected_states)
    assert relative_distance(gradient, expected) < 1e-5


def test_the_second_forward_pass_of_a_chunk_has_the_same_dropout(
    encoder: Encoder, texts: Inputs, whole: Callable[..., None]
) -> None:
    encoder.train()
    states, gradient = contrasted(encoder, texts, RATES)
    whole(in_chunks=True)
    expected_states, expected = contrasted(encoder, texts, RATES)
    assert torch.equal(states, expected_states)
    assert relative_distance(gradient, expected) < 1e-5


def test_the_second_forward_pass_restores_the_dropout_rates(bert: Encoder, texts: Inputs) -> None:
    bert.train()
    _, expected = contrasted(bert, texts, RATES)

    def another_batch() -> None:
        with torch.no_grad():
            bert.hidden(*texts, (0.5,))

    _, gradient = contrasted(bert, texts, RATES, another_batch)
    assert torch.equal(gradient, expected)


def test_the_second_forward_pass_does_not_advance_the_random_state(
    bert: Encoder, texts: Inputs, whole: Callable[..., None]
) -> None:
    bert.train()
    contrasted(bert, texts, RATES)
    found = torch.rand(3)
    whole(in_chunks=True)
    contrasted(bert, texts, RATES)
    assert torch.equal(found, torch.rand(3))


def test_only_the_states_of_a_chunk_are_kept(
    bert: Encoder, texts: Inputs, whole: Callable[..., None]
) -> None:
    bert.train()

    def kept() -> int:
        sizes: list[int] = []

        def note(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        with saved_tensors_hooks(note, lambda tensor: tensor):
            bert.hidden(*texts, RATES)
        return sum(sizes)

    chunked = kept()
    whole(in_chunks=False)
    assert chunked < 0.01 * kept()


@pytest.mark.parametrize("why", ["no gradient", "frozen", "small"])
def test_batches_without_gradient_and_small_ones_are_not_divided(
    bert: Encoder, texts: Inputs, why: str
) -> None:
    bert.train()
    seen: list[int] = []
    bert.model.register_forward_hook(lambda *_: seen.append(0))
    ids, mask, types = (tensor[:8] if why == "small" else tensor for tensor in texts)
    bert.requires_grad_(why != "frozen")
    with torch.set_grad_enabled(why != "no gradient"):
        bert.hidden(ids, mask, types, (0.1,) if why == "small" else RATES)
    assert len(seen) == 1


def test_a_setting_divides_smaller_batches(bert: Encoder, texts: Inputs) -> None:
    bert.train().chunk_tokens = 24
    seen: list[int] = []
    bert.model.register_forward_hook(lambda *_: seen.append(0))
    ids, mask, types = (tensor[:4] for tensor in texts)
    bert.hidden(ids, mask, types, (0.1,))  # 48 tokens
    assert len(seen) == 2


def test_a_single_text_is_never_divided(bert: Encoder) -> None:
    bert.chunk_tokens = 1
    ids = torch.full((2, 40), 7)
    seen: list[int] = []
    bert.train().model.register_forward_hook(lambda *_: seen.append(0))
    states = bert.hidden(ids, torch.ones_like(ids).bool(), torch.zeros_like(ids), (0.0, 0.1))
    assert len(seen) == 2
    assert states.shape == (4, 40, bert.width)
