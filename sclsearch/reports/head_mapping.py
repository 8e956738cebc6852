"""Mapping of a trained head onto the classification head of a transformers architecture.

A head is one or two linear layers on a pooled state. transformers computes exactly its scores for
three kinds of architectures:

- Heads of dense, tanh and linear layer on the first token (BERT and ALBERT keep the dense layer in
  the pooler; RoBERTa, XLM-RoBERTa, CamemBERT and MPNet in the head) take a head of two layers.
- Heads whose activation f has f(a) - f(-a) = a (ReLU in DistilBERT, GELU in ELECTRA) take a head of
  one layer: their dense layer computes every score and its negative, the linear layer subtracts.
- DeBERTa's config names the activation of its head, so it takes both.

Other heads, and heads on the mean over tokens, have no counterpart in transformers; the code in
`pooled_classifier.py` computes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
OUT = {"head.out.weight", "head.out.bias"}
HIDDEN = {"head.dense.weight", "head.dense.bias"}
POOLER = "pooler."


@dataclass(frozen=True, slots=True)
class Layer:
    """Linear layer of a head; tanh may follow."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor  # [outputs]
    tanh: bool = False


@dataclass(frozen=True, slots=True)
class PooledHead:
    """Head as plain layers on a pooled state of the encoder.

    Attributes:
        pooling: `first` for the state of the first token, `mean` for the mean over tokens.
        layers: Layers in order; the last one has one output per class.
    """

    pooling: Literal["first", "mean"]
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class SequenceClassifier:
    """Classifier as a `…ForSequenceClassification` class of transformers.

    Attributes:
        architecture: Name of the class.
        weights: Weights of encoder and head under the names of the class.
        config: Fields of config.json that the head needs.
    """

    architecture: str
    weights: Tensors
    config: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class _Architecture:
    """Classifier class, prefix of the encoder's weights, and the layers of its head."""

    name: str
    prefix: str
    dense: str
    out: str
    activation: Literal["tanh", "odd part", "config"]


_ROBERTA = ("classifier.dense", "classifier.out_proj")
_ARCHITECTURES = {
    "bert": _Architecture("Bert", "bert", "bert.pooler.dense", "classifier", "tanh"),
    "albert": _Architecture("Albert", "albert", "albert.pooler", "classifier", "tanh"),
    "roberta": _Architecture("Roberta", "roberta", *_ROBERTA, "tanh"),
    "xlm-roberta": _Architecture("XLMRoberta", "roberta", *_ROBERTA, "tanh"),
    "camembert": _Architecture("Camembert", "roberta", *_ROBERTA, "tanh"),
    "mpnet": _Architecture("MPNet", "mpnet", *_ROBERTA, "tanh"),
    "distilbert": _Architecture(
        "DistilBert", "distilbert", "pre_classifier", "classifier", "odd part"
    ),
    "electra": _Architecture("Electra", "electra", *_ROBERTA, "odd part"),
    "deberta": _Architecture("Deberta", "deberta", "pooler.dense", "classifier", "config"),
    "deberta-v2": _Architecture("DebertaV2", "deberta", "pooler.dense", "classifier", "config"),
}


def pooled_head(encoder: Tensors, new_modules: Tensors, pooling: str | None) -> PooledHead | None:
    """Return a method's head as layers on a pooled state; None if it is another kind of head.

    `pooling` is the method's hyperparameter; None if the method has none.
    """
    if new_modules.keys() not in (OUT, OUT | HIDDEN) or pooling is None:
        return None
    layers = []
    if pooling == "cls_pooled":
        weight, bias = (encoder.get(f"{POOLER}dense.{kind}") for kind in ("weight", "bias"))
        if weight is None or bias is None:
            return None
        layers.append(Layer(weight, bias, tanh=True))
    if new_modules.keys() >= HIDDEN:
        dense = Layer(new_modules["head.dense.weight"], new_modules["head.dense.bias"], tanh=True)
        layers.append(dense)
    layers.append(Layer(new_modules["head.out.weight"], new_modules["head.out.bias"]))
    return PooledHead("mean" if pooling == "mean" else "first", tuple(layers))


def as_sequence_classifier(
    model_type: str, encoder: Tensors, head: PooledHead
) -> SequenceClassifier | None:
    """Return a classifier as a transformers class with equal scores; None if there is none.

    `model_type` is that of the encoder's config.json; the encoder's weights have no prefix.
    """
    own = _ARCHITECTURES.get(model_type)
    if own is None or head.pooling == "mean":
        return None
    layers = _fitted(own, head.layers)
    if layers is None:
        return None
    prefix = f"{own.prefix}."
    replaced = own.dense.startswith(f"{prefix}{POOLER.rstrip('.')}")
    weights = {
        f"{prefix}{name}": tensor
        for name, tensor in encoder.items()
        if not (replaced and name.startswith(POOLER))
    }
    for name, layer in zip((own.dense, own.out), layers, strict=True):
        weights |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    config: dict[str, str | int] = {}
    if own.activation == "config":
        width = layers[0].weight.shape[0]
        activation = "tanh" if layers[0].tanh else "linear"
        config = {"pooler_hidden_act": activation, "pooler_hidden_size": width}
    return SequenceClassifier(f"{own.name}ForSequenceClassification", weights, config)


def _fitted(own: _Architecture, layers: Sequence[Layer]) -> tuple[Layer, Layer] | None:
    """Return the dense and the linear layer of an architecture's head, or None."""
    if len(layers) == 2:
        return None if own.activation == "odd part" else (layers[0], layers[1])
    if len(layers) > 2 or own.activation == "tanh":
        return None
    (out,) = layers
    classes, width = out.weight.shape
    if own.activation == "config":
        return Layer(torch.eye(width), torch.zeros(width)), out
    if 2 * classes > width:
        return None
    rest = width - 2 * classes
    dense = torch.cat([out.weight, -out.weight, torch.zeros(rest, width)])  # [d, d]
    bias = torch.cat([out.bias, -out.bias, torch.zeros(rest)])
    signs = torch.cat([torch.eye(classes), -torch.eye(classes), torch.zeros(classes, rest)], 1)
    return Layer(dense, bias), Layer(signs, torch.zeros(classes))


def label_fields(labels: Sequence[str]) -> dict[str, Any]:
    """Return the config.json fields that describe the classes, or the score for regression."""
    if not labels:
        return {"id2label": {"0": "score"}, "label2id": {"score": 0}, "problem_type": "regression"}
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": "single_label_classification",
    }
