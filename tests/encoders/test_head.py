"""The head: shapes, its two forms, and dropout in training alone."""

import pytest
import torch
import torch.nn.functional as F

from sclsearch.encoders.head import INIT_STD, Head

Z = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture(params=[True, False], ids=["dense", "linear"])
def hidden(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(("classes", "shape"), [(0, (3,)), (1, (3, 1)), (2, (3, 2)), (5, (3, 5))])
def test_classes_have_logits_and_regression_has_one_score_a_row(
    hidden: bool, classes: int, shape: tuple[int, ...]
) -> None:
    assert Head(4, classes, hidden=hidden)(Z, 0.1).shape == shape


def test_one_row_keeps_its_row_in_regression() -> None:
    assert Head(4, 0, hidden=True)(Z[:1], 0.0).shape == (1,)


def test_without_dropout_the_head_is_its_formula(hidden: bool) -> None:
    head = Head(4, 2, hidden=hidden)
    features = Z if head.dense is None else torch.tanh(Z @ head.dense.weight.T + head.dense.bias)
    torch.testing.assert_close(head.features(Z, 0.0), features)
    torch.testing.assert_close(head(Z, 0.0), features @ head.out.weight.T + head.out.bias)


def test_evaluation_has_no_dropout(hidden: bool) -> None:
    head = Head(4, 2, hidden=hidden).eval()
    assert torch.equal(head(Z, 0.9), head(Z, 0.0))


def test_training_drops_before_each_linear_layer(hidden: bool) -> None:
    head = Head(4, 2, hidden=hidden)
    torch.manual_seed(3)
    found = head(Z, 0.5)
    torch.manual_seed(3)
    features = Z if head.dense is None else head.dense(F.dropout(Z, 0.5)).tanh()
    assert torch.equal(found, head.out(F.dropout(features, 0.5)))


def test_contrasted_features_are_read_before_the_last_dropout() -> None:
    assert torch.equal(Head(4, 2, hidden=False).features(Z, 0.9), Z)


def test_weights_start_small_and_biases_at_zero(hidden: bool) -> None:
    torch.manual_seed(0)
    head = Head(64, 64, hidden=hidden)
    for name, parameter in head.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            assert parameter.std().item() == pytest.approx(INIT_STD, rel=0.1)
