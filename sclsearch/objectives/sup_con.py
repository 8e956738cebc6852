"""Supervised contrastive loss (Khosla et al., 2020, https://arxiv.org/abs/2004.11362)."""

import torch
from torch import Tensor

from sclsearch.objectives.cosine import normalize, similarities


def sup_con(z: Tensor, y: Tensor, *, tau: float = 0.07) -> Tensor:
    r"""Return the supervised contrastive loss L_out^sup, Eq. (2), with the mean outside the log.

    $$\ell_i = \frac{-1}{|P(i)|} \sum_{p \in P(i)}
      \log \frac{\exp(z_i \cdot z_p / \tau)}{\sum_{a \ne i} \exp(z_i \cdot z_a / \tau)}$$

    The same sum is Eq. (3) of Gunel et al. and Eq. (2) of SupCL-Seq. Two departures from them: an
    anchor without a positive is left out instead of having loss 1/0, and the other anchors are
    averaged, not summed. The gradient is finite for every `y`. The factor tau / 0.07 of Khosla's
    code is omitted. The loss is at least the mean of log |P(i)|. Loss values of batches with
    different class counts are therefore not comparable.

    Each view of a text is a row of the embeddings `z`, `[N, d]`, which are L2-normalized here, and
    of the classes `y`, `[N]`.
    """
    z = normalize(z)
    own = torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = ((y[:, None] == y[None, :]) & ~own).to(z.dtype)  # [N, N]
    positives = positive.sum(1)  # [N]
    # Sums and products, because masked_fill takes several times as long. The lowest finite number
    # instead of -∞, because with -∞ a single row would have no finite gradient.
    below = torch.full_like(positives, torch.finfo(z.dtype).min).diag()
    log_p = similarities(z / tau, z).add_(below).log_softmax(dim=1)
    total = (-(log_p * positive).sum(1) / positives.clamp(min=1)).sum()
    return total / (positives > 0).sum().clamp(min=1)
