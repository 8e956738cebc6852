"""A seed run does no work twice: forward passes, loads of weights and waits are counted."""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor

from sclsearch.encoders import load, row_dropout
from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Stage
from sclsearch.protocols.base import by_split
from sclsearch.training import engine, evaluation
from sclsearch.training.engine import LOSS_RECORDS, train
from sclsearch.training.optimizer import evaluation_points, evenly, updates_of, updates_per_epoch
from sclsearch.training.spec import TrainingData
from tests.training.waits import Copies, Values

WorkFor = Callable[..., TrainingData]

BATCH = 16
# How many tokens are hidden decides how many are predicted.
WAITS_OF_A_FIRST_STAGE: Mapping[str, int] = MappingProxyType({"cmlm": 1, "tapt": 1})
WAITS_OF_A_READING = 1


@dataclass(frozen=True)
class Counts:
    """What a seed run does.

    Attributes:
        forwards: Passes through the encoder.
        values: Waits for a value, or for the number of some.
        copies: Copies to the host.
    """

    forwards: int
    values: int
    copies: int


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Returns what is counted while a test trains as on a GPU, though on a CPU."""
    seen: Counter[str] = Counter()
    hidden = Encoder.hidden

    def counted(self: Encoder, *given: Any, **options: Any) -> Tensor:
        seen["forwards"] += 1
        return hidden(self, *given, **options)

    monkeypatch.setattr(Encoder, "hidden", counted)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    monkeypatch.setattr(evaluation, "EVALUATION_BATCH", BATCH)
    # Inference mode hides operations from who counts them.
    seen_through = torch.no_grad()(inspect.unwrap(evaluation.predict))
    monkeypatch.setattr(engine, "predict", seen_through)
    return seen


def counted(work: TrainingData, seen: Counter[str]) -> tuple[Counts, int]:
    """Trains; returns what it did, and how many tensors it left."""
    load.load_encoder(work.spec.model, work.spec.model_name)
    seen.clear()
    with Copies(seen), Values(seen):
        result = train(work)
    return Counts(seen["forwards"], seen["values"], seen["copies"]), len(result.weights)


def batches(work: TrainingData, *rows: Any) -> int:
    """Returns in how many batches some rows are read."""
    return sum(-(-len(index) // BATCH) for index in by_split(rows).values())


def expected(work: TrainingData, method: str, tensors: int) -> Counts:
    """Returns what a seed run must do, from its updates, evaluations and rows alone."""
    spec = work.spec
    stages = spec.method.stages(spec.training)
    forwards = values = copies = 0
    for number, stage in enumerate(stages):
        updates, looks = _planned(work, stage, last=stage is stages[-1])
        cut = stage.frozen_pooling is None and not stage.whole_vocabulary
        evaluated = (spec.splits.validation, spec.splits.test) if stage is stages[-1] else ()
        if stage.cached:
            forwards += batches(work, work.rows_of(stage), *evaluated)
        else:
            forwards += updates
            if evaluated:
                forwards += looks * batches(work, evaluated[0]) + batches(work, evaluated[1])
        own = WAITS_OF_A_FIRST_STAGE.get(method, 0) if number == 0 else 0
        # Where padding stands among the embeddings that are left in.
        values += updates * own + cut
        copies += WAITS_OF_A_READING * looks
        if evaluated:
            copies += looks + 1
    return Counts(forwards, values, copies + tensors)


def _planned(work: TrainingData, stage: Stage, *, last: bool) -> tuple[int, int]:
    """Returns the updates of a stage, and how often its losses are read."""
    rows = len(work.rows_of(stage).index)
    updates = updates_of(rows, stage.training, work.spec.max_updates)
    per_epoch = updates_per_epoch(rows, stage.training)
    points = (
        evaluation_points(work.spec.evaluate, per_epoch, updates)
        if last
        else evenly(updates, LOSS_RECORDS)
    )
    return updates, len(points)


@pytest.mark.parametrize("evaluate", ["epoch", "end"])
def test_every_forward_and_every_wait_is_accounted_for(
    work_for: WorkFor, counts: Counter[str], method: str, evaluate: str
) -> None:
    work = work_for(method, epochs=2, evaluate=evaluate)
    found, tensors = counted(work, counts)
    assert found == expected(work, method, tensors)


def test_the_numbers_of_two_seed_runs(work_for: WorkFor, counts: Counter[str]) -> None:
    # 44 training rows in batches of 8 are 6 updates an epoch; 30 rows are read in 2 batches.
    found, tensors = counted(work_for("ce", epochs=2), counts)
    updates, evaluations, read = 12, 2, 2 * 2 + 2
    assert found.forwards == updates + read
    assert found.values == 1
    assert found.copies == evaluations * 2 + 1 + tensors
    # The probe reads 44, 30 and 30 rows once, in 3, 2 and 2 batches, however often it is evaluated.
    found, tensors = counted(work_for("supcl-seq", epochs=2, probe_epochs=5), counts)
    assert found.forwards == updates + 7
    assert found.copies == updates + 5 * 2 + 1 + tensors


def test_more_updates_between_two_readings_wait_no_more(
    work_for: WorkFor, counts: Counter[str]
) -> None:
    few, many = (
        counted(work_for("scl", epochs=epochs, evaluate="end"), counts)[0] for epochs in (1, 3)
    )
    assert many.forwards - few.forwards == 12
    assert many.values == few.values
    assert many.copies == few.copies


def test_unequal_rates_are_copied_to_the_device_once(
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


def test_a_wait_is_seen() -> None:
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


def test_a_process_reads_the_weights_of_an_encoder_once_and_keeps_one(
    work_for: WorkFor, tiny_bert: Path, tiny_roberta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = load._read

    def noted(folder: Path, name: str) -> Any:
        reads.append(folder.name)
        return read(folder, name)

    monkeypatch.setattr(load, "_read", noted)
    load._pretrained.cache_clear()
    for method, number in (("ce", 0), ("ce", 1), ("scl", 1)):
        train(work_for(method, number, epochs=1, evaluate="end"))
    assert reads == [tiny_bert.name]
    for folder in (tiny_roberta, tiny_bert):
        load.load_encoder(folder, "tiny")
    assert reads == [tiny_bert.name, tiny_roberta.name, tiny_bert.name]


def test_a_copy_of_the_weights_is_equal_to_the_bit(tiny_bert: Path) -> None:
    load._pretrained.cache_clear()
    fresh = load.load_encoder(tiny_bert, "tiny").state_dict()
    copied = load.load_encoder(tiny_bert, "tiny").state_dict()
    stored = load._read(tiny_bert, "tiny")[0].state_dict()
    assert {name.removeprefix("model.") for name in copied} == set(stored)
    for name, tensor in copied.items():
        assert torch.equal(tensor, fresh[name])
        assert torch.equal(tensor, stored[name.removeprefix("model.")])


def test_training_tokenises_nothing(work_for: WorkFor, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import PreTrainedTokenizerBase

    calls: list[object] = []
    work = work_for("tapt", epochs=1, post_epochs=1)
    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", lambda *given: calls.append(given))
    train(work)
    assert calls == []
