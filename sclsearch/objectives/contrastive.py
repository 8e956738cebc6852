"""Contrastive losses, and the normalized vectors and cosines that they share.

Supervised: Khosla et al., 2020, https://arxiv.org/abs/2004.11362. On views of each text, without
labels: SimCLR (Chen et al., 2020, https://arxiv.org/abs/2002.05709), SimSiam (Chen & He, 2021,
https://arxiv.org/abs/2011.10566), and CMLM's forms (Luo et al., 2021,
https://arxiv.org/abs/2106.02327).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def normalize(z: Tensor, length: float = 1.0) -> Tensor:
    """Return the vectors of the last axis L2-normalized to a length, float32 or float64.

    A zero vector stays zero. With a small epsilon as divisor its gradient would overflow float16.
    """
    z = _wide(z)
    return z * (length / _lengths(z))


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine of each pair of vectors at the same position in `a` and `b`, `[...]`."""
    a, b = _wide(a), _wide(b)
    lengths = _lengths(a) * _lengths(b)
    return (a * b).sum(-1) / lengths.squeeze(-1)


def similarities(a: Tensor, b: Tensor) -> Tensor:
    """Return the dot products of all rows of `a`, `[..., N, d]`, and of `b`, `[..., M, d]`."""
    if not torch.is_autocast_enabled(a.device.type):
        return a @ b.mT
    with torch.autocast(a.device.type, enabled=False):  # bfloat16 is too imprecise here
        return a @ b.mT


def _wide(z: Tensor) -> Tensor:
    return z.to(torch.promote_types(z.dtype, torch.float32))


def _lengths(z: Tensor) -> Tensor:
    """Return the lengths of the vectors, `[..., 1]`; 1 for zero vectors, to avoid division by 0."""
    norm: Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return norm + (norm == 0)


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


def pair_loss(z: Tensor, y: Tensor) -> Tensor:
    r"""Return the squared error of the cosines of all pairs of a batch, as SetFit trains on pairs.

    $$\frac{1}{2} \Big( \frac{1}{|P|} \sum_{(i, j) \in P} (1 - \cos(z_i, z_j))^2
      + \frac{1}{|N|} \sum_{(i, j) \in N} \cos(z_i, z_j)^2 \Big)$$

    with the pairs P of one class and N of two classes, i ≠ j. Tunstall et al., 2022,
    https://arxiv.org/abs/2209.11055, section 3, draw as many pairs of one class as of two; here
    both kinds have the same weight. A kind without pairs adds 0.

    `z` are embeddings, `[N, d]`, and `y` their classes, `[N]`.
    """
    z = normalize(z)
    cosine, own = similarities(z, z), torch.eye(len(y), dtype=torch.bool, device=z.device)
    same = y[:, None] == y[None, :]

    def error(pairs: Tensor, target: float) -> Tensor:
        kind = pairs.to(z.dtype)
        return ((cosine - target).square() * kind).sum() / kind.sum().clamp(min=1)

    return (error(same & ~own, 1.0) + error(~same, 0.0)) / 2


def nt_xent(a: Tensor, b: Tensor, *, tau: float) -> Tensor:
    r"""Return NT-Xent, Eq. (1) of SimCLR, averaged over all 2B rows of both views as anchors.

    $$\ell_i = -\log
      \frac{\exp(\cos(z_i, z_{p(i)}) / \tau)}{\sum_{j \ne i} \exp(\cos(z_i, z_j) / \tau)}$$

    with p(i) the other view of the same text. The loss equals `sup_con` with each text as a
    separate class. ConSERT's code adds the means of the two directions, which is twice this loss.
    For a single text the loss is 0, because its positive is the only candidate.
    `a` and `b` are the embeddings of two views of the same texts, `[B, d]`.
    """
    texts, z = torch.arange(len(a), device=a.device), torch.cat([a, b])
    z = normalize(z)
    below = torch.full((len(z),), -torch.inf, dtype=z.dtype, device=z.device).diag()
    logits = similarities(z / tau, z).add_(below)
    return F.cross_entropy(logits, torch.cat([texts + len(a), texts]))


def sim_clr(h0: Tensor, hk: Tensor, *, tau: float) -> Tensor:
    r"""Return Eq. (7) of CMLM: contrast of each first view with all texts of every view k.

    $$\frac{-1}{K B} \sum_{k=1}^{K} \sum_{b=1}^{B} \log
      \frac{\exp(\cos(h_b^k, h_b^0) / \tau)}{\sum_{i=1}^{B} \exp(\cos(h_i^k, h_b^0) / \tau)}$$

    Unlike `nt_xent` it has one direction and does not compare texts within one view.
    The anchors are the states of the first view, `[B, d]`, the candidates those of the K other
    views, `[K, B, d]`.
    """
    anchors, texts = normalize(h0, 1 / tau), torch.arange(len(h0), device=h0.device)
    costs = [F.cross_entropy(similarities(anchors, view), texts) for view in normalize(hk)]
    return torch.stack(costs).mean()


def sim_siam(z0: Tensor, zk: Tensor, h0: Tensor, hk: Tensor) -> Tensor:
    r"""Return Eq. (9) of CMLM: each view predicts the other, with no gradient into the target.

    $$\frac{1}{K B} \sum_{k=1}^{K} \sum_{b=1}^{B}
      \exp(-\tfrac{1}{2} (D(z_b^k, h_b^0) + D(z_b^0, h_b^k)))$$

    with D(z, h) the cosine of z and h, and no gradient into h, Eq. (11). The loss is between 1/e
    and e. SimSiam itself has no exponential.

    Args:
        z0: Output of the predictor for `h0`, Eq. (10), `[B, d]`.
        zk: Output of the predictor for `hk`, `[K, B, d]`.
        h0: States of the first view, `[B, d]`.
        hk: States of the K other views, `[K, B, d]`.
    """
    agreement = (cosines(zk, h0.detach()) + cosines(z0, hk.detach())) / 2  # [K, B]
    return (-agreement).exp().mean()


def feature_spread(h: Tensor) -> Tensor:
    """Return the spread of the directions of states `[B, d]`, from 0 (collapsed) to 1; no gradient.

    It is √d times the measure in section 4.1 of Chen & He. They average the standard deviation over
    the batch of each coordinate of the normalized states. Their mean is 0 for constant states and
    1/√d for evenly spread directions. The deviation is that of the population: one row gives 0, and
    B evenly spread rows give about √(1 - 1/B).
    """
    return normalize(h.detach()).std(dim=0, correction=0).mean() * math.sqrt(h.shape[1])
