"""Mapping of a trained head onto the classification head of a transformers architecture.

A head is linear layers on a pooled state. BERT, ALBERT, RoBERTa, XLM-RoBERTa, CamemBERT and MPNet
have exactly such a head: dense layer, tanh and linear layer on the first token. BERT and ALBERT
keep the dense layer in the pooler.

transformers loads other heads, and those on the mean over tokens, with the code in
`pooled_classifier.py`, which `auto_map` names; sentence-transformers loads them without code, as a
model whose `encode` returns the class scores.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from sclsearch.encoders.models import ENCODER
from sclsearch.exports.predictor import write_json

Tensors = Mapping[str, Tensor]
OUT = {"head.out.weight", "head.out.bias"}
HIDDEN = {"head.dense.weight", "head.dense.bias"}
CODE = Path(__file__).with_name("pooled_classifier.py")
"""Code that transformers runs."""
_ROBERTA = ("roberta", "classifier.dense", "classifier.out_proj")
_ARCHITECTURES = {
    "bert": ("Bert", "bert", "bert.pooler.dense", "classifier"),
    "albert": ("Albert", "albert", "albert.pooler", "classifier"),
    "roberta": ("Roberta", *_ROBERTA),
    "xlm-roberta": ("XLMRoberta", *_ROBERTA),
    "camembert": ("Camembert", *_ROBERTA),
    "mpnet": ("MPNet", "mpnet", *_ROBERTA[1:]),
}
"""Name, prefix of the encoder's weights, dense and linear layer of each classifier class."""


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


def pooled_head(encoder: Tensors, new_modules: Tensors, pooling: object) -> PooledHead | None:
    """Return a method's head as layers on a pooled state; None if it is another kind of head."""
    if new_modules.keys() not in (OUT, OUT | HIDDEN) or pooling is None:
        return None
    layers = []
    if pooling == "cls_pooled":
        if not {"pooler.dense.weight", "pooler.dense.bias"} <= encoder.keys():
            return None
        layers.append(Layer(encoder["pooler.dense.weight"], encoder["pooler.dense.bias"], True))
    if new_modules.keys() >= HIDDEN:
        layers.append(Layer(new_modules["head.dense.weight"], new_modules["head.dense.bias"], True))
    layers.append(Layer(new_modules["head.out.weight"], new_modules["head.out.bias"]))
    return PooledHead("mean" if pooling == "mean" else "first", tuple(layers))


def as_sequence_classifier(
    model_type: str, encoder: Tensors, head: PooledHead
) -> tuple[str, dict[str, Tensor]] | None:
    """Return the class of transformers with equal scores and its weights; None if there is none.

    `model_type` is that of the encoder's config.json; the encoder's weights have no prefix.
    """
    own = _ARCHITECTURES.get(model_type)
    if own is None or head.pooling == "mean" or len(head.layers) != 2:
        return None
    name, prefix, *places = own
    weights = {f"{prefix}.{key}": tensor for key, tensor in encoder.items()}
    for place, layer in zip(places, head.layers, strict=True):
        weights |= {f"{place}.weight": layer.weight, f"{place}.bias": layer.bias}
    return f"{name}ForSequenceClassification", weights


def label_fields(labels: Sequence[str]) -> dict[str, Any]:
    """Return the config.json fields that describe the classes, or the score for regression."""
    names = dict(enumerate(labels or ["score"]))
    return {
        "id2label": {str(number): name for number, name in names.items()},
        "label2id": {name: number for number, name in names.items()},
        "problem_type": "single_label_classification" if labels else "regression",
    }


def write_pooled_classifier(
    folder: Path, head: PooledHead, labels: Sequence[str], max_length: int
) -> None:
    """Add the files of a head to an export with an `encoder` folder."""
    from sclsearch.training.evaluation import save_tensors

    shutil.copyfile(CODE, folder / CODE.name)
    write_json(folder / ENCODER / "sentence_bert_config.json", {"max_seq_length": max_length})
    pooling = {
        "word_embedding_dimension": head.layers[0].weight.shape[1],
        "pooling_mode_cls_token": head.pooling == "first",
        "pooling_mode_mean_tokens": head.pooling == "mean",
    }
    write_json(folder / "1_Pooling" / "config.json", pooling)
    dense = [f"{number}_Dense" for number in range(2, 2 + len(head.layers))]
    for name, layer in zip(dense, head.layers, strict=True):
        activation = "activation.Tanh" if layer.tanh else "linear.Identity"
        config = {
            "in_features": layer.weight.shape[1],
            "out_features": layer.weight.shape[0],
            "bias": True,
            "activation_function": f"torch.nn.modules.{activation}",
        }
        write_json(folder / name / "config.json", config)
        tensors = {"linear.weight": layer.weight, "linear.bias": layer.bias}
        save_tensors(folder / name / "model.safetensors", tensors, {"format": "pt"})
    code = f"{CODE.stem}.PooledClassifier"
    config = {
        "model_type": "sclsearch-pooled-classifier",
        "architectures": ["PooledClassifier"],
        "auto_map": {"AutoConfig": f"{code}Config", "AutoModelForSequenceClassification": code},
        "dtype": "float32",
        "pooling": head.pooling,
        "layers": dense,
        "tanh": [layer.tanh for layer in head.layers],
        **label_fields(labels),
    }
    write_json(folder / "config.json", config)
    kinds = {ENCODER: "Transformer", "1_Pooling": "Pooling", **dict.fromkeys(dense, "Dense")}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", modules)
