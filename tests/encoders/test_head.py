"""Tests of the classification head, the projection g and label vectors."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sclsearch.encoders.heads import INIT_STD, Head, label_vectors, projection

Z = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture(params=[True, False], ids=["dense", "linear"])
def hidden(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(("classes", "shape"), [(0, (3,)), (1, (3, 1)), (2, (3, 2)), (5, (3, 5))])
def test_the_output_has_one_column_per_class_and_none_in_regression(
    hidden: bool, classes: int, shape: tuple[int, ...]
) -> None:
    head = Head(4, classes, hidden=hidden)
    assert head(Z, 0.1).shape == shape
    assert head(Z[:1], 0.1).shape == (1, *shape[1:])


def test_without_dropout_the_head_equals_its_formula(hidden: bool) -> None:
    head = Head(4, 2, hidden=hidden)
    features = Z if head.dense is None else torch.tanh(Z @ head.dense.weight.T + head.dense.bias)
    torch.testing.assert_close(head.features(Z, 0.0), features)
    torch.testing.assert_close(head(Z, 0.0), features @ head.out.weight.T + head.out.bias)


def test_evaluation_has_no_dropout(hidden: bool) -> None:
    head = Head(4, 2, hidden=hidden).eval()
    assert torch.equal(head(Z, 0.9), head(Z, 0.0))


def test_dropout_precedes_each_linear_layer_in_training(hidden: bool) -> None:
    head = Head(4, 2, hidden=hidden)
    torch.manual_seed(3)
    found = head(Z, 0.5)
    torch.manual_seed(3)
    features = Z if head.dense is None else head.dense(F.dropout(Z, 0.5)).tanh()
    assert torch.equal(found, head.out(F.dropout(features, 0.5)))


def test_initial_weights_are_small_and_biases_zero(hidden: bool) -> None:
    torch.manual_seed(0)
    head = Head(64, 64, hidden=hidden)
    for name, parameter in head.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            assert parameter.std().item() == pytest.approx(INIT_STD, rel=0.1)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_relu_is_between_the_layers_of_g(layers: int) -> None:
    g = projection(4, layers=layers)
    expected = Z
    linear = [module for module in g if isinstance(module, nn.Linear)]
    assert {layer.weight.shape for layer in linear} == {(4, 4)}
    assert len(linear) == layers
    for number, layer in enumerate(linear, 1):
        expected = F.linear(expected, layer.weight, layer.bias)
        expected = expected.relu() if number < layers else expected
    torch.testing.assert_close(g(Z), expected)


def test_label_vectors_have_the_standard_deviation_of_bert() -> None:
    torch.manual_seed(0)
    vectors = label_vectors(50, 64)
    assert vectors.weight.shape == (50, 64)
    assert vectors.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert vectors.weight.mean().item() == pytest.approx(0.0, abs=0.002)
