"""Modules on top of an embedding: classification head, projection, and label vectors."""

import torch.nn.functional as F
from torch import Tensor, nn

INIT_STD = 0.02


class Head(nn.Module):
    """Head of dropout and a linear layer, or RoBERTa's head with a dense+tanh layer before it.

    It is called with embeddings and a dropout probability: `head(z, batch.dropout_rates[0])`.

    Args:
        width: d, the size of an embedding.
        classes: C; 0 in regression.
        hidden: Add a dense+tanh layer, as in RoBERTa's head.
    """

    def __init__(self, width: int, classes: int, *, hidden: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width) if hidden else None
        self.out = nn.Linear(width, max(classes, 1))
        self.regression = classes == 0
        for layer in (self.dense, self.out):
            if layer is not None:
                nn.init.normal_(layer.weight, std=INIT_STD)
                nn.init.zeros_(layer.bias)

    def features(self, z: Tensor, rate: float) -> Tensor:
        """Return the input of the linear layer, `[N, d]`, before its dropout."""
        if self.dense is None:
            return z
        hidden: Tensor = self.dense(F.dropout(z, rate, self.training))
        return hidden.tanh()

    def forward(self, z: Tensor, rate: float) -> Tensor:
        """Return logits `[N, C]`, or scores `[N]` in regression.

        Args:
            z: Embeddings, `[N, d]`.
            rate: Dropout probability; no effect in evaluation mode.
        """
        return self.read(self.features(z, rate), rate)

    def read(self, features: Tensor, rate: float) -> Tensor:
        """Return logits `[N, C]`, or scores `[N]` in regression, from features `[N, d]`."""
        logits: Tensor = self.out(F.dropout(features, rate, self.training))
        return logits.squeeze(1) if self.regression else logits


def projection(width: int, *, layers: int = 3) -> nn.Sequential:
    """Return LaCon's projection g: linear layers with ReLU between them; identity without layers.

    Weights have the initialization of `nn.Linear`, a standard deviation of 0.02 at BERT's width.
    """
    modules = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*modules[:-1])


def label_vectors(classes: int, width: int) -> nn.Embedding:
    """Return new label vectors as `weight`, `[C, d]`, normally distributed as BERT's.

    With a standard deviation of 1, the default of `nn.Embedding`, AdamW with a learning rate of
    2e-5 rotates the vectors by less than one degree in a whole training.
    """
    vectors = nn.Embedding(classes, width)
    nn.init.normal_(vectors.weight, std=INIT_STD)
    return vectors
