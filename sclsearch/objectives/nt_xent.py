"""Contrastive losses without labels, on views of each text: NT-Xent of SimCLR, and CMLM's form.

SimCLR: Chen et al., 2020, https://arxiv.org/abs/2002.05709. CMLM: Luo et al., 2021,
https://arxiv.org/abs/2106.02327.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.objectives.cosine import normalize, similarities
from sclsearch.objectives.sup_con import MANY, sup_con


def nt_xent(a: Tensor, b: Tensor, *, tau: float) -> Tensor:
    r"""Return NT-Xent, Eq. (1) of SimCLR, averaged over all 2B rows of both views as anchors.

    $$\ell_i = -\log
      \frac{\exp(\cos(z_i, z_{p(i)}) / \tau)}{\sum_{j \ne i} \exp(\cos(z_i, z_j) / \tau)}$$

    with p(i) the other view of the same text. The loss equals `sup_con` with each text as a
    separate class, which computes it for `MANY` rows or more.
    ConSERT's code adds the means of the two directions, which is twice this loss. For a single text
    the loss is 0, because its positive is the only candidate.

    Args:
        a: Embeddings of one view, `[B, d]`.
        b: Embeddings of the other view of the same texts, `[B, d]`.
        tau: Temperature τ > 0.

    Returns:
        The loss, a scalar, float32 or float64, at least 0.
    """
    texts, z = torch.arange(len(a), device=a.device), torch.cat([a, b])
    if len(z) >= MANY:
        return sup_con(z, texts.repeat(2), tau=tau)
    z = normalize(z)
    below = torch.full((len(z),), -torch.inf, dtype=z.dtype, device=z.device).diag()
    logits = similarities(z / tau, z).add_(below)
    return F.cross_entropy(logits, torch.cat([texts + len(a), texts]))


def sim_clr(h0: Tensor, hk: Tensor, *, tau: float) -> Tensor:
    r"""Return Eq. (7) of CMLM: contrast of each first view with all texts of every view k.

    $$\frac{-1}{K B} \sum_{k=1}^{K} \sum_{b=1}^{B} \log
      \frac{\exp(\cos(h_b^k, h_b^0) / \tau)}{\sum_{i=1}^{B} \exp(\cos(h_i^k, h_b^0) / \tau)}$$

    Unlike `nt_xent` it has one direction and does not compare texts within one view.

    Args:
        h0: The anchors: states of the first view, `[B, d]`.
        hk: The candidates: states of the K other views, `[K, B, d]`.
        tau: Temperature τ > 0.

    Returns:
        The loss, a scalar, float32 or float64, at least 0.
    """
    anchors, texts = normalize(h0, 1 / tau), torch.arange(len(h0), device=h0.device)
    costs = [F.cross_entropy(similarities(anchors, view), texts) for view in normalize(hk)]
    return torch.stack(costs).mean()
