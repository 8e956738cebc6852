"""SimSiam as CMLM uses it, and a gauge of whether it has collapsed.

SimSiam: Chen & He, 2021, https://arxiv.org/abs/2011.10566. CMLM: Luo et al., 2021,
https://arxiv.org/abs/2106.02327.
"""

import math
from typing import Literal

from torch import Tensor

from sclsearch.objectives.cosine import cosines, normalize

Wrap = Literal["exp", "neg_cos"]


def sim_siam(z0: Tensor, zk: Tensor, h0: Tensor, hk: Tensor, *, wrap: Wrap = "exp") -> Tensor:
    r"""Eq. (9) of CMLM: each view predicts the other, and only the prediction learns.

    $$\frac{1}{K B} \sum_{k=1}^{K} \sum_{b=1}^{B}
      \exp(-\tfrac{1}{2} (D(z_b^k, h_b^0) + D(z_b^0, h_b^k)))$$

    with D(z, h) the cosine of z and h, and no gradient into h, Eq. (11).

    Args:
        z0: What the predictor makes of `h0`, Eq. (10), `[B, d]`.
        zk: What it makes of `hk`, `[K, B, d]`.
        h0: States of the first view, `[B, d]`.
        hk: States of the K others, `[K, B, d]`.
        wrap: The paper's exponential, between 1/e and e, or SimSiam's own negative cosine, between
            -1 and 1; the gradient of a pair is the latter's times the former's value.

    Returns:
        The loss, a scalar, float32 or float64.
    """
    agreement = (cosines(zk, h0.detach()) + cosines(z0, hk.detach())) / 2  # [K, B]
    return ((-agreement).exp() if wrap == "exp" else -agreement).mean()


def feature_spread(h: Tensor) -> Tensor:
    """Returns how far the directions of some states are spread: 0 if collapsed, at most 1.

    Section 4.1 of Chen & He: the standard deviation of each coordinate of the normalised states
    over the batch, averaged, is 0 for constant states and 1/√d for directions spread evenly;
    √d times that. The deviation is the population's, so one row gives 0, and B rows spread evenly
    about √(1 - 1/B).

    Args:
        h: States, `[B, d]`.

    Returns:
        A scalar, float32 or float64, without gradient.
    """
    return normalize(h.detach()).std(dim=0, correction=0).mean() * math.sqrt(h.shape[1])
