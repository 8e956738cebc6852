"""LaCon losses on texts and label vectors (Zhang et al., 2022, https://arxiv.org/abs/2205.10227).

Both are rows of width d. The losses L2-normalize them, so only their cosines matter.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.objectives.contrastive import normalize, similarities


def instance_centered(
    h: Tensor, labels: Tensor, y: Tensor, *, tau: float, heads: int = 1
) -> Tensor:
    r"""Return the instance-centered loss ICL', Eq. (4), of texts against all label vectors.

    With one head it is ICL, Eq. (3).

    $$\frac{-1}{B} \sum_{k=1}^{m} \sum_{i} \log
      \frac{\exp(\cos(h_i^k, l_{y_i}^k) / \tau)}{\sum_{p=1}^{C} \exp(\cos(h_i^k, l_p^k) / \tau)}$$

    ICL is the cross-entropy of the cosines divided by τ. Texts `h` are `[B, d]`, their classes `y`
    `[B]`, and label vectors `[C, d]`, of all classes, in the batch or not. `heads` is m, a divisor
    of d: the number of slices of the width that are compared separately.
    """
    if heads > 1:
        h, labels = _slices(h, heads), _slices(labels, heads)
    logits = similarities(normalize(h, 1 / tau), normalize(labels))  # [m, B, C], or [B, C]
    return heads * F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.repeat(heads))


def label_centered(h: Tensor, labels: Tensor, y: Tensor, *, tau: float) -> Tensor:
    r"""Return the label-centered loss LCL, Eq. (5), of label vectors against the texts.

    A(p) are the texts of label p, and B(p) are the texts of other labels.

    $$\frac{-1}{|P|} \sum_{p \in P} \sum_{a \in A(p)} \log
      \frac{\exp(\cos(l_p, h_a) / \tau)}{\sum_{b \in B(p)} \exp(\cos(l_p, h_b) / \tau)}$$

    As printed, the denominator does not contain the positive. The loss of a pair can thus be as
    low as -2/τ + log |B(p)|, far below 0, and the sum over A(p) grows with the batch. One departure
    from the paper: P contains only classes of the batch that have a negative. B(p) is empty if all
    texts of a batch have one class; such a batch has loss 0. The gradients are finite for every y.
    The arguments are those of `instance_centered`.
    """
    logits = similarities(normalize(labels, 1 / tau), normalize(h))  # [C, B]
    positive = torch.arange(len(labels), device=y.device)[:, None] == y  # [C, B]
    counted = positive.any(1) & ~positive.all(1)  # [C]
    # An ignored class keeps its logits, because the log of an empty sum has no finite gradient.
    positive &= counted[:, None]
    log_sum = logits.masked_fill(positive, -torch.inf).logsumexp(1, keepdim=True)
    costs = (log_sum - logits).masked_fill(~positive, 0.0).sum(1)  # [C]
    return costs.sum() / counted.sum().clamp(min=1)


def label_embedding_regularizer(labels: Tensor) -> Tensor:
    r"""Return the label embedding regularizer LER, Eq. (6), of label vectors, `[C, d]`.

    $$\operatorname{avg}_{i \ne j} (\exp(1 + \cos(l_i, l_j)) - 1)$$

    It spreads the vectors. Each pair contributes between 0 and e² - 1. Only with two classes can
    all pairs reach 0; the minimum for C classes is exp(1 - 1 / (C - 1)) - 1. With a single class
    the loss is 0.
    """
    classes, directions = len(labels), normalize(labels)
    own = torch.eye(classes, dtype=torch.bool, device=labels.device)
    total = torch.expm1(1 + similarities(directions, directions)).masked_fill(own, 0.0).sum()
    return total / max(classes * (classes - 1), 1)


def label_scores(h: Tensor, labels: Tensor) -> Tensor:
    """Return the cosine of each text and label vector, `[B, C]`; Eq. (8) predicts the largest."""
    return similarities(normalize(h), normalize(labels))


def _slices(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, -1).transpose(0, 1)
