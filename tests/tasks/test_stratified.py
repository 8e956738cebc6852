"""Tests of stratified splits: row counts, class shares and pinned draws."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sclsearch.tasks.base import Split
from sclsearch.tasks.own_rows import draw_splits

FRACTIONS = [(0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (0.6, 0.4, 0.0), (0.9, 0.0, 0.1), (1.0, 0.0, 0.0)]


def numbered(y: list[int]) -> Split:
    return Split(tuple((str(n),) for n in range(len(y))), np.array(y, np.int64))


@given(st.lists(st.integers(0, 4), min_size=30, max_size=200), st.sampled_from(FRACTIONS))
def test_every_row_is_drawn_once_and_every_class_has_its_share(
    y: list[int], fractions: tuple[float, float, float]
) -> None:
    assume(len(set(y)) <= len(y) * fractions[0] / 2)
    splits = draw_splits(numbered(y), fractions, "rows.csv")
    rows = [int(text) for split in splits.values() for (text,) in split.texts]
    assert sorted(rows) == list(range(len(y)))
    assert [y[row] for row in rows] == [label for split in splits.values() for label in split.y]
    names = ("train", "validation", "test")
    assert set(splits) == {n for n, share in zip(names, fractions, strict=True) if share}
    assert set(splits["train"].y) == set(y)
    total = np.bincount(y, minlength=5)
    for name, share in zip(names[1:], fractions[1:], strict=True):
        if share:
            assert len(splits[name]) == max(1, round(share * len(y)))
            counts = np.bincount(splits[name].y, minlength=5)
            # Each class with remaining rows first gets one row; then the shares are rounded.
            assert np.abs(counts - share * total).max() <= 5
    fewest = min(share for share in fractions if share) * len(y)
    if min(total[total > 0]) >= 3 and fewest >= len(set(y)) + 1:
        assert all(set(split.y) == set(y) for split in splits.values())


def test_the_draw_is_pinned_and_scores_are_drawn_at_random() -> None:
    splits = draw_splits(numbered([0, 1] * 10), (0.8, 0.1, 0.1), "rows.csv")
    assert splits["validation"].texts == (("11",), ("14",))
    assert splits["test"].texts == (("0",), ("3",))
    y = np.random.default_rng(0).permutation(np.arange(100.0))
    splits = draw_splits(Split(tuple((str(score),) for score in y), y), (0.8, 0.1, 0.1), "rows.csv")
    assert [len(split) for split in splits.values()] == [80, 10, 10]
    assert sorted(score for split in splits.values() for score in split.y) == sorted(y)


@pytest.mark.parametrize(
    ("rare", "expected"), [(1, (1, 0, 0)), (2, (1, 1, 0)), (3, (1, 1, 1)), (7, (5, 1, 1))], ids=str
)
def test_rows_of_a_rare_class_go_to_training_then_validation_then_test(
    rare: int, expected: tuple[int, int, int]
) -> None:
    splits = draw_splits(numbered([0] * (200 - rare) + [1] * rare), (0.8, 0.1, 0.1), "rows.csv")
    assert [len(split) for split in splits.values()] == [160, 20, 20]
    assert tuple(int(split.y.sum()) for split in splits.values()) == expected
