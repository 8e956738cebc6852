"""The projection g and the label vectors: their layers and how they start."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sclsearch.encoders.projection import label_vectors, projection

Z = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.mark.parametrize("final_relu", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_relu_stands_between_layers_and_behind_the_last_if_asked(
    layers: int, final_relu: bool
) -> None:
    g = projection(4, layers=layers, final_relu=final_relu)
    expected = Z
    linear = [module for module in g if isinstance(module, nn.Linear)]
    assert len(linear) == layers
    for number, layer in enumerate(linear, 1):
        expected = F.linear(expected, layer.weight, layer.bias)
        expected = expected.relu() if number < layers or final_relu else expected
    torch.testing.assert_close(g(Z), expected)


def test_the_papers_g_has_three_layers_of_one_width() -> None:
    shapes = [tuple(parameter.shape) for parameter in projection(4).parameters()]
    assert shapes == [(4, 4), (4,)] * 3


def test_no_layer_returns_what_it_reads() -> None:
    assert torch.equal(projection(4, layers=0)(Z), Z)


def test_weights_of_g_start_as_small_as_berts_at_its_width() -> None:
    torch.manual_seed(0)
    weight = next(projection(768, layers=1).parameters())
    assert weight.std().item() == pytest.approx(0.0208, rel=0.01)


def test_label_vectors_start_with_the_deviation_that_is_asked_for() -> None:
    torch.manual_seed(0)
    vectors = label_vectors(50, 64, 0.02)
    assert vectors.weight.shape == (50, 64)
    assert vectors.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert vectors.weight.mean().item() == pytest.approx(0.0, abs=0.002)
