"""Label patterns, random tensors, and the cosine of two lists."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Draw = Callable[..., Tensor]

PATTERNS = {
    "two classes": [0, 1, 0, 1, 1, 0],
    "a lonely class": [0, 0, 1, 1, 1, 2],
    "one class": [3, 3, 3, 3, 3, 3],
    "all different": [0, 1, 2, 3, 4, 5],
    "one row": [0],
}


@pytest.fixture(params=PATTERNS)
def y(request: pytest.FixtureRequest) -> Tensor:
    return torch.tensor(PATTERNS[request.param])


@pytest.fixture
def draw() -> Draw:
    """Return a function that draws normal tensors of a shape, equal in all tests."""
    generator = torch.Generator().manual_seed(5)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))
