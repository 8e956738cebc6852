"""SimSiam loss in CMLM's form, and a metric that detects its collapse.

SimSiam: Chen & He, 2021, https://arxiv.org/abs/2011.10566. CMLM: Luo et al., 2021,
https://arxiv.org/abs/2106.02327.
"""

import math
from typing import Literal

from torch import Tensor

from sclsearch.objectives.cosine import cosines, normalize

Wrap = Literal["exp", "neg_cos"]


def sim_siam(z0: Tensor, zk: Tensor, h0: Tensor, hk: Tensor, *, wrap: Wrap = "exp") -> Tensor:
    r"""Return Eq. (9) of CMLM: each view predicts the other, with no gradient into the target.

    $$\frac{1}{K B} \sum_{k=1}^{K} \sum_{b=1}^{B}
      \exp(-\tfrac{1}{2} (D(z_b^k, h_b^0) + D(z_b^0, h_b^k)))$$

    with D(z, h) the cosine of z and h, and no gradient into h, Eq. (11).

    Args:
        z0: Output of the predictor for `h0`, Eq. (10), `[B, d]`.
        zk: Output of the predictor for `hk`, `[K, B, d]`.
        h0: States of the first view, `[B, d]`.
        hk: States of the K other views, `[K, B, d]`.
        wrap: The paper's exponential, between 1/e and e, or SimSiam's original negative cosine,
            between -1 and 1. The gradient of the exponential for a pair is that of the negative
            cosine times the value of the exponential.

    Returns:
        The loss, a scalar, float32 or float64.
    """
    agreement = (cosines(zk, h0.detach()) + cosines(z0, hk.detach())) / 2  # [K, B]
    return ((-agreement).exp() if wrap == "exp" else -agreement).mean()


def feature_spread(h: Tensor) -> Tensor:
    """Return the spread of the directions of states: 0 if they collapsed, at most 1.

    It is √d times the measure in section 4.1 of Chen & He. They average the standard deviation over
    the batch of each coordinate of the normalized states. Their mean is 0 for constant states and
    1/√d for evenly spread directions. The deviation is that of the population: one row gives 0, and
    B evenly spread rows give about √(1 - 1/B).

    Args:
        h: States, `[B, d]`.

    Returns:
        A scalar, float32 or float64, without gradient.
    """
    return normalize(h.detach()).std(dim=0, correction=0).mean() * math.sqrt(h.shape[1])
