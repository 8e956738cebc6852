"""Mapping of a trained head onto the classification head of a transformers architecture.

A head is one or two linear layers on a pooled state. transformers computes exactly its scores for
three kinds of architectures:

- Heads of dense, tanh and linear layer on the first token (BERT and ALBERT keep the dense layer in
  the pooler; RoBERTa, XLM-RoBERTa, CamemBERT and MPNet in the head) take a head of two layers.
- Heads whose activation f has f(a) - f(-a) = a (ReLU in DistilBERT, GELU in ELECTRA) take a head of
  one layer: their dense layer computes every score and its negative, the linear layer subtracts.
- DeBERTa's config names the activation of its head, so it takes both.

Other heads, and heads on the mean over tokens, have no counterpart in transformers. transformers
loads them with the code in `pooled_classifier.py`, which `auto_map` names; sentence-transformers
loads them without code, as a model whose `encode` returns the class scores. (An additional layer of
BERT could compute the mean over tokens exactly in float32, but it needs numbers that overflow in
float16, and not all architectures permit it.)
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from sclsearch.encoders.models import ENCODER
from sclsearch.reports.predictor import write_json

Tensors = Mapping[str, Tensor]
OUT = {"head.out.weight", "head.out.bias"}
HIDDEN = {"head.dense.weight", "head.dense.bias"}
POOLER = "pooler."
CODE = Path(__file__).with_name("pooled_classifier.py")
"""Code that transformers runs."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Linear layer of a head; tanh may follow."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor  # [outputs]
    tanh: bool = False


@dataclass(frozen=True, slots=True)
class PooledHead:
    """Head as plain layers on the state of the first token, or on the mean over tokens.

    The last layer has one output per class.
    """

    pooling: Literal["first", "mean"]
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class SequenceClassifier:
    """A `…ForSequenceClassification` class of transformers: weights, and fields of config.json."""

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
    """Return a method's head as layers on a pooled state; None if it is another kind of head."""
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


def write_pooled_classifier(
    folder: Path, head: PooledHead, labels: Sequence[str], max_length: int
) -> None:
    """Add the files of a head to an export with an `encoder` folder."""
    from sclsearch.training.evaluation import save_tensors

    mean = head.pooling == "mean"
    modules = {ENCODER: "Transformer", "1_Pooling": "Pooling"}
    write_json(folder / ENCODER / "sentence_bert_config.json", {"max_seq_length": max_length})
    (folder / "1_Pooling").mkdir()
    write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": head.layers[0].weight.shape[1],
            "pooling_mode_cls_token": not mean,
            "pooling_mode_mean_tokens": mean,
        },
    )
    for number, layer in enumerate(head.layers, 2):
        name = f"{number}_Dense"
        modules[name] = "Dense"
        (folder / name).mkdir()
        write_json(
            folder / name / "config.json",
            {
                "in_features": layer.weight.shape[1],
                "out_features": layer.weight.shape[0],
                "bias": True,
                "activation_function": "torch.nn.modules."
                + ("activation.Tanh" if layer.tanh else "linear.Identity"),
            },
        )
        tensors = {"linear.weight": layer.weight, "linear.bias": layer.bias}
        save_tensors(folder / name / "model.safetensors", tensors, {"format": "pt"})
    code = f"{CODE.stem}.PooledClassifier"
    shutil.copyfile(CODE, folder / CODE.name)
    write_json(
        folder / "config.json",
        {
            "model_type": "sclsearch-pooled-classifier",
            "architectures": ["PooledClassifier"],
            "auto_map": {"AutoConfig": f"{code}Config", "AutoModelForSequenceClassification": code},
            "dtype": "float32",
            "pooling": head.pooling,
            "layers": [path for path, kind in modules.items() if kind == "Dense"],
            "tanh": [layer.tanh for layer in head.layers],
            **label_fields(labels),
        },
    )
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules.items())
    ]
    write_json(folder / "modules.json", listed)
