"""Supervised contrastive loss (Khosla et al., 2020, https://arxiv.org/abs/2004.11362)."""

from typing import Any, Literal

import torch
from torch import Tensor

from sclsearch.objectives.cosine import normalize, similarities

Reduction = Literal["mean_valid", "mean_all", "sum"]

MANY = 2048
"""Rows from which on anchors are compared with all rows in blocks; another order of sums."""
BLOCK = 2**21
"""Pairs of a block; at 8192 rows that of 256 anchors."""


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

    Of `MANY` rows or more no matrix of all pairs is made.

    Args:
        z: Embeddings, `[N, d]`; L2-normalised here. Views of one text are rows like any other.
        y: Class of each row, `[N]`, integer.
        tau: Temperature τ > 0.
        reduction: Over anchors: their mean where there is a positive, their mean with the lonely
            ones as 0, or their sum.

    Returns:
        The loss, a scalar, float32 or float64, with a finite gradient in `z` whatever `y` is.
    """
    z = normalize(z)
    if len(y) < MANY:
        total, valid = _of_all_pairs(z, y, tau)
    else:
        total, valid, _ = _InBlocks.apply(z, y, tau)  # type: ignore[no-untyped-call]
    if reduction == "sum":
        return total
    return total / (valid.clamp(min=1) if reduction == "mean_valid" else len(y))


def _of_all_pairs(z: Tensor, y: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Returns the sum of all costs, and how many anchors have a positive."""
    own = torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = ((y[:, None] == y[None, :]) & ~own).to(z.dtype)  # [N, N]
    positives = positive.sum(1)  # [N]
    # Added and multiplied, since filling where a mask is takes several times as long; and the
    # lowest number instead of -∞, with which a row alone would have no gradient.
    below = torch.full_like(positives, torch.finfo(z.dtype).min).diag()
    log_p = similarities(z / tau, z).add_(below).log_softmax(dim=1)
    costs = -(log_p * positive).sum(1) / positives.clamp(min=1)
    return costs.sum(), (positives > 0).sum()


class _InBlocks(torch.autograd.Function):
    """What `_of_all_pairs` returns, a block of anchors at a time.

    The gradient is made on the way, while the block's probabilities are there: with p of Eq. (2)
    and [.] of positives, that of an anchor's cost in its logits is p - [.] / |P|.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor, y: Tensor, tau: float) -> tuple[Tensor, Tensor, Tensor]:
        rows, below = len(y), torch.finfo(z.dtype).min
        places, size = torch.arange(rows, device=z.device), max(BLOCK // rows, 1)
        total, valid = z.new_zeros(()), y.new_zeros(())
        of_others, of_anchors = torch.zeros_like(z), []
        for start in range(0, rows, size):
            block = slice(start, start + size)
            own = places[block, None] == places  # [b, N]
            positive = ((y[block, None] == y) & ~own).to(z.dtype)
            positives = positive.sum(1, keepdim=True)  # [b, 1]
            share, has_some = 1 / positives.clamp(min=1), positives > 0
            log_p = similarities(z[block] / tau, z).masked_fill_(own, below).log_softmax(dim=1)
            total = total - ((log_p * positive).sum(1, keepdim=True) * share).sum()
            valid = valid + has_some.sum()
            in_logits = log_p.exp_().addcmul(positive, share, value=-1)
            of_anchors.append(has_some * similarities(in_logits, z.mT))
            of_others = of_others + similarities(in_logits.mT, (has_some * z[block]).mT)
        return total, valid, (of_others + torch.cat(of_anchors)) / tau

    @staticmethod
    def setup_context(ctx: Any, _inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(output[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradients[0] * gradient, None, None
