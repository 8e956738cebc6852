"""Tests of normalization and of similarities under autocast."""

import pytest
import torch

from sclsearch.objectives.cosine import normalize, similarities


def test_normalize_gives_vectors_of_length_1_and_keeps_zeros() -> None:
    z = torch.tensor([[[3.0, 4.0], [0.0, 0.0]], [[-2.0, 0.0], [1e-20, 0.0]]])
    expected = torch.tensor([[[0.6, 0.8], [0.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]]])
    torch.testing.assert_close(normalize(z), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_normalize_computes_lengths_of_half_precision_in_float32(dtype: torch.dtype) -> None:
    z = torch.full((2, 400), 6e4, dtype=dtype)
    found = normalize(z)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.full((2, 400), 0.05))


def test_similarities_are_in_float32_under_autocast() -> None:
    a = torch.tensor([[1.0, 0.001], [0.0, 2.0]])
    b = torch.tensor([[1.0, 1.0], [3.0, -1.0], [0.5, 0.0]])
    expected = torch.tensor([[1.001, 2.999, 0.5], [2.0, -2.0, 0.0]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(similarities(a, b), expected)
        torch.testing.assert_close(
            similarities(a, torch.stack([b, -b])), torch.stack([expected, -expected])
        )
