"""LaCon losses on texts and label vectors (Zhang et al., 2022, https://arxiv.org/abs/2205.10227).

Both are rows of width d. The losses L2-normalize them, so only their cosines matter.
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
    r"""Return the instance-centered loss ICL', Eq. (4), of texts against all label vectors.

    With one head it is ICL, Eq. (3).

    $$\frac{-1}{B} \sum_{k=1}^{m} \sum_{i} \log
      \frac{\exp(\cos(h_i^k, l_{y_i}^k) / \tau)}{\sum_{p=1}^{C} \exp(\cos(h_i^k, l_p^k) / \tau)}$$

    ICL is the cross-entropy of the cosines divided by τ.

    Args:
        h: Texts, `[B, d]`.
        labels: Label vectors, `[C, d]`, of all C classes, in the batch or not.
        y: Class of each text, `[B]`, below C.
        tau: Temperature τ > 0.
        heads: m, a divisor of d: number of slices of the width that are compared separately.
        head_reduction: The paper's sum over heads, or their mean, which does not grow with m.
        head_sim: Cosine of the slices, or dot product of slices of the normalized whole vectors.

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
    r"""Return the label-centered loss LCL, Eq. (5), of label vectors against the texts.

    A(p) are the texts of label p, and B(p) are the texts of other labels.

    $$\frac{-1}{|P|} \sum_{p \in P} \sum_{a \in A(p)} \log
      \frac{\exp(\cos(l_p, h_a) / \tau)}{\sum_{b \in B(p)} \exp(\cos(l_p, h_b) / \tau)}$$

    As printed, the denominator does not contain the positive. The loss of a pair can thus be as
    low as -2/τ + log |B(p)|, far below 0, and the sum over A(p) grows with the batch. One departure
    from the paper: P contains only classes of the batch that have a negative. B(p) is empty if all
    texts of a batch have one class; such a batch has loss 0.

    Args:
        h: Texts, `[B, d]`.
        labels: Label vectors, `[C, d]`.
        y: Class of each text, `[B]`, below C.
        tau: Temperature τ > 0.
        positive_reduction: The paper's sum over A(p), or the mean.
        denominator: The paper's negatives, or all texts as in `sup_con`. With all texts, no class
            of the batch is left out and the loss of a pair is at least 0. A batch of one class
            then has loss 0 only if it is a single text.

    Returns:
        The loss, a scalar, float32 or float64, with finite gradients for every `y`.
    """
    logits = similarities(normalize(labels, 1 / tau), normalize(h))  # [C, B]
    positive = torch.arange(len(labels), device=y.device)[:, None] == y  # [C, B]
    below = ~positive if denominator == "negatives" else torch.ones_like(positive)
    counted = positive.any(1) & below.any(1)  # [C]
    # An ignored class keeps its logits, because the log of an empty sum has no finite gradient.
    log_sum = logits.masked_fill(~below & counted[:, None], -torch.inf).logsumexp(1, keepdim=True)
    costs = (log_sum - logits).masked_fill(~(positive & counted[:, None]), 0.0).sum(1)  # [C]
    if positive_reduction == "mean":
        costs = costs / positive.sum(1).clamp(min=1)
    return costs.sum() / counted.sum().clamp(min=1)


def label_embedding_regularizer(labels: Tensor, *, reduction: LabelReduction = "mean") -> Tensor:
    r"""Return the label embedding regularizer LER, Eq. (6), which spreads the label vectors.

    $$\operatorname{avg}_{i \ne j} (\exp(1 + \cos(l_i, l_j)) - 1)$$

    Each pair contributes between 0 and e² - 1. Only with two classes can all pairs reach 0; the
    minimum for C classes is exp(1 - 1 / (C - 1)) - 1. With a single class the loss is 0.

    Args:
        labels: Label vectors, `[C, d]`.
        reduction: Mean over the C (C - 1) ordered pairs, or their sum.

    Returns:
        The loss, a scalar, float32 or float64.
    """
    classes, directions = len(labels), normalize(labels)
    own = torch.eye(classes, dtype=torch.bool, device=labels.device)
    total = torch.expm1(1 + similarities(directions, directions)).masked_fill(own, 0.0).sum()
    return total / max(classes * (classes - 1), 1) if reduction == "mean" else total


def label_scores(h: Tensor, labels: Tensor, *, heads: int = 1, predict: Predict = "full") -> Tensor:
    """Return the cosine of each text and label vector, `[B, C]`; Eq. (8) predicts the largest.

    Args:
        h: Texts, `[B, d]`.
        labels: Label vectors, `[C, d]`.
        heads: m of `instance_centered`; used only with `head_mean`.
        predict: The paper's cosine of whole vectors, or the mean of the heads' cosines, which
            `instance_centered` optimizes.
    """
    return _similarities(h, labels, 1 if predict == "full" else heads, "cosine", 1.0).mean(0)


def _similarities(h: Tensor, labels: Tensor, heads: int, head_sim: HeadSim, tau: float) -> Tensor:
    """Return the similarity, divided by τ, of each text and label vector per head, `[m, B, C]`."""
    if heads == 1:
        return similarities(normalize(h, 1 / tau), normalize(labels))[None]
    return similarities(_slices(h, heads, head_sim, 1 / tau), _slices(labels, heads, head_sim, 1.0))


def _slices(x: Tensor, heads: int, head_sim: HeadSim, length: float) -> Tensor:
    """Return normalized slices, `[m, N, d / m]`, of `[N, d]`; `dot` normalizes whole vectors."""
    whole = normalize(x, length) if head_sim == "dot" else x
    slices = whole.reshape(len(x), heads, -1).transpose(0, 1)
    return slices if head_sim == "dot" else normalize(slices, length)
