"""What the engine leaves out, padding and embeddings of unseen tokens, changes no figure."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.packing import Packing
from sclsearch.encoders.vocabulary import CutEmbedding
from sclsearch.training.engine import train
from sclsearch.training.job import Work
from sclsearch.training.outcome import Outcome


def numbers(outcome: Outcome) -> list[float]:
    """Returns all losses of an outcome, in order."""
    notes: list[Any] = [*outcome.stages, *outcome.evaluations]
    return [loss for note in notes for loss in note["loss"].values()]


def test_every_method_trains_as_it_does_with_padding_and_all_embeddings(
    work_for: Callable[..., Work], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = {"dropouts": (0.0, 0.0)} if method in {"supcl-seq", "simcse", "dropout-aug"} else {}
    # Dropout draws for tokens alone where there is no padding: other draws, other figures.
    work = work_for(method, dropout=0.0, learning_rate=1e-3, weight_decay=0.1, **still)
    cuts: list[CutEmbedding] = []
    original = Encoder.cut

    def cut(self: Encoder, tokens: torch.Tensor) -> CutEmbedding | None:
        found = original(self, tokens)
        assert found is not None
        cuts.append(found)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Encoder, "cut", cut)
        saving = train(work)
    assert len(cuts) == 1 + (method == "cssl")
    with monkeypatch.context() as patched:
        patched.setattr(Encoder, "cut", lambda _self, _tokens: None)
        patched.setattr(Packing, "of", lambda _self, _mask: nullcontext())
        whole = train(work)
    assert numbers(saving) == pytest.approx(numbers(whole), rel=1e-3, abs=1e-4)
    assert {n: t.shape for n, t in saving.weights.items()} == {
        n: t.shape for n, t in whole.weights.items()
    }
