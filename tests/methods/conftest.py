"""Tiny BERT, a batch of two classes that share no word, and models of both."""

from collections.abc import Callable

import pytest
import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Method, Model, Pooling, Training

Made = Callable[..., Model]

POOLINGS: tuple[Pooling, ...] = ("head_hidden", "cls_raw", "cls_pooled", "mean")


@pytest.fixture
def made(bert: Encoder) -> Made:
    """Return a function that makes the model of a method's last or first stage."""

    def made(method: Method, classes: int = 3, stage: int = -1) -> Model:
        torch.manual_seed(0)
        new_modules = method.stages(Training())[stage].new_modules
        return Model(bert, new_modules(bert, classes)).train()

    return made


@pytest.fixture
def batch() -> Batch:
    """Return eight texts of two classes as one view without dropout."""
    generator = torch.Generator().manual_seed(2)
    y = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
    ids = torch.randint(5, 20, (8, 6), generator=generator) + 20 * y[:, None]
    mask = torch.ones(8, 6, dtype=torch.bool)
    mask[3, 4:] = False
    ids[:, 0] = 2
    ids[~mask] = 0
    return Batch(
        ids=ids,
        mask=mask,
        types=torch.zeros_like(ids),
        content=mask & (ids > 4),
        y=y,
        dropout_rates=(0.0,),
    )
