"""Batches of token ids, and encoders of each family."""

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder

Inputs = tuple[Tensor, Tensor, Tensor]


@pytest.fixture(params=["tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_electra", "minilm"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Return an encoder of each family that supports a dropout rate per view."""
    return load_encoder(request.getfixturevalue(request.param), request.param)


@pytest.fixture
def inputs() -> Inputs:
    """Return ids, mask and types of nine texts of 1 to 12 tokens."""
    mask = torch.arange(12) < torch.tensor([3, 12, 1, 7, 2, 12, 12, 5, 9])[:, None]
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(2))
    return torch.where(mask, ids, 0), mask, (torch.arange(12) > 4).long() * mask
