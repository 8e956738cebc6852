"""Masked-language-model head, from the checkpoint if it has one, else newly initialized."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import INIT_STD

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class _Layout(NamedTuple):
    """Names in a checkpoint of the dense layer, the norm and the module with the vocabulary bias.

    `activation` is the field of config.json with the activation; empty if it is always GELU.
    """

    dense: str
    norm: str
    decoder: str
    activation: str = ""


BERT = "cls.predictions"
LAYOUTS = (
    _Layout(f"{BERT}.transform.dense", f"{BERT}.transform.LayerNorm", BERT, "hidden_act"),
    _Layout("lm_head.dense", "lm_head.layer_norm", "lm_head"),  # RoBERTa, XLM-R, CamemBERT, MPNet
    _Layout("vocab_transform", "vocab_layer_norm", "vocab_projector", "activation"),  # DistilBERT
    _Layout("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
    _Layout("head.dense", "head.norm", "decoder", "classifier_activation"),  # ModernBERT
)
# ModernBERT's layers have no biases: zero biases are equivalent.
NEEDED = frozenset({"dense.weight", "norm.weight", "bias"})
BERT_EPSILON = 1e-12


class MaskedLMHead(nn.Module):
    """Masked-LM head: dense layer, activation, norm, product with the input embeddings, and a bias.

    The embeddings belong to the encoder, so the caller passes them to each call.

    Args:
        width: d, the size of a state.
        embedding: e, the size of an input embedding, which differs from d in ELECTRA.
        vocabulary: Number of tokens that can be predicted.
        epsilon: Epsilon of the norm.
        activation: Name of the activation in transformers.
    """

    def __init__(
        self, width: int, embedding: int, vocabulary: int, epsilon: float, activation: str
    ) -> None:
        from transformers.activations import ACT2FN

        super().__init__()
        self.activation: nn.Module = ACT2FN[activation]
        self.dense = nn.Linear(width, embedding)
        self.norm = nn.LayerNorm(embedding, eps=epsilon)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(vocabulary))
        nn.init.normal_(self.dense.weight, std=INIT_STD)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """Return scores over the vocabulary, `[S, vocabulary]`.

        Args:
            states: Last hidden states of the S tokens that are predicted, `[S, d]`.
            embeddings: The encoder's input embeddings, `[vocabulary, e]`.
        """
        return F.linear(self.norm(self.activation(self.dense(states))), embeddings, self.bias)


def masked_lm_head(encoder: Encoder) -> MaskedLMHead:
    """Return a masked-LM head with the checkpoint's weights, or newly initialized without them."""
    vocabulary, embedding = encoder.embeddings.shape
    config = encoder.model.config
    epsilon = getattr(config, "layer_norm_eps", getattr(config, "norm_eps", BERT_EPSILON))
    activation = encoder.masked_lm_activation
    head = MaskedLMHead(encoder.width, embedding, vocabulary, epsilon, activation)
    head.load_state_dict(encoder.masked_lm, strict=False)
    return head


def masked_lm_notes(encoder: Encoder) -> tuple[str, ...]:
    """Return a note for reports if the masked-LM head is not pretrained."""
    if encoder.masked_lm:
        return ()
    return (f"masked-LM head: new, because the checkpoint of {encoder.name} has none",)


def load_head_weights(file: Path, model: "PreTrainedModel") -> tuple[dict[str, Tensor], str]:
    """Return weights, float32, and activation of the masked-LM head in a model.safetensors.

    Without a head that has the shape of ours, there are no weights and the activation is GELU.
    """
    from safetensors import safe_open

    with safe_open(str(file), framework="pt") as tensors:
        stored = frozenset(tensors.keys())
        for layout in LAYOUTS:
            names = _names(layout, stored)
            if names.keys() >= NEEDED:
                found = {ours: tensors.get_tensor(name).float() for ours, name in names.items()}
                activation = getattr(model.config, layout.activation, "gelu")
                return (found, activation) if _fits(found, model) else ({}, "gelu")
    return {}, "gelu"


def _fits(weights: Mapping[str, Tensor], model: "PreTrainedModel") -> bool:
    """Return whether weights have the shapes of `MaskedLMHead`; MobileBERT's have others."""
    words: nn.Embedding = model.get_input_embeddings()  # type: ignore[assignment]
    vocabulary, embedding = words.weight.shape
    dense = weights["dense.weight"].shape == (embedding, model.config.hidden_size)
    return dense and weights["bias"].shape == (vocabulary,)


def _names(layout: _Layout, stored: frozenset[str]) -> dict[str, str]:
    """Return the stored name of each head weight that the checkpoint has."""
    dense, norm, decoder, _ = layout
    candidates = {
        "dense.weight": (f"{dense}.weight",),
        "dense.bias": (f"{dense}.bias",),
        "norm.weight": (f"{norm}.weight", f"{norm}.gamma"),  # gamma and beta: BERT of 2018
        "norm.bias": (f"{norm}.bias", f"{norm}.beta"),
        "bias": (f"{decoder}.bias", f"{decoder}.decoder.bias"),
    }
    return {
        ours: name for ours, known in candidates.items() for name in known[::-1] if name in stored
    }
