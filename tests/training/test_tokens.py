"""Token ids are the tokenizer's own; a batch pads them on the right and masks the padding."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from sclsearch.encoders.load import load_tokenizer
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.training.batches import collate
from sclsearch.training.tokens import TokenizedTask, tokenize_task

TEXTS = [("the film was good",), ("bad",), ("it was a very fine, lovely film!",), ("not awful",)]
PAIRS = [("the film", "it was good"), ("bad", "not"), ("a very fine film", "a film and a film")]
CPU = torch.device("cpu")

Tokenised = Callable[..., TokenizedTask]


@pytest.fixture
def tokenized(tiny_bert: Path) -> Tokenised:
    def tokenized(texts: list[tuple[str, ...]], max_length: int = 32) -> TokenizedTask:
        y = np.arange(len(texts), dtype=np.int64) % 2
        data = TaskData(
            Task("toy", "", ("no", "yes"), "accuracy"), {"train": Split(tuple(texts), y)}, "memory"
        )
        return tokenize_task(data, load_tokenizer(tiny_bert), max_length)

    return tokenized


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("max_length", [32, 6])
def test_every_row_is_what_the_tokenizer_makes_of_it(
    tiny_bert: Path, tokenized: Tokenised, texts: list[tuple[str, ...]], max_length: int
) -> None:
    tokens = tokenized(texts, max_length).splits["train"]
    tokenizer = load_tokenizer(tiny_bert)
    for row, text in enumerate(texts):
        own = tokenizer(*text, truncation=True, max_length=max_length, return_token_type_ids=True)
        place = slice(tokens.starts[row], tokens.starts[row + 1])
        assert tokens.ids[place].tolist() == own["input_ids"]
        assert tokens.types[place].tolist() == own["token_type_ids"]
        assert tokens.lengths[row] == len(own["input_ids"]) <= max_length


def test_a_long_text_is_cut_and_keeps_its_end_mark(tokenized: Tokenised) -> None:
    task = tokenized([("good " * 50,), ("good",)], 8)
    tokens = task.splits["train"]
    assert tokens.lengths.tolist() == [8, 3]
    assert tokens.ids[7] == tokens.ids[tokens.starts[2] - 1]


def test_the_second_text_of_a_pair_is_its_second_segment(tokenized: Tokenised) -> None:
    tokens = tokenized(PAIRS).splits["train"]
    assert tokens.types[: tokens.starts[1]].tolist() == [0] * 4 + [1] * 4


def test_a_tokenised_task_knows_classes_and_padding(tokenized: Tokenised) -> None:
    task = tokenized(TEXTS)
    assert (task.classes, task.pad) == (2, 0)


def test_scores_have_no_classes(tiny_bert: Path) -> None:
    data = TaskData(
        Task("toy", "", (), "pearson"), {"train": Split((("good",),), np.array([2.5]))}, "memory"
    )
    task = tokenize_task(data, load_tokenizer(tiny_bert), 16)
    assert task.classes == 0
    batch = collate(task.splits["train"], np.array([0]), task.pad, (0.1,), CPU)
    assert batch.y.dtype == torch.float32
    assert batch.y.tolist() == [2.5]


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("index", [[0, 1, 2], [2, 0], [1], [1, 1, 0]], ids=str)
def test_a_batch_holds_its_rows_in_order_with_padding_on_the_right(
    tokenized: Tokenised, texts: list[tuple[str, ...]], index: list[int]
) -> None:
    tokens = tokenized(texts).splits["train"]
    pad = 3
    batch = collate(tokens, np.array(index), pad, (0.0, 0.2), CPU)
    lengths = tokens.lengths[index]
    assert batch.ids.shape == batch.mask.shape == batch.types.shape == (len(index), max(lengths))
    assert batch.ids.dtype == batch.types.dtype == batch.y.dtype == torch.int64
    assert batch.mask.dtype == torch.bool
    for row, number in enumerate(index):
        place = slice(tokens.starts[number], tokens.starts[number + 1])
        length = int(lengths[row])
        assert batch.ids[row, :length].tolist() == tokens.ids[place].tolist()
        assert batch.types[row, :length].tolist() == tokens.types[place].tolist()
        assert batch.mask[row].tolist() == [True] * length + [False] * (max(lengths) - length)
        assert (batch.ids[row, length:] == pad).all()
        assert (batch.types[row, length:] == 0).all()
    assert batch.y.tolist() == tokens.y[index].tolist()
    assert batch.rates == (0.0, 0.2)
    assert batch.view_y.tolist() == tokens.y[index].tolist() * 2


def test_content_is_what_is_neither_special_nor_padding(tokenized: Tokenised) -> None:
    tokens = tokenized(PAIRS).splits["train"]
    batch = collate(tokens, np.arange(len(PAIRS)), 0, (0.0,), CPU)
    assert torch.equal(batch.content, batch.mask & ~torch.isin(batch.ids, torch.arange(5)))
    assert batch.content.any(1).all()


def test_rows_that_are_not_read_stay_without_tokens(tiny_bert: Path) -> None:
    y = np.array([0, 1, 0])
    splits = {"train": Split((("good",), ("bad",), ("fine",)), y), "test": Split((("a",),), y[:1])}
    data = TaskData(Task("toy", "", ("no", "yes"), "accuracy"), splits, "memory")
    tokenizer = load_tokenizer(tiny_bert)
    some = tokenize_task(data, tokenizer, 16, used={"train": np.array([0, 2])})
    every = tokenize_task(data, tokenizer, 16)
    assert set(some.splits) == {"train"}
    assert some.splits["train"].lengths.tolist() == [3, 0, 3]
    for row in (0, 2):
        one, other = (
            collate(t.splits["train"], np.array([row]), 0, (0.0,), CPU) for t in (some, every)
        )
        assert torch.equal(one.ids, other.ids)
        assert torch.equal(one.y, other.y)


def test_paraphrases_are_read_beside_their_text(tiny_bert: Path) -> None:
    texts = (("good",), ("bad",), ("fine",))
    splits = {"train": Split(texts, np.array([0, 1, 0]))}
    data = TaskData(Task("toy", "", ("no", "yes"), "accuracy"), splits, "memory")
    tokenizer = load_tokenizer(tiny_bert)
    views: dict[Texts, tuple[Texts, Texts]] = {
        ("good",): (("great",), ("the good",)),
        ("fine",): (("a fine",), ("lovely",)),
    }
    task = tokenize_task(data, tokenizer, 16, views)
    tokens, both = task.paraphrases_of(np.array([2, 0]))
    batch = collate(tokens, both, task.pad, (0.1,), CPU)
    read = [tokenizer.decode(ids[mask]) for ids, mask in zip(batch.ids, batch.content, strict=True)]
    assert read == ["a fine", "great", "lovely", "the good"]
    assert batch.y.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="was tokenised without"):
        tokenize_task(data, tokenizer, 16).paraphrases_of(np.array([0]))
