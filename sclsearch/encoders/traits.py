"""Traits of an encoder's files on which a practical search space depends."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sclsearch.errors import SclsearchError

WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")
"""Names of an encoder's width in config.json, by architecture."""
DEPTHS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")
POSITIONS = ("max_position_embeddings", "n_positions")
SENTENCE_POOLING = "1_Pooling/config.json"
"""File in which sentence-transformers keeps the pooling of a sentence encoder."""
STEP = 8
"""Positions are rounded down to a multiple of it: RoBERTa has 514, but 512 for tokens."""
BASE_WIDTH, BASE_RATE, MOST_RATE = 384, 1e-4, 1e-3
DENSE_HEADS = frozenset(
    {"bert", "albert", "roberta", "xlm-roberta", "camembert", "mpnet", "deberta", "deberta-v2"}
)
"""Architectures whose classifier in transformers is dense, tanh and linear on the first token."""
LINEAR_HEADS = frozenset({"distilbert", "electra"})
"""Architectures whose classifier in transformers can be linear on the first token."""


@dataclass(frozen=True, slots=True)
class EncoderTraits:
    """Size, pooler and text length of an encoder.

    Attributes:
        width: d, the size of a token's state.
        layers: Number of layers.
        kind: `model_type` of config.json, such as `bert`.
        positions: Most tokens of a text; None for no limit.
        pooler: True if the checkpoint has the weights of a pooler like BERT's.
        sentence_pooling: `mean` or `cls` if the encoder was trained as a sentence encoder with this
            pooling; empty for others.
    """

    width: int
    layers: int
    kind: str
    positions: int | None
    pooler: bool
    sentence_pooling: Literal["mean", "cls", ""] = ""

    @property
    def learning_rate(self) -> float:
        """Learning rate with which a practical search starts, two digits.

        1e-4 · (384 / width)², at most 1e-3: wide encoders need smaller steps.
        """
        return float(f"{min(BASE_RATE * (BASE_WIDTH / self.width) ** 2, MOST_RATE):.1e}")

    @property
    def head_pooling(self) -> Literal["mean", "cls_raw", "cls_pooled", "head_hidden"]:
        """Input of a classification head: as the encoder was trained, else as transformers has it.

        A sentence encoder's own pooling is far better than its first token with few rows. Others
        read the first token, so that an export has the head of its architecture; without such a
        head it is the mean.
        """
        if self.sentence_pooling:
            return "mean" if self.sentence_pooling == "mean" else "cls_raw"
        if self.kind in LINEAR_HEADS:
            return "cls_raw"
        if self.kind in DENSE_HEADS:
            return "cls_pooled" if self.pooler else "head_hidden"
        return "mean"

    def __str__(self) -> str:
        return f"{self.layers} layers of width {self.width}"


def encoder_traits(folder: Path) -> EncoderTraits:
    """Return the traits of the encoder in a folder."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_bytes())
        width, layers = _first(config, WIDTHS), _first(config, DEPTHS)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise SclsearchError(
            f"{file}: cannot be read: {error}. Take the model's own file."
        ) from error
    if width is None or layers is None:
        raise SclsearchError(
            f"{file}: must state {' or '.join(WIDTHS)}, and {' or '.join(DEPTHS)}. Take an encoder "
            "that transformers supports."
        )
    positions = _first(config, POSITIONS)
    return EncoderTraits(
        width=width,
        layers=layers,
        kind=str(config.get("model_type", "")),
        positions=positions and positions - positions % STEP,
        pooler=has_pooler(folder),
        sentence_pooling=_sentence_pooling(folder),
    )


def has_pooler(folder: Path) -> bool:
    """Return whether a checkpoint has the weights of a pooler like BERT's.

    A pooler outside the encoder belongs to a classification head, as DeBERTa's does.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            names = frozenset(file.keys())
    except SafetensorError as error:
        raise SclsearchError(f"{path}: cannot be read: {error}. Download it again.") from error
    words = "embeddings.word_embeddings.weight"
    encoders = {name.removesuffix(words) for name in names if name.endswith(words)}
    return any(f"{encoder}pooler.dense.weight" in names for encoder in encoders)


def _sentence_pooling(folder: Path) -> Literal["mean", "cls", ""]:
    file = folder / SENTENCE_POOLING
    config = json.loads(file.read_bytes()) if file.is_file() else {}
    if config.get("pooling_mode_mean_tokens"):
        return "mean"
    return "cls" if config.get("pooling_mode_cls_token") else ""


def _first(config: dict[str, Any], names: tuple[str, ...]) -> int | None:
    sizes = (config.get(name) for name in names)
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)
