"""Tests that weights, dropout rates and tokens are read, copied and computed once."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sclsearch.encoders import load, row_dropout
from sclsearch.training.engine import train
from tests.training.conftest import WorkFor


def test_unequal_dropout_rates_are_copied_to_the_device_once(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[object] = []
    tensor = torch.tensor

    def recorded(*given: Any, **options: Any) -> Tensor:
        copied.append(given[0])
        return tensor(*given, **options)

    row_dropout._keep.cache_clear()
    work = work_for("dropout-aug", epochs=1, dropouts=(0.0, 0.1, 0.3))
    load.load_encoder(work.spec.model, work.spec.model_name)
    monkeypatch.setattr(torch, "tensor", recorded)
    train(work)
    assert copied.count((0.0, 0.1, 0.3)) == 1


def test_a_process_reads_the_weights_of_an_encoder_once_and_keeps_one_encoder(
    tiny_bert: Path, tiny_roberta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = load._read

    def recorded(folder: Path, name: str) -> Any:
        reads.append(folder.name)
        return read(folder, name)

    monkeypatch.setattr(load, "_read", recorded)
    load._pretrained.cache_clear()
    first, second = (load.load_encoder(tiny_bert, "tiny").state_dict() for _ in range(2))
    assert reads == [tiny_bert.name]
    stored = read(tiny_bert, "tiny")[0].state_dict()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name])
        assert torch.equal(tensor, stored[name.removeprefix("model.")])
    for folder in (tiny_roberta, tiny_bert):
        load.load_encoder(folder, "tiny")
    assert reads == [tiny_bert.name, tiny_roberta.name, tiny_bert.name]


def test_training_tokenizes_nothing(work_for: WorkFor, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import PreTrainedTokenizerBase

    calls: list[object] = []
    work = work_for("tapt", epochs=1, post_epochs=1)
    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", lambda *given: calls.append(given))
    train(work)
    assert calls == []
