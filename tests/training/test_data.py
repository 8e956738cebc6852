"""Tests of tokens, batches and their order, of evaluation schedules and of the optimizer."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sclsearch.encoders.load import load_tokenizer
from sclsearch.methods.base import Model, Stage, Training, balanced_batches
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.training.data import (
    Tokens,
    batches_in_order,
    collate,
    padded_widths,
    rows_of,
    tokenize_task,
)
from sclsearch.training.engine import train
from sclsearch.training.optimizer import adamw, evaluation_points, lr_scale
from tests.studies import same_weights
from tests.training.conftest import Work, WorkFor

TEXTS = [("the film was good",), ("bad",), ("it was a very fine, lovely film!",), ("not awful",)]
PAIRS = [("the film", "it was good"), ("bad", "not"), ("a very fine film", "a film and a film")]
CPU = torch.device("cpu")

Tokenized = Callable[..., dict[str, Tokens]]


def toy_of(texts: list[Texts]) -> TaskData:
    """Return a task with these training texts, and classes 0, 1, 0, 1, …"""
    split = Split(tuple(texts), np.arange(len(texts)) % 2)
    return TaskData(Task("toy", "", ("no", "yes"), "accuracy"), {"train": split}, "memory")


@pytest.fixture
def tokenized(tiny_bert: Path) -> Tokenized:
    def tokenized(data: TaskData, max_length: int = 32, **given: Any) -> dict[str, Tokens]:
        return tokenize_task(data, load_tokenizer(tiny_bert), max_length, **given)

    return tokenized


@given(rows=st.integers(1, 90), seed=st.integers(0, 2**32), size=st.integers(1, 20))
def test_every_epoch_has_each_row_once_in_batches_of_one_size_in_the_order_of_the_seed(
    rows: int, seed: int, size: int
) -> None:
    def order(seed: int) -> list[list[int]]:
        stage = Stage("own", Training(batch_size=size, epochs=2), lambda *_: {})
        found = batches_in_order(np.zeros(rows), stage, 0, seed, None)
        return [batch.tolist() for batch in found]

    found = order(seed)
    half = len(found) // 2
    for epoch in (found[:half], found[half:]):
        assert sorted(chain.from_iterable(epoch)) == list(range(rows))
        assert all(len(batch) == size for batch in epoch[:-1])
    assert found == order(seed)
    assert rows < 20 or found != order(seed + 1)


def test_the_width_of_a_batch_on_a_gpu_does_not_depend_on_the_other_rows(
    tokenized: Tokenized,
) -> None:
    data, gpu = toy_of([("good",), ("bad",), ("film " * 50,)]), torch.device("cuda")
    some = tokenized(data, 40, used={"train": np.array([0, 1])})["train"]
    assert some.lengths.tolist() == [3, 3, 0]  # rows that are not used have no tokens
    every = tokenized(data, 40)["train"]
    for tokens in (some, every):
        assert padded_widths(tokens, np.array([1]), gpu) == 32
        assert padded_widths(tokens, np.array([1]), CPU) == 3
    assert padded_widths(every, np.array([2]), gpu) == 40


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("max_length", [32, 6])
def test_a_batch_holds_the_tokens_of_its_rows_in_order_with_padding_on_the_right(
    tiny_bert: Path, tokenized: Tokenized, texts: list[Texts], max_length: int
) -> None:
    pad, index = 3, np.array([2, 1, 1, 0])
    tokens = replace(tokenized(toy_of(texts), max_length)["train"], pad=pad)
    batch = collate(tokens, index, (0.0, 0.2), CPU)
    assert batch.ids.dtype == batch.types.dtype == batch.y.dtype == torch.int64
    tokenizer = load_tokenizer(tiny_bert)
    longest = 0
    for row, number in enumerate(index):
        own = tokenizer(
            *texts[number], truncation=True, max_length=max_length, return_token_type_ids=True
        )
        length = len(own["input_ids"])
        padding = batch.ids.shape[1] - length
        assert batch.ids[row].tolist() == own["input_ids"] + [pad] * padding
        assert batch.types[row].tolist() == own["token_type_ids"] + [0] * padding
        assert batch.mask[row].tolist() == [True] * length + [False] * padding
        longest = max(longest, length)
    assert batch.mask.shape == (4, longest)
    assert torch.equal(batch.content, batch.mask & (batch.ids >= 5))  # 0 to 4 are special
    assert batch.view_y.tolist() == tokens.y[index].tolist() * 2


@pytest.mark.parametrize(("pooling", "features"), [("mean", "mean"), ("head_hidden", "cls_raw")])
def test_scl_with_lambda_0_equals_cross_entropy_to_the_bit(
    work_for: WorkFor, pooling: str, features: str
) -> None:
    scl = train(*work_for("scl", lam=0.0, pooling=pooling, scl_features=features))
    ce = train(*work_for("ce", pooling=pooling))
    assert scl.predictions == ce.predictions
    assert same_weights(scl.weights, ce.weights)


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    size=st.integers(1, 40),
    own=st.integers(2, 8),
)
def test_balanced_batches_have_as_many_rows_of_each_of_their_classes_and_leave_none_out(
    counts: list[int], size: int, own: int
) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    stage = Stage("own", Training(batch_size=size, epochs=60), lambda *_: {})
    stage = replace(stage, batches=balanced_batches(own))
    found = [*batches_in_order(y, stage, 0, 0, None)]
    assert balanced_batches(1) is None
    assert len(found) == 60 * -(-len(y) // size)
    expected = min(max(size // own, 1), len(counts))
    for batch in found:
        classes, rows = np.unique(y[batch], return_counts=True)
        assert len(classes) == expected
        assert set(rows) == {size // expected}
    read = np.bincount(np.concatenate(found), minlength=len(y))
    of_class = [read[y == value] for value in range(len(counts))]
    assert all(np.ptp(one) <= 1 for one in of_class)  # all rows before any again
    drawn = [one.sum() for one in of_class]
    assert np.ptp(drawn) <= size // expected


def order(work: Work, remaining: int = 0) -> list[list[int]]:
    """Return the positions of the batches of a stage that `remaining` stages follow."""
    stage, seed = work.spec.stages[-1 - remaining], work.spec.replicate.order
    rows = rows_of(*work, stage)
    y = work.tokens[rows.split].y[rows.index]
    found = batches_in_order(y, stage, remaining, seed, work.spec.max_updates)
    return [batch.tolist() for batch in found]


def test_the_last_stages_of_all_methods_read_rows_in_the_same_order(
    work_for: WorkFor, method: str
) -> None:
    shared = list(zip(order(work_for("ce")), order(work_for(method)), strict=False))
    assert len(shared) > 10
    assert all(one == other for one, other in shared)


def test_the_last_update_is_always_evaluated() -> None:
    schedules: dict[Any, list[int]] = {"epoch": [4, 8, 12], "end": [12], 5: [5, 10, 12]}
    for schedule, points in schedules.items():
        assert sorted(evaluation_points(schedule, 4, 12)) == points
    assert sorted(evaluation_points("tenth", 4, 25)) == [3, 5, 8, 10, 13, 15, 18, 20, 23, 25]


def test_the_learning_rate_is_linear_on_both_sides_of_its_peak() -> None:
    for warmup_ratio, scales in (
        (0.0, [1.0, 0.75, 0.5, 0.25]),
        (1 / 3, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
        (1.0, [0.25, 0.5, 0.75, 1.0]),
        (0.0, [1.0]),
    ):
        total = len(scales)
        found = [lr_scale(update, total, warmup_ratio) for update in range(1, total + 1)]
        assert found == scales


def test_each_parameter_has_the_learning_rate_and_weight_decay_of_its_module() -> None:
    encoder: Any = nn.ModuleDict({"words": nn.Embedding(5, 4), "norm": nn.LayerNorm(4)})
    encoder["frozen"] = nn.Linear(4, 4).requires_grad_(False)
    model = Model(encoder, nn.ModuleDict({"head": nn.Linear(4, 2), "labels": nn.Embedding(2, 4)}))
    training = Training(learning_rate=0.01, weight_decay=0.3, head_lr_mult=5.0)
    stage = Stage("joint", training, lambda _model, _batch: {}, lr_scales={"labels": 10.0})
    optimizer = adamw(model, replace(stage, no_weight_decay=("labels",)))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {
        names[id(parameter)]: (round(group["peak"], 9), group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert found == {
        "encoder.words.weight": (0.01, 0.3),
        "encoder.norm.weight": (0.01, 0.0),
        "encoder.norm.bias": (0.01, 0.0),
        "new_modules.head.weight": (0.05, 0.3),
        "new_modules.head.bias": (0.05, 0.0),
        "new_modules.labels.weight": (0.1, 0.0),
    }
    assert replace(stage, frozen_pooling="mean").lr_multiplier_of("head") == 1.0
