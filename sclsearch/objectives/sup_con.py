"""Supervised contrastive loss (Khosla et al., 2020, https://arxiv.org/abs/2004.11362)."""

from typing import Literal

import torch
from torch import Tensor

from sclsearch.objectives.cosine import dots, unit

Reduction = Literal["mean_valid", "mean_all", "sum"]


def sup_con(
    z: Tensor, y: Tensor, *, tau: float = 0.07, reduction: Reduction = "mean_valid"
) -> Tensor:
    r"""L_out^sup, Eq. (2): the mean over positives is outside the log.

    $$\ell_i = \frac{-1}{|P(i)|} \sum_{p \in P(i)}
      \log \frac{\exp(z_i \cdot z_p / \tau)}{\sum_{a \ne i} \exp(z_i \cdot z_a / \tau)}$$

    The same sum is Eq. (3) of Gunel et al. and Eq. (2) of SupCL-Seq. Departs from them in two
    things: an anchor without a positive costs 0 instead of 1/0, and the anchors are averaged
    unless `sum` is asked for. The factor tau / 0.07 of Khosla's code is left out. The loss never
    goes below the mean of log |P(i)|, so figures of different batches are not comparable.

    Args:
        z: Embeddings, `[N, d]`; L2-normalised here. Views of one text are rows like any other.
        y: Class of each row, `[N]`, integer.
        tau: Temperature τ > 0.
        reduction: Over anchors: their mean where there is a positive, their mean with the lonely
            ones as 0, or their sum.

    Returns:
        The loss, a scalar, float32 or float64, with a finite gradient in `z` whatever `y` is.
    """
    z = unit(z)
    own = torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = (y[:, None] == y[None, :]) & ~own  # [N, N]
    log_p = (dots(z, z) / tau).masked_fill(own, -torch.inf).log_softmax(dim=1)
    costs = -(log_p.masked_fill(~positive, 0.0)).sum(1) / positive.sum(1).clamp(min=1)  # [N]
    if reduction == "sum":
        return costs.sum()
    anchors = positive.any(1).sum().clamp(min=1) if reduction == "mean_valid" else len(y)
    return costs.sum() / anchors
