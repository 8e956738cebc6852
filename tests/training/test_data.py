"""Tokenized texts, the order of batches, and batches as tensors."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.encoders.load import load_tokenizer
from sclsearch.methods.base import Training
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.training.data import (
    Tokens,
    batches_in_order,
    by_length,
    by_tokens,
    collate,
    on_device,
    padded_widths,
    tokenize_task,
)
from sclsearch.training.optimizer import updates_per_epoch

SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 20)
TEXTS = [("the film was good",), ("bad",), ("it was a very fine, lovely film!",), ("not awful",)]
PAIRS = [("the film", "it was good"), ("bad", "not"), ("a very fine film", "a film and a film")]
CPU = torch.device("cpu")

Tokenized = Callable[..., dict[str, Tokens]]


def batches(rows: int, training: Training, seed: int) -> list[np.ndarray]:
    return list(batches_in_order(rows, training, 0, seed, None))


@given(rows=st.integers(1, 90), seed=SEEDS, size=SIZES)
def test_every_epoch_has_each_row_once_in_batches_of_one_size(
    rows: int, seed: int, size: int
) -> None:
    found = batches(rows, Training(batch_size=size, epochs=2), seed)
    half = len(found) // 2
    for epoch in (found[:half], found[half:]):
        assert sorted(chain.from_iterable(epoch)) == list(range(rows))
        assert all(len(batch) == size for batch in epoch[:-1])


def test_the_order_depends_only_on_the_seed() -> None:
    orders = [np.concatenate(batches(60, Training(), seed)).tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(("rows", "updates"), [(16, 2), (17, 3), (8, 1), (1, 1), (0, 1)])
def test_an_epoch_has_at_least_one_update(rows: int, updates: int) -> None:
    assert updates_per_epoch(rows, Training(batch_size=8)) == updates


@given(lengths=st.lists(st.integers(1, 50), max_size=100), size=SIZES)
def test_batches_by_length_hold_every_row_once_shortest_first(
    lengths: list[int], size: int
) -> None:
    found = list(by_length(np.array(lengths, np.int64), size))
    rows = [int(row) for batch in found for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[row] for row in rows] == sorted(lengths)
    assert all(len(batch) == size for batch in found[:-1])


@given(widths=st.lists(st.integers(1, 60), max_size=50), most=st.integers(1, 300))
def test_batches_by_tokens_hold_every_row_once_and_as_many_tokens_as_fit(
    widths: list[int], most: int
) -> None:
    found = list(by_tokens(np.array(widths, np.int64), most))
    assert sorted(row for batch in found for row in batch) == list(range(len(widths)))
    padded = [len(batch) * max(widths[row] for row in batch) for batch in found]
    assert all(n <= most or len(batch) == 1 for n, batch in zip(padded, found, strict=True))
    for batch, following in pairwise(found):
        assert (len(batch) + 1) * widths[following[0]] > most


def test_the_width_of_a_batch_on_a_gpu_does_not_depend_on_the_other_rows(tiny_bert: Path) -> None:
    y = np.array([0, 1, 0])
    splits = {"train": Split((("good",), ("bad",), ("film " * 50,)), y)}
    data = TaskData(Task("toy", "", ("no", "yes"), "accuracy"), splits, "memory")
    tokenizer, gpu, row = load_tokenizer(tiny_bert), torch.device("cuda"), np.array([1])
    for used in (None, {"train": np.array([0, 1])}):
        tokens = tokenize_task(data, tokenizer, 40, used=used)["train"]
        assert padded_widths(tokens, row, gpu) == 32
        assert padded_widths(tokens, row, CPU) == 3
    tokens = tokenize_task(data, tokenizer, 40)["train"]
    assert padded_widths(tokens, np.array([2]), gpu) == 40


@pytest.mark.parametrize(("device", "pinned"), [("cpu", False), ("cuda", True)])
def test_copies_to_a_gpu_are_from_pinned_memory_and_do_not_block(
    monkeypatch: pytest.MonkeyPatch, device: str, pinned: bool
) -> None:
    calls: list[object] = []

    def pin(self: torch.Tensor) -> torch.Tensor:
        calls.append("pin")
        return self

    def to(self: torch.Tensor, where: torch.device, *, non_blocking: bool) -> torch.Tensor:
        calls.append((where.type, non_blocking))
        return self

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", to)
    assert on_device(np.arange(3), torch.device(device)).tolist() == [0, 1, 2]
    assert calls == [*["pin"] * pinned, (device, True)]


@pytest.fixture
def tokenized(tiny_bert: Path) -> Tokenized:
    def tokenized(texts: list[tuple[str, ...]], max_length: int = 32) -> dict[str, Tokens]:
        y = np.arange(len(texts), dtype=np.int64) % 2
        data = TaskData(
            Task("toy", "", ("no", "yes"), "accuracy"), {"train": Split(tuple(texts), y)}, "memory"
        )
        return tokenize_task(data, load_tokenizer(tiny_bert), max_length)

    return tokenized


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("max_length", [32, 6])
def test_every_row_has_the_ids_and_segments_of_the_tokenizer(
    tiny_bert: Path, tokenized: Tokenized, texts: list[tuple[str, ...]], max_length: int
) -> None:
    task = tokenized(texts, max_length)
    tokens = task["train"]
    assert tokens.pad == 0
    tokenizer = load_tokenizer(tiny_bert)
    for row, text in enumerate(texts):
        own = tokenizer(*text, truncation=True, max_length=max_length, return_token_type_ids=True)
        place = slice(tokens.starts[row], tokens.starts[row + 1])
        assert tokens.ids[place].tolist() == own["input_ids"]
        assert tokens.types[place].tolist() == own["token_type_ids"]
        assert tokens.lengths[row] == len(own["input_ids"]) <= max_length


def test_scores_are_float32_in_a_batch(tiny_bert: Path) -> None:
    data = TaskData(
        Task("toy", "", (), "pearson"), {"train": Split((("good",),), np.array([2.5]))}, "memory"
    )
    tokens = tokenize_task(data, load_tokenizer(tiny_bert), 16)["train"]
    batch = collate(tokens, np.array([0]), (0.1,), CPU)
    assert batch.y.dtype == torch.float32
    assert batch.y.tolist() == [2.5]


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("index", [[0, 1, 2], [2, 0], [1, 1, 0]], ids=str)
def test_a_batch_holds_its_rows_in_order_with_padding_on_the_right(
    tokenized: Tokenized, texts: list[tuple[str, ...]], index: list[int]
) -> None:
    pad = 3
    tokens = replace(tokenized(texts)["train"], pad=pad)
    batch = collate(tokens, np.array(index), (0.0, 0.2), CPU)
    longest = max(tokens.lengths[index])
    assert batch.ids.shape == batch.mask.shape == batch.types.shape == (len(index), longest)
    assert batch.ids.dtype == batch.types.dtype == batch.y.dtype == torch.int64
    for row, number in enumerate(index):
        place = slice(tokens.starts[number], tokens.starts[number + 1])
        padding = int(longest - tokens.lengths[number])
        assert batch.ids[row].tolist() == tokens.ids[place].tolist() + [pad] * padding
        assert batch.types[row].tolist() == tokens.types[place].tolist() + [0] * padding
        assert batch.mask[row].tolist() == [True] * int(longest - padding) + [False] * padding
    assert torch.equal(batch.content, batch.mask & (batch.ids >= 5))  # 0 to 4 are special
    assert batch.view_y.tolist() == tokens.y[index].tolist() * 2
    assert batch.dropout_rates == (0.0, 0.2)


def test_rows_that_are_not_used_have_no_tokens(tiny_bert: Path) -> None:
    y = np.array([0, 1, 0])
    splits = {"train": Split((("good",), ("bad",), ("fine",)), y), "test": Split((("a",),), y[:1])}
    data = TaskData(Task("toy", "", ("no", "yes"), "accuracy"), splits, "memory")
    tokenizer = load_tokenizer(tiny_bert)
    some = tokenize_task(data, tokenizer, 16, used={"train": np.array([0, 2])})
    every = tokenize_task(data, tokenizer, 16)
    assert set(some) == {"train"}
    assert some["train"].lengths.tolist() == [3, 0, 3]
    one, other = (collate(t["train"], np.array([2]), (0.0,), CPU) for t in (some, every))
    assert torch.equal(one.ids, other.ids)
    assert torch.equal(one.y, other.y)


def test_both_paraphrases_of_a_text_follow_each_other_by_halves(tiny_bert: Path) -> None:
    texts = (("good",), ("bad",), ("fine",))
    splits = {"train": Split(texts, np.array([0, 1, 0]))}
    data = TaskData(Task("toy", "", ("no", "yes"), "accuracy"), splits, "memory")
    tokenizer = load_tokenizer(tiny_bert)
    views: dict[Texts, tuple[Texts, Texts]] = {
        ("good",): (("great",), ("the good",)),
        ("fine",): (("a fine",), ("lovely",)),
    }
    tokens = tokenize_task(data, tokenizer, 16, views)
    both = tokens["paraphrases"]
    batch = collate(both, np.array([2, 0, 5, 3]), (0.1,), CPU)
    read = [tokenizer.decode(ids[mask]) for ids, mask in zip(batch.ids, batch.content, strict=True)]
    assert read == ["a fine", "great", "lovely", "the good"]
    assert batch.y.tolist() == [0, 0, 0, 0]
