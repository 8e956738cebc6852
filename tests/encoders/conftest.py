"""Batches of token ids, and encoders of each family."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder

Inputs = tuple[Tensor, Tensor, Tensor]

WITH_INTERFACE = ("tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_electra")


@pytest.fixture(params=[*WITH_INTERFACE, pytest.param("minilm", marks=pytest.mark.slow)])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Return an encoder of each family that supports a dropout rate per view."""
    folder: Path = request.getfixturevalue(request.param)
    return load_encoder(folder, request.param)


@pytest.fixture
def bert(tiny_bert: Path) -> Encoder:
    return load_encoder(tiny_bert, "tiny")


@pytest.fixture
def inputs() -> Inputs:
    """Return ids, mask and types of three texts; the second has padding."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 60, (3, 7), generator=generator)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 4:] = False
    return torch.where(mask, ids, 0), mask, torch.zeros_like(ids)


@pytest.fixture
def unpadded(inputs: Inputs) -> Inputs:
    """Return the first of the three texts twice, without padding."""
    ids, mask, types = (tensor[[0, 0]] for tensor in inputs)
    return ids, mask, types


@pytest.fixture
def ragged() -> Inputs:
    """Return ids, mask and types of texts of 1 to 12 tokens."""
    lengths = torch.tensor([3, 12, 1, 7, 2])
    mask = torch.arange(12) < lengths[:, None]
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(2))
    return torch.where(mask, ids, 0), mask, (torch.arange(12) > 4).long().expand(5, 12) * mask
