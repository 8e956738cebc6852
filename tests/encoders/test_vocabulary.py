"""Tests of embeddings that are limited to the tokens of the training texts."""

import copy

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.savings import SubsetEmbedding
from tests.encoders.conftest import Inputs

RATE, DECAY, UPDATES = 1e-2, 0.1, 5


def trained(encoder: Encoder, inputs: Inputs, tokens: Tensor | None) -> dict[str, Tensor]:
    """Return the weights after some updates, with the embeddings of some tokens or of all."""
    cut = None if tokens is None else SubsetEmbedding.install(encoder.model, tokens)
    assert (cut is None) == (tokens is None)
    optimizer = torch.optim.AdamW(encoder.parameters(), RATE, weight_decay=DECAY, fused=True)
    for _ in range(UPDATES):
        loss = encoder.hidden(*inputs, (0.0,))[inputs[1]].pow(3).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if cut is not None:
            cut.decay *= 1 - RATE * DECAY
    if cut is not None:
        cut.restore(encoder.model)
    return {name: tensor.detach().clone() for name, tensor in encoder.state_dict().items()}


def test_all_weights_equal_those_with_whole_embeddings(encoder: Encoder, inputs: Inputs) -> None:
    before = encoder.embeddings.detach().clone()
    seen = torch.unique(inputs[0])
    whole = trained(copy.deepcopy(encoder), inputs, None)
    found = trained(encoder, inputs, seen)
    assert found.keys() == whole.keys()
    for name, tensor in whole.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)
    unseen = torch.ones(len(before), dtype=torch.bool)
    unseen[seen] = False
    torch.testing.assert_close(
        encoder.embeddings.detach()[unseen], before[unseen] * (1 - RATE * DECAY) ** UPDATES
    )
    assert not torch.isclose(encoder.embeddings.detach()[seen[1:]], before[seen[1:]]).all()


def test_a_cut_encoder_trains_fewer_weights(bert: Encoder) -> None:
    count = sum(p.numel() for p in bert.parameters())
    left_out = len(bert.embeddings) - 3
    assert SubsetEmbedding.install(bert.model, torch.tensor([0, 5, 7])) is not None
    assert sum(p.numel() for p in bert.parameters()) == count - left_out * bert.width


def test_tokens_outside_the_cut_are_an_error(bert: Encoder, inputs: Inputs) -> None:
    SubsetEmbedding.install(bert.model, torch.unique(inputs[0])[:-1])
    with pytest.raises(IndexError):
        bert.hidden(*inputs, (0.0,))


def test_all_embeddings_cannot_be_read_while_cut(bert: Encoder) -> None:
    SubsetEmbedding.install(bert.model, torch.tensor([0, 5]))
    with pytest.raises(RuntimeError, match="full_vocabulary"):
        _ = bert.embeddings
