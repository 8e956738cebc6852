"""Tests of skipped padding and embeddings, and of chunks: states and gradients do not change."""

import pytest
import torch
from torch import Tensor

from sclsearch.encoders import savings
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.savings import SubsetEmbedding
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


def test_a_failed_forward_pass_leaves_no_state(bert: Encoder, inputs: Inputs) -> None:
    expected = bert.hidden(*inputs, (0.0,))

    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    hook = bert.model.get_submodule("encoder.layer.1.intermediate").register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="no memory"):
        bert.hidden(*inputs, (0.0,), first_only=True)
    hook.remove()
    assert torch.equal(bert.hidden(*inputs, (0.0,)), expected)


def test_a_cut_encoder_has_only_the_embeddings_of_its_tokens(bert: Encoder, inputs: Inputs) -> None:
    count, left_out = sum(p.numel() for p in bert.parameters()), len(bert.embeddings) - 3
    assert SubsetEmbedding.install(bert.model, torch.tensor([0, 5, 7])) is not None
    assert sum(p.numel() for p in bert.parameters()) == count - left_out * bert.width
    with pytest.raises(IndexError):
        bert.hidden(*inputs, (0.0,))
    with pytest.raises(RuntimeError, match="full_vocabulary"):
        _ = bert.embeddings


Rates = tuple[float, ...]
RATES = (0.0, 0.1, 0.4)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set limits that divide three views of nine texts of twelve tokens into five chunks."""
    monkeypatch.setattr(savings, "LIMIT", 100)
    monkeypatch.setattr(savings, "CHUNK", 80)


def contrasted(
    encoder: Encoder, texts: Inputs, rates: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
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


@pytest.mark.usefixtures("small_chunks")
def test_the_second_forward_pass_of_a_chunk_has_the_same_dropout(
    encoder: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, gradient, after = contrasted(encoder, inputs, RATES)
    monkeypatch.setattr(savings, "checkpoint", lambda forward, *given, **_: forward(*given))
    expected_states, expected, expected_after = contrasted(encoder, inputs, RATES)
    assert torch.equal(states, expected_states)
    assert relative_distance(gradient, expected) < 1e-5
    assert torch.equal(after, expected_after)
