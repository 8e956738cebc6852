"""LaCon: texts against label vectors (Zhang et al., 2022, https://arxiv.org/abs/2205.10227).

Both are rows of width d, and only their cosines count: lengths are divided out here.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.objectives.cosine import normalize, similarities

HeadReduction = Literal["sum", "mean"]
HeadSim = Literal["cosine", "dot"]
PositiveReduction = Literal["sum", "mean"]
Denominator = Literal["negatives", "all"]
LabelReduction = Literal["mean", "sum"]
Predict = Literal["full", "head_mean"]


def instance_centered(
    h: Tensor,
    labels: Tensor,
    y: Tensor,
    *,
    tau: float,
    heads: int = 1,
    head_reduction: HeadReduction = "sum",
    head_sim: HeadSim = "cosine",
) -> Tensor:
    r"""ICL', Eq. (4); with one head ICL, Eq. (3): a text chooses among the label vectors.

    $$\frac{-1}{B} \sum_{k=1}^{m} \sum_{i} \log
      \frac{\exp(\cos(h_i^k, l_{y_i}^k) / \tau)}{\sum_{p=1}^{C} \exp(\cos(h_i^k, l_p^k) / \tau)}$$

    With one head it is cross-entropy of the cosines over τ.

    Args:
        h: Texts, `[B, d]`.
        labels: Label vectors, `[C, d]`; all C classes, present in the batch or not.
        y: Class of each text, `[B]`, below C.
        tau: Temperature τ > 0.
        heads: m, a divisor of d: slices of the width that are compared one by one.
        head_reduction: The paper's sum over heads, or their mean, which does not grow with m.
        head_sim: The cosine of the slices, or their product as slices of vectors normalised whole.

    Returns:
        The loss, a scalar, float32 or float64.
    """
    logits = _similarities(h, labels, heads, head_sim, tau)  # [m, B, C]
    mean = F.cross_entropy(logits.flatten(0, 1), y.repeat(heads))
    return heads * mean if head_reduction == "sum" else mean


def label_centered(
    h: Tensor,
    labels: Tensor,
    y: Tensor,
    *,
    tau: float,
    positive_reduction: PositiveReduction = "sum",
    denominator: Denominator = "negatives",
) -> Tensor:
    r"""LCL, Eq. (5): a label vector p tells its texts A(p) from those of other classes B(p).

    $$\frac{-1}{|P|} \sum_{p \in P} \sum_{a \in A(p)} \log
      \frac{\exp(\cos(l_p, h_a) / \tau)}{\sum_{b \in B(p)} \exp(\cos(l_p, h_b) / \tau)}$$

    As printed, a positive is not below its own line, so a pair costs down to -2/τ + log |B(p)|,
    far below 0, and the sum over A(p) grows with the batch. Departs from the paper in one thing:
    P is the classes in the batch that have a negative, since B(p) is empty where a batch is of
    one class; such a batch costs 0.

    Args:
        h: Texts, `[B, d]`.
        labels: Label vectors, `[C, d]`.
        y: Class of each text, `[B]`, below C.
        tau: Temperature τ > 0.
        positive_reduction: The paper's sum over A(p), or the mean.
        denominator: The paper's negatives, or all texts as in `sup_con`. With all of them no
            class of the batch is left out and a pair costs at least 0; a batch of one class then
            costs 0 only where it is a single text.

    Returns:
        The loss, a scalar, float32 or float64, with finite gradients whatever `y` is.
    """
    logits = similarities(normalize(labels, 1 / tau), normalize(h))  # [C, B]
    positive = torch.arange(len(labels), device=y.device)[:, None] == y  # [C, B]
    below = ~positive if denominator == "negatives" else torch.ones_like(positive)
    counted = positive.any(1) & below.any(1)  # [C]
    # A class that does not count keeps its logits: the log of an empty sum has no gradient.
    log_sum = logits.masked_fill(~below & counted[:, None], -torch.inf).logsumexp(1, keepdim=True)
    costs = (log_sum - logits).masked_fill(~(positive & counted[:, None]), 0.0).sum(1)  # [C]
    if positive_reduction == "mean":
        costs = costs / positive.sum(1).clamp(min=1)
    return costs.sum() / counted.sum().clamp(min=1)


def label_embedding_regularizer(labels: Tensor, *, reduction: LabelReduction = "mean") -> Tensor:
    r"""LER, Eq. (6): label vectors spread out.

    $$\operatorname{avg}_{i \ne j} (\exp(1 + \cos(l_i, l_j)) - 1)$$

    Each pair is between 0 and e² - 1. All of them reach 0 with two classes only; the best C can do
    is exp(1 - 1 / (C - 1)) - 1. One class alone costs 0.

    Args:
        labels: Label vectors, `[C, d]`.
        reduction: The mean over the C (C - 1) ordered pairs, or their sum.

    Returns:
        The loss, a scalar, float32 or float64.
    """
    classes, directions = len(labels), normalize(labels)
    own = torch.eye(classes, dtype=torch.bool, device=labels.device)
    total = torch.expm1(1 + similarities(directions, directions)).masked_fill(own, 0.0).sum()
    return total / max(classes * (classes - 1), 1) if reduction == "mean" else total


def label_scores(h: Tensor, labels: Tensor, *, heads: int = 1, predict: Predict = "full") -> Tensor:
    """Returns how near each text is to each label vector, `[B, C]`; Eq. (8) takes the nearest.

    Args:
        h: Texts, `[B, d]`.
        labels: Label vectors, `[C, d]`.
        heads: Read with `head_mean`: the m of `instance_centered`.
        predict: The paper's cosine of whole vectors, or the mean of the heads' cosines, which is
            what `instance_centered` trains.
    """
    return _similarities(h, labels, 1 if predict == "full" else heads, "cosine", 1.0).mean(0)


def _similarities(h: Tensor, labels: Tensor, heads: int, head_sim: HeadSim, tau: float) -> Tensor:
    """Returns the similarity of each text and label vector in each head over τ, `[m, B, C]`."""
    if heads == 1:
        return similarities(normalize(h, 1 / tau), normalize(labels))[None]
    return similarities(_slices(h, heads, head_sim, 1 / tau), _slices(labels, heads, head_sim, 1.0))


def _slices(x: Tensor, heads: int, head_sim: HeadSim, length: float) -> Tensor:
    """Returns `[m, N, d / m]` of `[N, d]`, of a length each, or together where `dot` is asked."""
    whole = normalize(x, length) if head_sim == "dot" else x
    slices = whole.reshape(len(x), heads, -1).transpose(0, 1)
    return slices if head_sim == "dot" else normalize(slices, length)
