"""What objectives of texts and label vectors must hold: which class has which number is nothing."""

from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest
import torch
from torch import Tensor

from sclsearch.objectives import instance_centered, label_centered, label_embedding_regularizer
from sclsearch.objectives.lacon import (
    Denominator,
    HeadReduction,
    HeadSim,
    LabelReduction,
    PositiveReduction,
    Predict,
    label_scores,
)

Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
Draw = Callable[..., Tensor]

CENTRED: dict[str, Objective] = {
    **{
        f"instance_centered {heads} {over} {similar}": partial(
            instance_centered, tau=0.1, heads=heads, head_reduction=over, head_sim=similar
        )
        for heads in (1, 2)
        for over in get_args(HeadReduction)
        for similar in get_args(HeadSim)
    },
    **{
        f"label_centered {positives} {below}": partial(
            label_centered, tau=0.1, positive_reduction=positives, denominator=below
        )
        for positives in get_args(PositiveReduction)
        for below in get_args(Denominator)
    },
}
RENAMED = torch.tensor([4, 0, 6, 1, 3, 5, 2])
WIDTH = 6


@pytest.mark.parametrize("name", CENTRED)
def test_permuting_classes_with_their_label_vectors_does_not_matter(
    name: str, y: Tensor, draw: Draw
) -> None:
    h, labels = draw(len(y), WIDTH), draw(len(RENAMED), WIDTH)
    moved = torch.empty_like(labels)
    moved[RENAMED] = labels
    found = CENTRED[name](h, moved, RENAMED[y])
    assert found.item() == pytest.approx(CENTRED[name](h, labels, y).item())


@pytest.mark.parametrize("name", CENTRED)
def test_permuting_the_label_vectors_alone_does_matter(name: str, draw: Draw) -> None:
    h, labels, y = draw(6, WIDTH), draw(len(RENAMED), WIDTH), torch.tensor([0, 1, 1, 2, 4, 0])
    found = CENTRED[name](h, labels[RENAMED], y)
    assert found.item() != pytest.approx(CENTRED[name](h, labels, y).item(), rel=1e-3)


@pytest.mark.parametrize("reduction", get_args(LabelReduction))
def test_the_regulariser_does_not_see_the_order_of_label_vectors(
    reduction: LabelReduction, draw: Draw
) -> None:
    labels = draw(len(RENAMED), WIDTH)
    found = label_embedding_regularizer(labels[RENAMED], reduction=reduction)
    expected = label_embedding_regularizer(labels, reduction=reduction)
    assert found.item() == pytest.approx(expected.item())


@pytest.mark.parametrize("predict", get_args(Predict))
def test_scores_follow_a_permutation_of_the_label_vectors(predict: Predict, draw: Draw) -> None:
    h, labels = draw(5, WIDTH), draw(len(RENAMED), WIDTH)
    found = label_scores(h, labels[RENAMED], heads=2, predict=predict)
    expected = label_scores(h, labels, heads=2, predict=predict)[:, RENAMED]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("similar", get_args(HeadSim))
def test_two_heads_see_a_rotation_that_one_does_not(similar: HeadSim, draw: Draw) -> None:
    h, labels, y = draw(6, WIDTH), draw(len(RENAMED), WIDTH), torch.tensor([0, 1, 1, 2, 4, 0])
    rotation = torch.linalg.qr(draw(WIDTH, WIDTH)).Q
    turned = h @ rotation, labels @ rotation
    for heads in (1, 2):
        objective = partial(instance_centered, tau=0.1, heads=heads, head_sim=similar)
        same = objective(*turned, y).item() == pytest.approx(objective(h, labels, y).item())
        assert same == (heads == 1)


@pytest.mark.parametrize("name", CENTRED)
def test_texts_and_label_vectors_may_come_in_different_precisions(
    name: str, y: Tensor, draw: Draw
) -> None:
    h, labels = draw(len(y), WIDTH).bfloat16(), draw(len(RENAMED), WIDTH).float()
    expected = CENTRED[name](h.float(), labels, y)
    assert torch.equal(CENTRED[name](h, labels, y), expected)
