"""Modules on an encoder: heads, projection, label vectors and their attention, masked-LM head.

LEAM: Wang et al., 2018, https://arxiv.org/abs/1805.04174. LSAN: Xiao et al., 2019,
https://aclanthology.org/D19-1044. Both read the encoder's last hidden states, where the papers
have word vectors and an LSTM. Padding gets no weight and does not affect its neighbors.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

INIT_STD = 0.02


class Head(nn.Module):
    """Head of dropout and a linear layer; with `hidden` also RoBERTa's dense+tanh layer before it.

    It is called with embeddings of size `width` and a dropout probability: `head(z,
    batch.dropout_rates[0])`. Regression has 0 classes.
    """

    def __init__(self, width: int, classes: int, *, hidden: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width) if hidden else None
        self.out = nn.Linear(width, max(classes, 1))
        self.regression = classes == 0
        for layer in (self.dense, self.out):
            if layer is not None:
                nn.init.normal_(layer.weight, std=INIT_STD)
                nn.init.zeros_(layer.bias)

    def features(self, z: Tensor, rate: float) -> Tensor:
        """Return the input of the linear layer, `[N, d]`, before its dropout."""
        if self.dense is None:
            return z
        hidden: Tensor = self.dense(F.dropout(z, rate, self.training))
        return hidden.tanh()

    def forward(self, z: Tensor, rate: float) -> Tensor:
        """Return logits `[N, C]`, or scores `[N]` in regression, of embeddings `[N, d]`.

        The dropout probability `rate` has no effect in evaluation mode.
        """
        return self.read(self.features(z, rate), rate)

    def read(self, features: Tensor, rate: float) -> Tensor:
        """Return logits `[N, C]`, or scores `[N]` in regression, from features `[N, d]`."""
        logits: Tensor = self.out(F.dropout(features, rate, self.training))
        return logits.squeeze(1) if self.regression else logits


def projection(width: int, *, layers: int = 3) -> nn.Sequential:
    """Return LaCon's projection g: linear layers with ReLU between them; identity without layers.

    Weights have the initialization of `nn.Linear`, a standard deviation of 0.02 at BERT's width.
    """
    modules = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*modules[:-1])


def label_vectors(classes: int, width: int) -> nn.Embedding:
    """Return new label vectors as `weight`, `[C, d]`, normally distributed as BERT's.

    With a standard deviation of 1, the default of `nn.Embedding`, AdamW with a learning rate of
    2e-5 rotates the vectors by less than one degree in a whole training.
    """
    vectors = nn.Embedding(classes, width)
    nn.init.normal_(vectors.weight, std=INIT_STD)
    return vectors


class WindowAttention(nn.Module):
    """LEAM's attention, which weights tokens by the best label match in a window around them.

    With the vector l_c of label c and the state E_t of token t, the convolution mixes the C rows of
    G: z = Σ_t β_t E_t, β = softmax(m), m_t = max_c ReLU(conv(G))_ct, G_ct = cos(l_c, E_t). It is
    Eq. (9) of LaCon. The window has `kernel` tokens, an odd number.
    """

    def __init__(self, classes: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(classes, classes, kernel, padding=kernel // 2)

    def forward(self, states: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the weighted sum, `[B, d]`, of states `[B, T, d]`, by labels `[C, d]`."""
        return (self.weights(states, labels, mask)[:, None] @ states).squeeze(1)

    def weights(self, states: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the weight of each token, `[B, T]`; the arguments are those of `forward`."""
        cosines = F.normalize(labels, dim=-1) @ F.normalize(states, dim=-1).mT  # [B, C, T]
        matches: Tensor = self.conv(cosines * mask[:, None]).relu()
        return matches.amax(1).masked_fill(~mask, -torch.inf).softmax(1)


class LabelSpecificAttention(nn.Module):
    """LSAN's attention: one text vector per label, from a gated mix of self- and label attention.

    `width` is d, `hidden` the width of the hidden layer, W_1, of the self-attention.

        M_c = α_c M_c^l + (1 - α_c) M_c^s
        M_c^l = Σ_t (l_c·E_t) E_t
        M_c^s = Σ_t softmax_t(W_2 tanh(W_1 E_t))_c E_t
        α_c = σ(w_l·M_c^l) / (σ(w_l·M_c^l) + σ(w_s·M_c^s))
    """

    def __init__(self, width: int, classes: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, classes)
        self.own_gate = nn.Linear(width, 1)
        self.label_gate = nn.Linear(width, 1)

    def forward(self, states: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the text vector of each label, `[B, C, d]`, from states `[B, T, d]`."""
        logits = self.second(self.first(states).tanh()).mT  # [B, C, T]
        own = logits.masked_fill(~mask[:, None], -torch.inf).softmax(-1) @ states  # [B, C, d]
        by_label = (labels @ states.mT * mask[:, None]) @ states  # [B, C, d]
        gate: Tensor = self.label_gate(by_label).sigmoid()  # [B, C, 1]
        share = gate / (gate + self.own_gate(own).sigmoid())
        mixed: Tensor = share * by_label + (1 - share) * own
        return mixed


def check_window(kernel: int, where: str) -> None:
    """Raise SclsearchError if a window size is even and thus has no middle token."""
    if kernel % 2 == 0:
        raise SclsearchError(
            f"{where}: must be odd, so that a window has a middle token, got {kernel}. "
            f"Use {kernel - 1} or {kernel + 1}."
        )


class _Layout(NamedTuple):
    """Names of the dense layer, the norm and the module with the vocabulary bias in a file."""

    dense: str
    norm: str
    decoder: str
    activation: str = ""  # field of config.json; empty if the activation is always GELU


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

    The embeddings belong to the encoder, so the caller passes them to each call. Their size e
    differs from the width d of a state in ELECTRA.
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
        """Return scores `[S, vocabulary]` of states `[S, d]`, by embeddings `[vocabulary, e]`."""
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
