"""Tests that skipping padding, unused tokens and unread states does not change the training."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from sclsearch.encoders.savings import Packing, SubsetEmbedding
from sclsearch.training.data import occurring
from sclsearch.training.engine import train
from tests.training.conftest import WorkFor, all_losses


def test_every_method_trains_as_with_padding_and_all_embeddings(
    work_for: WorkFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without dropout, because skipping changes its random numbers.
    views = {"dropouts": (0.0, 0.0)} if method in {"supcl-seq", "simcse", "dropout-aug"} else {}
    still = {"dropout": 0.0, "learning_rate": 1e-3, "weight_decay": 1.0, **views}
    work = work_for(method, **still)
    cuts: list[SubsetEmbedding | None] = []
    install = SubsetEmbedding.install

    def recorded(model: PreTrainedModel, tokens: torch.Tensor) -> SubsetEmbedding | None:
        cuts.append(install(model, tokens))
        return cuts[-1]

    monkeypatch.setattr(SubsetEmbedding, "install", recorded)
    saving = train(*work)
    assert len(cuts) == 1 + (method == "cssl")
    assert None not in cuts
    monkeypatch.setattr(SubsetEmbedding, "install", lambda _model, _tokens: None)
    monkeypatch.setattr(Packing, "packed", lambda _self, _mask: nullcontext())
    monkeypatch.setattr(Packing, "first_position", lambda _self: nullcontext())
    whole = train(*work)
    assert all_losses(saving) == pytest.approx(all_losses(whole), rel=1e-3, abs=1e-4)
    assert {n: t.shape for n, t in saving.weights.items()} == {
        n: t.shape for n, t in whole.weights.items()
    }
    words = "encoder.model.embeddings.word_embeddings.weight"
    unseen = np.setdiff1d(np.arange(len(whole.weights[words])), occurring(*work))
    found, expected = saving.weights[words][unseen], whole.weights[words][unseen]
    assert (found - expected).norm() < 1e-3 * expected.norm()
