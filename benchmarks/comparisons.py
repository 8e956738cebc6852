"""Objectives, each with a plain formula and the same loss in pytorch-metric-learning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks import plain
from sclsearch import objectives

WIDTH, CLASSES, VOCABULARY, TAU = 384, 14, 4000, 0.1

LossFunction = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Case:
    """Objective with the functions that it is compared with.

    Attributes:
        shapes: Function that returns the shapes of the tensors for N rows.
        ours: The objective of these tensors and the classes of the rows, `[N]`.
        plain: Its plain formula.
        other: Function that makes the same loss of pytorch-metric-learning for N rows; None if
            the library does not have it.
    """

    shapes: Callable[[int], Sequence[tuple[int, ...]]]
    ours: LossFunction
    plain: LossFunction
    other: Callable[[int], LossFunction] | None = None


def rows(n: int) -> list[tuple[int, ...]]:
    """Return the shape of N rows."""
    return [(n, WIDTH)]


def halves(n: int) -> list[tuple[int, ...]]:
    """Return the shapes of two views that have N rows together."""
    return [(n // 2, WIDTH)] * 2


def with_labels(n: int) -> list[tuple[int, ...]]:
    """Return the shapes of N rows and of label vectors."""
    return [(n, WIDTH), (CLASSES, WIDTH)]


def other_sup_con(_n: int) -> LossFunction:
    """Return the supervised contrastive loss of pytorch-metric-learning."""
    from pytorch_metric_learning.losses import SupConLoss

    loss: LossFunction = SupConLoss(temperature=TAU)
    return loss


def other_nt_xent(n: int) -> LossFunction:
    """Return the same with a class per text, because NTXentLoss needs memory for N³ numbers."""
    loss, texts = other_sup_con(n), torch.arange(n // 2).repeat(2)
    return lambda a, b, y: loss(torch.cat([a, b]), texts.to(y.device))


def other_instance_centered(_n: int) -> LossFunction:
    """Return the cross-entropy of cosines of pytorch-metric-learning."""
    from pytorch_metric_learning.losses import NormalizedSoftmaxLoss

    loss = NormalizedSoftmaxLoss(CLASSES, WIDTH, temperature=TAU)
    del loss.W  # its own parameter, which the label vectors replace

    def called(h: Tensor, labels: Tensor, y: Tensor) -> Tensor:
        loss.W = labels.T
        found: Tensor = loss(h, y)
        return found

    return called


CASES: Mapping[str, Case] = {
    "sup_con": Case(
        rows,
        partial(objectives.sup_con, tau=TAU),
        partial(plain.sup_con, tau=TAU),
        other_sup_con,
    ),
    "nt_xent": Case(
        halves,
        lambda a, b, _y: objectives.nt_xent(a, b, tau=TAU),
        lambda a, b, _y: plain.nt_xent(a, b, TAU),
        other_nt_xent,
    ),
    "sim_clr": Case(
        halves,
        lambda a, b, _y: objectives.sim_clr(a, b[None], tau=TAU),
        lambda a, b, _y: plain.sim_clr(a, b, TAU),
    ),
    "instance_centered": Case(
        with_labels,
        partial(objectives.instance_centered, tau=TAU),
        partial(plain.instance_centered, tau=TAU),
        other_instance_centered,
    ),
    "label_centered": Case(
        with_labels,
        partial(objectives.label_centered, tau=TAU),
        partial(plain.label_centered, tau=TAU),
    ),
    "label_embedding_regularizer": Case(
        rows,
        lambda labels, _y: objectives.label_embedding_regularizer(labels),
        lambda labels, _y: plain.label_embedding_regularizer(labels),
    ),
    "sim_siam": Case(
        lambda n: halves(n) * 2,
        lambda z0, z1, h0, h1, _y: objectives.sim_siam(z0, z1[None], h0, h1[None]),
        lambda z0, z1, h0, h1, _y: plain.sim_siam(z0, z1, h0, h1),
    ),
    "masked_lm": Case(
        lambda n: [(n, VOCABULARY)],
        objectives.masked_lm,
        torch.nn.functional.cross_entropy,
    ),
    "prediction_loss": Case(
        lambda n: [(n, CLASSES)],
        objectives.prediction_loss,
        torch.nn.functional.cross_entropy,
    ),
}
