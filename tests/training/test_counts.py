"""Forward passes, reads of weights and waits for the device: a seed run does no work twice."""

import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sclsearch.encoders import load, row_dropout
from sclsearch.encoders.encoder import Encoder
from sclsearch.training import engine, evaluation
from sclsearch.training.engine import train
from sclsearch.training.spec import TrainingData
from tests.training.waits import Copies, Values

WorkFor = Callable[..., TrainingData]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[TrainingData], Counter[str]]:
    """Return a function that trains on a CPU as on a GPU, and returns what it counted.

    `forwards` are passes through the encoder, `values` waits for a value or a number of values,
    `copies` copies to the host, without those of the weights at the end.
    """
    seen: Counter[str] = Counter()
    hidden = Encoder.hidden

    def counted(self: Encoder, *given: Any, **options: Any) -> Tensor:
        seen["forwards"] += 1
        return hidden(self, *given, **options)

    def count(work: TrainingData) -> Counter[str]:
        load.load_encoder(work.spec.model, work.spec.model_name)
        seen.clear()
        with Copies(seen), Values(seen):
            result = train(work)
        return seen - Counter(copies=len(result.weights))

    monkeypatch.setattr(Encoder, "hidden", counted)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    # Inference mode hides operations from the counters.
    monkeypatch.setattr(engine, "predict", torch.no_grad()(inspect.unwrap(evaluation.predict)))
    return count


def test_a_seed_run_waits_once_per_loss_record_and_once_per_prediction(
    work_for: WorkFor, count: Callable[[TrainingData], Counter[str]]
) -> None:
    # 44 training rows in batches of 8 are 6 updates per epoch; 30 rows are read in one batch.
    updates, evaluations = 12, 2
    found = count(work_for("ce", epochs=2))
    forwards = updates + evaluations + 1
    # One wait finds the padding among the embeddings that are kept.
    assert found == {"forwards": forwards, "values": 1, "copies": 2 * evaluations + 1}
    # The linear probe reads 44, 30 and 30 rows once, each in one batch.
    found = count(work_for("supcl-seq", epochs=2, probe_epochs=5))
    assert found == {"forwards": updates + 3, "values": 1, "copies": updates + 5 * 2 + 1}


def test_more_updates_between_two_evaluations_cause_no_waits(
    work_for: WorkFor, count: Callable[[TrainingData], Counter[str]], method: str
) -> None:
    few, many = (Counter(count(work_for(method, epochs=n, evaluate="end"))) for n in (4, 6))
    assert many - few == {"forwards": 12}


def test_unequal_dropout_rates_are_copied_to_the_device_once(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    tensor = torch.tensor

    def noted(*given: Any, **options: Any) -> Tensor:
        made.append(given[0])
        return tensor(*given, **options)

    row_dropout._keep.cache_clear()
    work = work_for("dropout-aug", epochs=1, dropouts=(0.0, 0.1, 0.3))
    load.load_encoder(work.spec.model, work.spec.model_name)
    monkeypatch.setattr(torch, "tensor", noted)
    train(work)
    assert made.count((0.0, 0.1, 0.3)) == 1


def test_the_counters_see_every_kind_of_wait() -> None:
    seen: Counter[str] = Counter()
    x = torch.arange(4.0)
    with Copies(seen), Values(seen):
        x.sum().item()
        bool(x.any())
        float(x[0])
        x[x > 1].sum()
        (x > 1).nonzero()
        x.tolist()
        x.cpu()
    assert seen == {"values": 5, "copies": 2}


def test_a_process_reads_the_weights_of_an_encoder_once_and_keeps_one_encoder(
    tiny_bert: Path, tiny_roberta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = load._read

    def noted(folder: Path, name: str) -> Any:
        reads.append(folder.name)
        return read(folder, name)

    monkeypatch.setattr(load, "_read", noted)
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
