"""Projection g of LaCon, and trainable label vectors."""

from torch import nn


def projection(width: int, *, layers: int = 3, final_relu: bool = False) -> nn.Sequential:
    """Return g: linear layers of one width with ReLU between them.

    Weights have the initialization of `nn.Linear`, a standard deviation of 0.02 at BERT's width.

    Args:
        width: d, of input and output.
        layers: Number of linear layers; 0 gives the identity.
        final_relu: Apply ReLU after the last layer too.
    """
    modules = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*(modules if final_relu else modules[:-1]))


def label_vectors(classes: int, width: int, std: float) -> nn.Embedding:
    """Return new label vectors as `weight`, `[C, d]`, normally distributed.

    Args:
        classes: C.
        width: d.
        std: Standard deviation. With 1, the default of `nn.Embedding`, AdamW with a learning rate
            of 2e-5 rotates the vectors by less than one degree in a whole training.
    """
    vectors = nn.Embedding(classes, width)
    nn.init.normal_(vectors.weight, std=std)
    return vectors
