"""Plain formulas of the objectives, for comparison."""

import torch
import torch.nn.functional as F
from torch import Tensor


def sup_con(z: Tensor, y: Tensor, tau: float) -> Tensor:
    """Return the supervised contrastive loss."""
    z = F.normalize(z, dim=1)
    others = ~torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = (y[:, None] == y[None, :]) & others
    logits = z @ z.T / tau
    log_p = logits - (logits.exp() * others).sum(1, keepdim=True).log()
    costs = -(log_p * positive).sum(1) / positive.sum(1).clamp(min=1)
    return costs[positive.any(1)].mean()


def nt_xent(a: Tensor, b: Tensor, tau: float) -> Tensor:
    """Return SimCLR's loss of two views."""
    z = F.normalize(torch.cat([a, b]), dim=1)
    own = torch.eye(len(z), dtype=torch.bool, device=z.device)
    logits = (z @ z.T / tau).masked_fill(own, -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(a)))


def sim_clr(a: Tensor, b: Tensor, tau: float) -> Tensor:
    """Return SimCLR's loss with the rows of `a` as the only anchors."""
    logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / tau
    return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


def instance_centered(h: Tensor, labels: Tensor, y: Tensor, tau: float) -> Tensor:
    """Return LaCon's ICL."""
    return F.cross_entropy(F.normalize(h, dim=1) @ F.normalize(labels, dim=1).T / tau, y)


def label_centered(h: Tensor, labels: Tensor, y: Tensor, tau: float) -> Tensor:
    """Return LaCon's LCL of a batch that has all classes."""
    logits = F.normalize(labels, dim=1) @ F.normalize(h, dim=1).T / tau  # [C, B]
    positive = torch.arange(len(labels), device=y.device)[:, None] == y
    below = (logits.exp() * ~positive).sum(1, keepdim=True).log()
    return -((logits - below) * positive).sum(1).mean()


def label_embedding_regularizer(labels: Tensor) -> Tensor:
    """Return LaCon's LER."""
    z = F.normalize(labels, dim=1)
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    return ((torch.exp(1 + z @ z.T) - 1) * others).sum() / others.sum()


def sim_siam(z0: Tensor, z1: Tensor, h0: Tensor, h1: Tensor) -> Tensor:
    """Return CMLM's form of SimSiam with two views."""
    agreement = F.cosine_similarity(z1, h0.detach()) + F.cosine_similarity(z0, h1.detach())
    return (-agreement / 2).exp().mean()
