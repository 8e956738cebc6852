"""Tests that skipping padding, unused tokens and unread states does not change the training."""

from contextlib import nullcontext

import pytest
import torch
from transformers import PreTrainedModel

from sclsearch.encoders.savings import Packing, SubsetEmbedding
from sclsearch.training.engine import train
from tests.training.conftest import Work, WorkFor
from tests.training.test_gpu import numbers


def fields_of(method: str) -> dict[str, object]:
    """Return fields without dropout, because skipping changes its random numbers."""
    views = {"dropouts": (0.0, 0.0)} if method in {"supcl-seq", "simcse", "dropout-aug"} else {}
    return {"dropout": 0.0, "learning_rate": 1e-3, "weight_decay": 0.1, **views}


def assert_nothing_changes(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train with and without the skipped work, and compare."""
    cuts: list[SubsetEmbedding] = []
    original = SubsetEmbedding.install

    def install(model: PreTrainedModel, tokens: torch.Tensor) -> SubsetEmbedding | None:
        found = original(model, tokens)
        assert found is not None
        cuts.append(found)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(SubsetEmbedding, "install", install)
        saving = train(*work)
    assert len(cuts) == 1 + (work.spec.method_name == "cssl")
    with monkeypatch.context() as patched:
        patched.setattr(SubsetEmbedding, "install", lambda _model, _tokens: None)
        patched.setattr(Packing, "packed", lambda _self, _mask: nullcontext())
        patched.setattr(Packing, "first_position", lambda _self: nullcontext())
        whole = train(*work)
    assert numbers(saving) == pytest.approx(numbers(whole), rel=1e-3, abs=1e-4)
    assert {n: t.shape for n, t in saving.weights.items()} == {
        n: t.shape for n, t in whole.weights.items()
    }


def test_every_method_trains_as_with_padding_and_all_embeddings(
    work_for: WorkFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_nothing_changes(work_for(method, **fields_of(method)), monkeypatch)
