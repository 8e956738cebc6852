"""A tiny BERT, a batch of two classes that have no word in common, and models of both."""

from pathlib import Path

import pytest
import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch


@pytest.fixture
def bert(tiny_bert: Path) -> Encoder:
    return load_encoder(tiny_bert, "tiny")


@pytest.fixture
def batch() -> Batch:
    """Returns eight texts of two classes, seen once, without dropout."""
    generator = torch.Generator().manual_seed(2)
    y = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
    ids = torch.randint(5, 20, (8, 6), generator=generator) + 20 * y[:, None]
    mask = torch.ones(8, 6, dtype=torch.bool)
    mask[3, 4:] = False
    ids[:, 0] = 2
    ids[~mask] = 0
    return Batch(
        ids=ids, mask=mask, types=torch.zeros_like(ids), content=mask & (ids > 4), y=y, rates=(0.0,)
    )
