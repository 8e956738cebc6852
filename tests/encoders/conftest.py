"""Batches of token ids, and encoders of each family."""

from pathlib import Path
from shutil import copytree

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
def copied(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return `models/tiny` in the working directory, whose parent is the home directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "models"))
    return copytree(tiny_bert, tmp_path / "models" / "tiny")


@pytest.fixture
def inputs() -> Inputs:
    """Return ids, mask and types of nine texts of 1 to 12 tokens."""
    mask = torch.arange(12) < torch.tensor([3, 12, 1, 7, 2, 12, 12, 5, 9])[:, None]
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(2))
    return torch.where(mask, ids, 0), mask, (torch.arange(12) > 4).long() * mask


@pytest.fixture
def unpadded(inputs: Inputs) -> Inputs:
    """Return the texts of 12 tokens."""
    ids, mask, types = (tensor[[1, 5, 6]] for tensor in inputs)
    return ids, mask, types
