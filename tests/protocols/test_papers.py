"""Tests of the protocols of CMLM and LaCon: rows, notes, replicates and epochs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.methods.cmlm import AUTHORS_TRAINING
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Size, Splits
from sclsearch.protocols.papers import cmlm_few_shot_training, gunel_few_shot_training
from tests.protocols.conftest import counts, labeled, splits_of

VALIDATION = {"validation": [0, 1]}
MANY = [0] * 5400 + [1] * 7000


def sizes(splits: Splits) -> tuple[int, int]:
    return len(splits.validation.index), len(splits.test.index)


FEWER = ", fewer than the protocol's 500"


def test_cmlm_divides_the_validation_split_and_a_small_one_has_a_note() -> None:
    for rows, validation in ((577, 500), (576, 200), (71, 35), (2, 1)):
        splits = splits_of("cmlm-full", labeled(train=[0, 1], validation=[0] * rows))
        assert sizes(splits) == (validation, rows - validation)
        both = np.concatenate([splits.validation.index, splits.test.index])
        assert sorted(both) == list(range(rows))
        drawn, rest = splits.notes
        assert drawn == f"validation: {validation} random rows" + FEWER * (validation < 500)
        assert rest == f"test: the other {rows - validation} rows of the validation split"


def test_cmlm_uses_a_labeled_test_split_and_2000_rows_of_qqp() -> None:
    splits = splits_of("cmlm-full", labeled(train=[0, 1], validation=[0] * 400, test=[0, 1, 1]))
    assert (splits.test.split, sizes(splits)) == ("test", (400, 3))
    assert splits.notes == (f"validation: 400 random rows{FEWER}",)
    qqp = labeled("qqp", train=[0, 1], validation=[0, 1] * 3000)
    splits = splits_of("cmlm-full", qqp)
    assert sizes(splits) == (500, 2000)
    assert not {*splits.validation.index} & {*splits.test.index}
    assert "2000 random of the other 5500 rows" in splits.notes[1]
    own = replace(qqp, task=replace(qqp.task, own=True))
    assert sizes(splits_of("cmlm-full", own)) == (500, 5500)


def test_cmlm_replicates_combine_five_subsets_with_the_papers_three_seeds() -> None:
    protocol, full = PROTOCOLS["cmlm-fewshot"], PROTOCOLS["cmlm-full"]
    assert (protocol.replicates, full.replicates) == (15, 3)
    for number in range(15):
        seed = (31, 42, 53)[number // 5]
        replicate = protocol.replicate(number)
        assert replicate.subset == number % 5
        assert replicate.seeds == dict.fromkeys(("initialization", "order", "noise"), seed)
    assert [full.replicate(r).initialization for r in range(3)] == [31, 42, 53]


def test_few_shot_epochs_are_the_papers_or_make_as_many_updates() -> None:
    cmlm = {20: (350, 200), 100: (100, 50), 1000: (10, 5), 40: (233, 130), 9000: (3, 3)}
    for rows, (epochs, post_epochs) in cmlm.items():
        expected = {**AUTHORS_TRAINING, "epochs": epochs, "post_epochs": post_epochs}
        assert cmlm_few_shot_training(rows, 16) == expected
    gunel = {(1, 16): 100, (20, 16): 80, (112, 16): 15, (1000, 16): 10, (1000, 128): 13}
    for (rows, batch_size), epochs in gunel.items():
        found = gunel_few_shot_training(rows, batch_size)
        assert found == {"epochs": epochs, "probe_epochs": epochs}


@pytest.mark.parametrize(
    ("name", "train", "training", "validation"),
    [
        ("lacon", MANY, [4750, 4750], [250, 250]),
        ("lacon", [0] * 1500 + [1] * 400 + [2] * 1000, [950, 380, 950], [50, 20, 50]),
        ("lacon-classes:2", MANY, [950, 950], [50, 50]),
        ("lacon-classes:3", [0] * 1500 + [1] * 1200 + [2] * 400, [950, 950, 380], [50, 50, 20]),
    ],
)
def test_lacon_caps_the_rows_of_each_class_and_holds_out_a_twentieth(
    name: str, train: list[int], training: list[int], validation: list[int]
) -> None:
    data = labeled(train=train, **VALIDATION)
    first, second = splits_of(name, data), splits_of(name, data, 1)
    assert counts(first.train, data) == training
    assert counts(first.validation, data) == validation
    assert first.train.digest != second.train.digest
    assert first.validation.digest != second.validation.digest
    notes = " ".join(first.notes)
    assert "drawn anew in each replicate" in notes
    assert (f"classes: the first {len(training)} classes" in notes) == (name != "lacon")


def test_lacon_uses_all_rows_of_three_tasks_and_of_scores() -> None:
    scores = labeled(train=[n / 2 for n in range(12400)], validation=[0.5, 1.5])
    tasks = [labeled(name, train=MANY, **VALIDATION) for name in ("mrpc", "rte", "cola")]
    for data in (*tasks, scores):
        first, second = splits_of("lacon", data), splits_of("lacon", data, 1)
        assert first.digests == second.digests
        both = np.concatenate([first.train.index, first.validation.index])
        assert sorted(both) == list(range(12400))
        assert first.notes == (
            "test: all of the validation split, 2 rows",
            "validation: 620 rows, 5% of the 12400 training rows",
        )


@given(train=st.lists(st.integers(0, 2), min_size=60, max_size=200), number=st.integers(0, 30))
def test_lacon_few_shot_validation_has_as_many_rows_of_each_class_as_training(
    train: list[int], number: int
) -> None:
    data = labeled(train=[0, 1, 2] * 8 + train, **VALIDATION)
    splits = splits_of("lacon-fewshot", data, number, Size(per_class=4))
    assert counts(splits.train, data) == counts(splits.validation, data) == [4, 4, 4]
    assert not {*splits.train.index} & {*splits.validation.index}
    in_total = splits_of("lacon-fewshot", data, number, 20)
    assert counts(in_total.train, data) == counts(in_total.validation, data)
    assert len(in_total.validation.index) == 20
    few = labeled(train=[0] * 60 + [1] * 27, **VALIDATION)
    splits = splits_of("lacon-fewshot", few, number, Size(per_class=20))
    assert counts(splits.validation, few) == [20, 7]
    note = "validation: 27 other rows of the training split, fewer than the 40 for training"
    assert splits.notes[-1] == note


def test_the_rarer_class_has_32_rows_and_the_other_rho_times_as_many() -> None:
    for rho, rows, expected in ((20, (1500, 1300), [640, 32]), (20, (1300, 1500), [32, 640])):
        data = labeled(train=[0] * rows[0] + [1] * rows[1], **VALIDATION)
        splits = splits_of(f"lacon-imbalance:{rho}", data, 3)
        assert counts(splits.train, data) == counts(splits.validation, data) == expected
        few, many = ("yes", "no") if expected[1] == 32 else ("no", "yes")
        assert f"training: 32 of {few!r} and 640 of {many!r}" in splits.notes


def test_the_first_classes_form_a_separate_task() -> None:
    whole = labeled(train=[0, 1, 2, 2, 0, 1], validation=[2, 1])
    data = PROTOCOLS["lacon-classes:2"].data(whole)
    assert (data.task.name, data.task.labels) == ("toy", ("no", "yes"))
    train, validation = data.splits["train"], data.splits["validation"]
    assert train.texts == tuple((f"train {n}",) for n in (0, 1, 4, 5))
    assert train.y.tolist() == [0, 1, 0, 1]
    assert validation.texts == (("validation 1",),)
    assert PROTOCOLS["lacon-classes:3"].data(whole).digest == whole.digest != data.digest
