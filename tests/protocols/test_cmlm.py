"""Tests of the CMLM protocols: random splits, replicates and few-shot epochs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.methods.cmlm import AUTHORS_TRAINING
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Size, Splits
from sclsearch.protocols.papers import cmlm_few_shot_training
from sclsearch.tasks.base import TaskData
from tests.protocols.conftest import Labeled

FEW_SHOT, FULL = PROTOCOLS["cmlm-fewshot"], PROTOCOLS["cmlm-full"]


def cmlm_split(data: TaskData) -> Splits:
    return FULL.splits(data, None, FULL.replicate(0))


def sizes(splits: Splits) -> tuple[int, int]:
    return len(splits.validation.index), len(splits.test.index)


@given(rows=st.integers(2, 2000))
def test_validation_and_test_rows_partition_the_validation_split(
    labeled: Labeled, rows: int
) -> None:
    splits = cmlm_split(labeled(train=[0, 1], validation=[0] * rows))
    both = np.concatenate([splits.validation.index, splits.test.index])
    assert sorted(both) == list(range(rows))
    assert (np.diff(splits.validation.index) > 0).all()
    assert (np.diff(splits.test.index) > 0).all()
    assert len(splits.test.index) >= min(77, rows // 2)


REST = "test: the other {} rows of the validation split"
FEWER = "validation: {} random rows, fewer than the protocol's 500"


@pytest.mark.parametrize(
    ("rows", "validation", "notes"),
    [
        (872, 500, ("validation: 500 random rows", REST.format(372))),
        (577, 500, ("validation: 500 random rows", REST.format(77))),
        (576, 200, (FEWER.format(200), REST.format(376))),
        (277, 200, (FEWER.format(200), REST.format(77))),
        (71, 35, (FEWER.format(35), REST.format(36))),
    ],
    ids=["sst2", "just-enough", "too-few", "rte", "wnli"],
)
def test_a_small_task_has_fewer_validation_rows_and_a_note(
    labeled: Labeled, rows: int, validation: int, notes: tuple[str, ...]
) -> None:
    splits = cmlm_split(labeled(train=[0, 1], validation=[0, 1] * (rows // 2) + [0] * (rows % 2)))
    assert sizes(splits) == (validation, rows - validation)
    assert splits.notes == notes


def test_qqp_has_2000_test_rows_from_the_validation_split(labeled: Labeled) -> None:
    rows = [0, 1] * 3000
    splits = cmlm_split(labeled("qqp", train=[0, 1], validation=rows))
    assert sizes(splits) == (500, 2000)
    assert not {*splits.validation.index} & {*splits.test.index}
    note = "test: 2000 random of the other 5500 rows of the validation split"
    assert splits.notes == ("validation: 500 random rows", note)
    data = labeled("qqp", train=[0, 1], validation=rows)
    own = replace(data, task=replace(data.task, own=True))
    for other in (labeled("mnli", train=[0, 1], validation=rows), own):
        assert sizes(cmlm_split(other)) == (500, 5500)


@pytest.mark.parametrize(("rows", "validation"), [(600, 500), (400, 400)])
def test_a_labeled_test_split_is_used_as_test(labeled: Labeled, rows: int, validation: int) -> None:
    splits = cmlm_split(labeled(train=[0, 1], validation=[0] * rows, test=[0, 1, 1]))
    assert splits.test.split == "test"
    assert sizes(splits) == (validation, 3)
    assert len(splits.notes) == 1


def test_one_row_is_too_few_for_validation_and_test(labeled: Labeled) -> None:
    with pytest.raises(SclsearchError, match=r"^toy: .* no validation rows .* 1 rows\."):
        cmlm_split(labeled(train=[0], validation=[1]))


def test_replicates_combine_five_subsets_with_the_papers_three_seeds() -> None:
    replicates = [FEW_SHOT.replicate(number) for number in range(FEW_SHOT.replicates)]
    assert [replicate.subset for replicate in replicates] == [0, 1, 2, 3, 4] * 3
    seeds = [seed for seed in (31, 42, 53) for _ in range(5)]
    assert [replicate.seeds for replicate in replicates] == [
        {"initialization": seed, "order": seed, "noise": seed} for seed in seeds
    ]
    assert [FULL.replicate(r).initialization for r in range(FULL.replicates)] == [31, 42, 53]


def test_few_shot_rows_are_drawn_without_stratification(labeled: Labeled) -> None:
    data = labeled(train=[0] * 500 + [1] * 500, validation=[0, 1] * 300)
    subsets = [FEW_SHOT.splits(data, Size(total=40), FEW_SHOT.replicate(r)).train for r in range(5)]
    assert [len({*rows.index}) for rows in subsets] == [40] * 5
    assert all((np.diff(rows.index) > 0).all() for rows in subsets)
    assert len({int(rows.labels(data).sum()) for rows in subsets}) > 1


@pytest.mark.parametrize(
    ("rows", "epochs", "post_epochs"),
    [(20, 350, 200), (100, 100, 50), (1000, 10, 5), (40, 233, 130), (500, 21, 10), (9000, 3, 3)],
)
def test_few_shot_epochs_are_the_papers_and_interpolated_between(
    rows: int, epochs: int, post_epochs: int
) -> None:
    expected = {"epochs": epochs, "post_epochs": post_epochs}
    assert cmlm_few_shot_training(rows, 16) == {**AUTHORS_TRAINING, **expected}
