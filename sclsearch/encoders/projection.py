"""The projection head g of LaCon, and the label vectors that texts are compared with."""

from torch import nn


def projection(width: int, *, layers: int = 3, final_relu: bool = False) -> nn.Sequential:
    """Returns g: linear layers of one width with ReLU between them.

    Weights start as `nn.Linear` draws them, with a standard deviation of 0.02 at BERT's width.

    Args:
        width: d, of what it reads and returns.
        layers: Number of linear layers; none returns what it reads.
        final_relu: Whether ReLU follows the last layer too.
    """
    modules = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*(modules if final_relu else modules[:-1]))


def label_vectors(classes: int, width: int, std: float) -> nn.Embedding:
    """Returns fresh vectors as `weight`, `[C, d]`, normally distributed.

    Args:
        classes: C.
        width: d.
        std: Their standard deviation; at 1, as `nn.Embedding` has it, AdamW with a learning rate
            of 2e-5 turns them by less than one degree in a whole training.
    """
    vectors = nn.Embedding(classes, width)
    nn.init.normal_(vectors.weight, std=std)
    return vectors
