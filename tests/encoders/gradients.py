"""Gradient of an encoder as one vector."""

import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder


def with_gradient(encoder: Encoder, states: Tensor) -> tuple[Tensor, Tensor]:
    """Return states, and the encoder's gradient of a weighted sum of them."""
    encoder.zero_grad()
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
    (states * weights).sum().backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    return states.detach(), torch.cat(grads)
