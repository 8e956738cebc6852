"""Tiny BERT, a batch of two classes that share no word, and models of both."""

from collections.abc import Callable

import pytest
import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Method, Model, Training

Made = Callable[..., Model]


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
    y = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
    ids = torch.randint(5, 20, (8, 6), generator=torch.Generator().manual_seed(2)) + 20 * y[:, None]
    ids[:, 0], ids[3, 4:] = 2, 0
    mask, content, types = ids > 0, ids > 4, torch.zeros_like(ids)
    return Batch(ids=ids, mask=mask, types=types, content=content, y=y, dropout_rates=(0.0,))
