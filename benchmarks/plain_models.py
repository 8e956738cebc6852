"""Classifiers of `trainers.py` in plain PyTorch."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel

from benchmarks.points import Run


class Embedder(nn.Module):
    """The encoder and the mean over the tokens of a text."""

    def __init__(self, folder: Path, dropout: float) -> None:
        super().__init__()
        rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        self.model = AutoModel.from_pretrained(str(folder), dtype=torch.float32, **rates)

    def forward(self, **tokens: Tensor) -> Tensor:
        """Return `[B, d]`."""
        states = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None].to(states.dtype)
        pooled: Tensor = (states * mask).sum(1) / mask.sum(1)
        return pooled


class Joint(nn.Module):
    """`scl`: cross-entropy and contrast in one loss."""

    def __init__(self, data: Run) -> None:
        super().__init__()
        self.fields: Any = data.spec.method
        self.dropout = nn.Dropout(data.spec.training.dropout)
        self.embedder = Embedder(data.spec.model, data.spec.training.dropout)
        self.out = _linear(self.embedder, data)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        """Return loss and logits."""
        z = self.embedder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        )
        logits = self.out(self.dropout(z))
        lam = self.fields.lam
        loss = (1 - lam) * F.cross_entropy(logits, labels)
        if self.training:
            loss = loss + lam * sup_con(z, labels, self.fields.tau)
        return {"loss": loss, "logits": logits}


class Contrast(nn.Module):
    """`supcl-seq`, first stage: a forward for each dropout rate."""

    def __init__(self, data: Run) -> None:
        super().__init__()
        self.fields: Any = data.spec.method
        self.embedder = Embedder(data.spec.model, data.spec.training.dropout)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        """Return the loss."""
        views = []
        for rate in self.fields.dropouts:
            for module in self.embedder.modules():
                if isinstance(module, nn.Dropout):
                    module.p = rate
            views.append(
                self.embedder(
                    input_ids=input_ids,
                    attention_mask=attention_mask,
                    token_type_ids=token_type_ids,
                )
            )
        y = labels.repeat(len(views))
        return {"loss": sup_con(torch.cat(views), y, self.fields.tau)}


class Probe(nn.Module):
    """`supcl-seq`, second stage: a linear layer on the frozen encoder."""

    def __init__(self, data: Run, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder.requires_grad_(requires_grad=False)
        self.dropout = nn.Dropout(data.spec.training.dropout)
        self.out = _linear(embedder, data)

    def train(self, mode: bool = True) -> "Probe":
        """Set the mode of the head; the encoder never has dropout."""
        super().train(mode)
        self.embedder.eval()
        return self

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        """Return loss and logits."""
        with torch.no_grad():
            z = self.embedder(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            )
        logits = self.out(z)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def _linear(embedder: Embedder, data: Run) -> nn.Linear:
    layer = nn.Linear(embedder.model.config.hidden_size, len(data.spec.task.labels))
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def sup_con(z: Tensor, y: Tensor, tau: float) -> Tensor:
    """Return the supervised contrastive loss."""
    z = F.normalize(z, dim=1)
    others = ~torch.eye(len(y), dtype=torch.bool, device=z.device)
    positive = (y[:, None] == y[None, :]) & others
    logits = z @ z.T / tau
    log_p = logits - (logits.exp() * others).sum(1, keepdim=True).log()
    costs = -(log_p * positive).sum(1) / positive.sum(1).clamp(min=1)
    return costs[positive.any(1)].mean()
