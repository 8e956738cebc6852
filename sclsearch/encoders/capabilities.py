"""Detection of an encoder's capabilities by test forward passes, for any architecture."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sclsearch.encoders.row_dropout import DropoutRates

if TYPE_CHECKING:
    from sclsearch.encoders.encoder import Encoder

ONE_STILL_VIEW = (0.0,)


@torch.no_grad()
def probe(encoder: "Encoder", views: DropoutRates, *, layered: bool) -> None:
    """Detect the capabilities of an encoder and set its capability attributes.

    The check runs in evaluation mode, because a model may have dropout that we do not control.

    Args:
        encoder: The encoder; its mode does not change.
        views: Dropout rates of the encoder's views.
        layered: True if the list of its layers is known.
    """
    model, training = encoder.model, encoder.model.training
    _, mask = probing_texts()
    encoder.packs = encoder.trims = encoder.takes_masks = False
    try:
        model.train(False)
        padded = _hidden(encoder)  # [4, 4, d]
        encoder.per_row_dropout = views.attention_seen
        encoder.causal = torch.allclose(padded[0, 0], padded[1, 0])
        encoder.pretrained_pooler = _pools(encoder, padded)
        encoder.takes_masks = _takes_masks(encoder, padded)
        model.train()
        encoder.governed = torch.allclose(_hidden(encoder)[mask], padded[mask])
        model.train(False)
        if layered and encoder.per_row_dropout:
            encoder.packs = True
            encoder.packs = _alike(encoder, padded, mask)
            encoder.trims = True
            encoder.trims = _alike(encoder, padded, mask, first_only=True)
    finally:
        model.train(training)


def max_tokens(model: nn.Module) -> int | None:
    """Return the number of learned positions of a model; None if it has no learned positions."""
    for name, module in model.named_modules():
        if name.endswith(".position_embeddings") and isinstance(module, nn.Embedding):
            # If padding has a separate row, as in RoBERTa, positions begin after it.
            before = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - before
    return None


def probing_texts() -> tuple[Tensor, Tensor]:
    """Return the ids and the mask, both `[4, 4]`, of the rows for the capability checks."""
    ids = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    return ids, torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()


def by_keys(mask: Tensor) -> Tensor:
    """Return the attention mask, `[rows, 1, T, T]`, for a token mask, `[rows, T]`."""
    return mask[:, None, None].expand(-1, 1, mask.shape[1], -1)


def _hidden(encoder: "Encoder", *, first_only: bool = False) -> Tensor:
    ids, mask = probing_texts()
    types = torch.zeros_like(ids)
    return encoder.hidden(ids, mask, types, ONE_STILL_VIEW, first_only=first_only)


def _pools(encoder: "Encoder", states: Tensor) -> bool:
    pooler: nn.Module | None = getattr(encoder.model, "pooler", None)
    if pooler is None:
        return False
    ids, mask = probing_texts()
    own: Tensor = encoder.model(input_ids=ids, attention_mask=mask).pooler_output
    found: Tensor = pooler(states)
    return found.shape == own.shape and torch.allclose(found, own)


def _takes_masks(encoder: "Encoder", padded: Tensor) -> bool:
    # With sliding windows the model needs two masks, but a prepared mask would replace both.
    windows = "sliding_attention" in (getattr(encoder.model.config, "layer_types", None) or ())
    if windows or not encoder.per_row_dropout:
        return False
    ids, mask = probing_texts()
    try:
        states = encoder.model(input_ids=ids, attention_mask=by_keys(mask)).last_hidden_state
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False
    return torch.allclose(states[mask], padded[mask], atol=1e-4)


def _alike(encoder: "Encoder", padded: Tensor, mask: Tensor, *, first_only: bool = False) -> bool:
    """Return whether the states at tokens, or at position 0, equal those with padding."""
    if first_only:
        padded, mask = padded[:, :1], mask[:, :1]
    try:
        states = _hidden(encoder, first_only=first_only)
    except (AttributeError, RuntimeError):
        # Positions that enter every layer, such as rotary ones, have the shape of padded rows. The
        # modules for keys and values may have unknown names.
        return False
    return states.shape == padded.shape and torch.allclose(states[mask], padded[mask], atol=1e-4)
