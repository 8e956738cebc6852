"""A tiny BERT, a batch of two classes that have no word in common, and models of both."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Batch, Method

# Where the published fields do not fit an encoder of width 16.
SMALL: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {"lacon": {"heads": 4}, "lacon-fusion": {"heads": 4}}
)


@pytest.fixture(params=METHODS)
def kind(request: pytest.FixtureRequest) -> Any:
    """Returns the class of each method."""
    return method_class(request.param)


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> Method:
    """Returns each method as it fits the tiny BERT."""
    made: Method = method_class(request.param)(**SMALL.get(request.param, {}))
    return made


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
