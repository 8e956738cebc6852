"""Export formats that transformers and sentence-transformers load directly.

Two formats represent a classifier exactly, each for some encoders and poolings:

- `…ForSequenceClassification` of BERT and RoBERTa. The head is a dense layer with tanh on the
  hidden state of the first token, then a linear layer. BERT stores the dense layer in its pooler.
- A sentence-transformers folder: the encoder, first-token or mean pooling, and the linear layers
  of the head. `SentenceTransformer(FOLDER).encode(texts)` returns the logits.

Other heads (label vectors, label attention) have no such format. Only `sclsearch predict` loads
them.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

Format = Literal["transformers", "sentence-transformers", "sclsearch"]
Tensors = Mapping[str, Tensor]

HEAD = {"head.out.weight", "head.out.bias"}
HIDDEN = {"head.dense.weight", "head.dense.bias"}
# By model type: class, prefix of the encoder weights, dense layer and output layer of the head.
_CLASSIFIERS = {
    "bert": ("BertForSequenceClassification", "bert", "bert.pooler.dense", "classifier"),
    "roberta": (
        "RobertaForSequenceClassification",
        "roberta",
        "classifier.dense",
        "classifier.out_proj",
    ),
    "xlm-roberta": (
        "XLMRobertaForSequenceClassification",
        "roberta",
        "classifier.dense",
        "classifier.out_proj",
    ),
}
_MODULES = "sentence_transformers.models"


def format_of(model_type: str, parts: Tensors, pooling: str | None) -> Format:
    """Return the export format that represents a classifier exactly.

    Args:
        model_type: `model_type` in the encoder's config.json.
        parts: Trained weights of the new modules, without the encoder.
        pooling: The method's hyperparameter `pooling`; None if the method has none.
    """
    if parts.keys() not in (HEAD, HEAD | HIDDEN) or pooling is None:
        return "sclsearch"
    if pooling == "cls_pooled":
        return "transformers" if model_type == "bert" else "sclsearch"
    if pooling == "head_hidden" and model_type in _CLASSIFIERS:
        return "transformers"
    return "sentence-transformers"


def as_sequence_classifier(
    model_type: str, encoder: Tensors, parts: Tensors
) -> tuple[str, dict[str, Tensor]]:
    """Return the transformers class of a classifier and the weights under its parameter names.

    Args:
        model_type: Model type of an encoder whose `format_of` is `transformers`.
        encoder: Weights of the encoder, without a prefix.
        parts: Weights of the head.
    """
    kind, prefix, dense, out = _CLASSIFIERS[model_type]
    weights = {f"{prefix}.{name}": tensor for name, tensor in encoder.items()}
    if parts.keys() >= HIDDEN:
        weights = {n: t for n, t in weights.items() if not n.startswith(f"{prefix}.pooler.")}
    for layer, part in ((dense, "head.dense"), (out, "head.out")):
        for kind_of in ("weight", "bias"):
            if f"{part}.{kind_of}" in parts:
                weights[f"{layer}.{kind_of}"] = parts[f"{part}.{kind_of}"]
    return kind, weights


def label_fields(labels: Sequence[str]) -> dict[str, Any]:
    """Return the config.json fields that describe the classes, or the score for regression.

    Args:
        labels: Names of the classes; empty for regression.
    """
    if not labels:
        return {"id2label": {"0": "score"}, "label2id": {"score": 0}, "problem_type": "regression"}
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": "single_label_classification",
    }


def write_sentence_transformer(folder: Path, parts: Tensors, pooling: str, max_length: int) -> None:
    """Add the module files of a sentence-transformers model to a folder with an encoder.

    Args:
        folder: Folder with config.json, weights and tokenizer.
        parts: Weights of the head.
        pooling: `mean` for mean pooling; any other value for the first token.
        max_length: Maximum number of tokens; longer texts are truncated.
    """
    from sclsearch.training.result import save_tensors

    width = parts["head.out.weight"].shape[1]
    mean = pooling == "mean"
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length})
    (folder / "1_Pooling").mkdir()
    _write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": not mean,
            "pooling_mode_mean_tokens": mean,
        },
    )
    layers = [("head.dense", "Tanh")] if parts.keys() >= HIDDEN else []
    for number, (layer, activation) in enumerate([*layers, ("head.out", "Identity")], 2):
        name = f"{number}_Dense"
        modules.append((name, "Dense"))
        (folder / name).mkdir()
        weight, bias = parts[f"{layer}.weight"], parts[f"{layer}.bias"]
        module = "linear.Identity" if activation == "Identity" else f"activation.{activation}"
        _write_json(
            folder / name / "config.json",
            {
                "in_features": weight.shape[1],
                "out_features": weight.shape[0],
                "bias": True,
                "activation_function": f"torch.nn.modules.{module}",
            },
        )
        tensors = {"linear.weight": weight, "linear.bias": bias}
        save_tensors(folder / name / "model.safetensors", tensors, {"format": "pt"})
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_MODULES}.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    _write_json(folder / "modules.json", listed)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
