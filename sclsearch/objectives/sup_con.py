"""Supervised contrastive loss (Khosla et al., 2020, https://arxiv.org/abs/2004.11362)."""

from typing import Any, Literal

import torch
from torch import Tensor

from sclsearch.objectives.cosine import normalize, similarities

Reduction = Literal["mean_valid", "mean_all", "sum"]

MANY = 2048
"""Least number of rows for which anchors are processed in blocks, which changes the sum order."""
BLOCK = 2**21
"""Pairs per block; with 8192 rows a block has 256 anchors."""


def sup_con(
    z: Tensor, y: Tensor, *, tau: float = 0.07, reduction: Reduction = "mean_valid"
) -> Tensor:
    r"""Return the supervised contrastive loss L_out^sup, Eq. (2), with the mean outside the log.

    $$\ell_i = \frac{-1}{|P(i)|} \sum_{p \in P(i)}
      \log \frac{\exp(z_i \cdot z_p / \tau)}{\sum_{a \ne i} \exp(z_i \cdot z_a / \tau)}$$

    The same sum is Eq. (3) of Gunel et al. and Eq. (2) of SupCL-Seq. Two departures from them: an
    anchor without a positive has loss 0 instead of 1/0, and the anchors are averaged unless
    `reduction` is `sum`. The factor tau / 0.07 of Khosla's code is omitted. The loss is at least
    the mean of log |P(i)|. Loss values of batches with different class counts are therefore not
    comparable.

    With `MANY` rows or more the function does not build the matrix of all pairs.

    Args:
        z: Embeddings, `[N, d]`, which are L2-normalized here. Each view of a text is a row.
        y: Class of each row, `[N]`, integer.
        tau: Temperature τ > 0.
        reduction: Mean over anchors that have a positive, mean over all anchors, or sum.

    Returns:
        The loss, a scalar, float32 or float64, with a finite gradient in `z` for every `y`.
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
    """Return the sum of the anchors' losses, and the number of anchors with a positive."""
    own = torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = ((y[:, None] == y[None, :]) & ~own).to(z.dtype)  # [N, N]
    positives = positive.sum(1)  # [N]
    # Sums and products, because masked_fill takes several times as long. The lowest finite number
    # instead of -∞, because with -∞ a single row would have no finite gradient.
    below = torch.full_like(positives, torch.finfo(z.dtype).min).diag()
    log_p = similarities(z / tau, z).add_(below).log_softmax(dim=1)
    costs = -(log_p * positive).sum(1) / positives.clamp(min=1)
    return costs.sum(), (positives > 0).sum()


class _InBlocks(torch.autograd.Function):
    """Blockwise computation of `_of_all_pairs`, one block of anchors at a time.

    The forward pass also computes the gradient from the probabilities p of the block, Eq. (2). The
    gradient of an anchor's loss in its logits is p - [.] / |P|, where [.] is 1 at positives.
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
