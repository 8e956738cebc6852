"""Tests of states and gradients of a batch that is processed in chunks."""

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from sclsearch.encoders import savings
from sclsearch.encoders.encoder import Encoder
from sclsearch.objectives import sup_con
from tests.encoders.conftest import Inputs

Rates = tuple[float, ...]

RATES = (0.0, 0.1, 0.4)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set limits that divide three views of nine texts of twelve tokens into five chunks."""
    monkeypatch.setattr(savings, "LIMIT", 100)
    monkeypatch.setattr(savings, "CHUNK", 80)


def contrasted(encoder: Encoder, texts: Inputs, rates: Rates) -> tuple[Tensor, Tensor, Tensor]:
    """Return the states of all rows, the gradient of a contrast, and the next random number."""
    torch.manual_seed(3)
    encoder.zero_grad()
    states = encoder.train().hidden(*texts, rates)  # [V * B, T, d]
    y = (torch.arange(len(texts[0])) % 2).repeat(len(rates))
    loss = sup_con(encoder.pool(states, texts[1], "mean"), y, tau=0.1)
    encoder.hidden(*texts, (0.5,))  # the second forward pass needs the rates of this batch
    loss.backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    tokens = texts[1].repeat(len(rates), 1)
    return states.detach()[tokens], torch.cat(grads), torch.rand(1)


def relative_distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def test_without_dropout_states_and_gradients_equal_those_of_the_whole_batch(
    encoder: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, gradient, _ = contrasted(encoder, inputs, (0.0, 0.0))
    monkeypatch.setattr(savings, "LIMIT", 10**9)
    expected_states, expected, _ = contrasted(encoder, inputs, (0.0, 0.0))
    torch.testing.assert_close(states, expected_states)
    assert relative_distance(gradient, expected) < 1e-5


def test_the_second_forward_pass_of_a_chunk_has_the_same_dropout(
    encoder: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, gradient, after = contrasted(encoder, inputs, RATES)
    monkeypatch.setattr(savings, "checkpoint", lambda forward, *given, **_: forward(*given))
    expected_states, expected, expected_after = contrasted(encoder, inputs, RATES)
    assert torch.equal(states, expected_states)
    assert relative_distance(gradient, expected) < 1e-5
    assert torch.equal(after, expected_after)


def test_only_the_states_of_a_chunk_are_kept(
    bert: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept() -> int:
        sizes: list[int] = []

        def note(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        with saved_tensors_hooks(note, lambda tensor: tensor):
            bert.hidden(*inputs, RATES)
        return sum(sizes)

    chunked = kept()
    monkeypatch.setattr(savings, "LIMIT", 10**9)
    assert chunked < 0.01 * kept()


def test_large_batches_are_divided_if_they_have_a_gradient(bert: Encoder, inputs: Inputs) -> None:
    seen: list[int] = []
    bert.model.register_forward_hook(lambda *_: seen.append(0))
    for texts, rates, chunk_tokens, gradient, passes in (
        (9, RATES, 0, True, 5),
        (9, RATES, 0, False, 1),
        (4, (0.1,), 24, True, 2),
        (2, (0.0, 0.1), 1, True, 2),  # a single text is never divided
    ):
        seen.clear()
        bert.requires_grad_(gradient).chunk_tokens = chunk_tokens
        ids, mask, types = (tensor[:texts] for tensor in inputs)
        bert.train().hidden(ids, mask, types, rates)
        assert len(seen) == passes
