"""Tests of skipped padding and embeddings, and of chunks: states and gradients do not change."""

import pytest
import torch
from torch import Tensor

from sclsearch.encoders import savings
from sclsearch.encoders.encoder import Encoder
from sclsearch.objectives import sup_con
from tests.encoders.conftest import Inputs


def states_and_gradient(
    encoder: Encoder, inputs: Inputs, *, read_first: bool, first_only: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the states at the tokens, or the first one, and the gradient of a sum of them."""
    encoder.train().zero_grad()
    states = encoder.hidden(*inputs, (0.0, 0.0), first_only=first_only)
    states = states[:, 0] if read_first else states[inputs[1].repeat(2, 1)]
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
    (states * weights).sum().backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    return states.detach(), torch.cat(grads)


@pytest.mark.parametrize(
    ("can_pack", "first_only", "chunk"),
    [(True, False, 0), (True, True, 0), (False, True, 0), (True, True, 8)],
)
def test_skipped_positions_do_not_change_states_and_gradients(
    encoder: Encoder, inputs: Inputs, can_pack: bool, first_only: bool, chunk: int
) -> None:
    assert encoder.can_pack
    assert encoder.can_trim
    encoder.can_pack, encoder.chunk_tokens = can_pack, chunk
    states, gradient = states_and_gradient(
        encoder, inputs, read_first=first_only, first_only=first_only
    )
    encoder.can_pack, encoder.chunk_tokens = False, 0
    expected, expected_gradient = states_and_gradient(encoder, inputs, read_first=first_only)
    torch.testing.assert_close(states, expected)
    assert (gradient - expected_gradient).norm() < 1e-5 * expected_gradient.norm()


RATES = (0.0, 0.1, 0.4)


def contrasted(encoder: Encoder, texts: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Return the states of all rows, the gradient of a contrast, and the next random number."""
    torch.manual_seed(3)
    encoder.zero_grad()
    states = encoder.train().hidden(*texts, RATES)  # [V * B, T, d]
    y = (torch.arange(len(texts[0])) % 2).repeat(len(RATES))
    loss = sup_con(encoder.pool(states, texts[1], "mean"), y, tau=0.1)
    encoder.hidden(*texts, (0.5,))  # the second forward pass needs the rates of this batch
    loss.backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    tokens = texts[1].repeat(len(RATES), 1)
    return states.detach()[tokens], torch.cat(grads), torch.rand(1)


def test_the_second_forward_pass_of_a_chunk_has_the_same_dropout(
    encoder: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Limits that divide three views of nine texts of twelve tokens into five chunks.
    monkeypatch.setattr(savings, "LIMIT", 100)
    monkeypatch.setattr(savings, "CHUNK", 80)
    states, gradient, after = contrasted(encoder, inputs)
    monkeypatch.setattr(savings, "checkpoint", lambda forward, *given, **_: forward(*given))
    expected_states, expected, expected_after = contrasted(encoder, inputs)
    assert torch.equal(states, expected_states)
    assert (gradient - expected).norm() < 1e-5 * expected.norm()
    assert torch.equal(after, expected_after)
