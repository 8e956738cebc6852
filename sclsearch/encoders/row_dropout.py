"""Dropout with one probability per view, so that an encoder processes all views at once.

SupCL-Seq reads a batch once per dropout probability. Here the views are stacked into one batch.
Hidden dropout is a module and can be replaced. Attention dropout is an argument of the attention
function, so this module registers a custom function with transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from sclsearch.encoders.savings import Packing

ATTENTION = "sclsearch_row_dropout"


@dataclass
class DropoutRates:
    """Current dropout probability of each view, shared by all modules of one encoder.

    A batch stacks views of equal size.
    """

    dropout_rates: tuple[float, ...] = (0.0,)
    attention_seen: bool = False  # the registered attention function has been called
    packing: Packing = field(default_factory=Packing)

    @property
    def shared(self) -> float | None:
        return self.dropout_rates[0] if len(set(self.dropout_rates)) == 1 else None


class RowDropout(nn.Dropout):
    """Dropout with the probability of the view that a row belongs to."""

    def __init__(self, views: DropoutRates) -> None:
        super().__init__(0.0)
        self.views = views

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with dropout; rows first, `[V * B, ...]`, or `[1, tokens, ...]` if packed."""
        if not self.training:
            return x
        if self.views.shared is not None:
            return F.dropout(x, self.views.shared)
        keep = _keep(self.views.dropout_rates, x.device)
        packing = self.views.packing
        if packing.active:
            row = packing.token_places // packing.length
            view = row // (packing.rows // len(keep))
            keep = keep[view].view(1, -1, *[1] * (x.dim() - 2))
        elif len(x) % len(keep):
            raise ValueError(
                f"dropout of a tensor {[*x.shape]}: the {len(keep)} views need rows of their own. "
                "Give all views the same dropout probability."
            )
        else:
            keep = keep.repeat_interleave(len(x) // len(keep)).view(-1, *[1] * (x.dim() - 1))
        kept = torch.rand(x.shape, device=x.device) < keep
        return x * (kept / keep).to(x.dtype)


@cache  # a replayed CUDA graph reads the tensor at the same address
def _keep(dropout_rates: tuple[float, ...], device: torch.device) -> Tensor:
    rates = torch.tensor(dropout_rates)
    if device.type == "cuda":  # a copy from pageable memory would block the host
        rates = rates.pin_memory()
    return 1 - rates.to(device, non_blocking=True)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    views: DropoutRates = module.view_rates  # type: ignore[assignment]  # set by install
    views.attention_seen = True
    options.pop("dropout", None)
    packing = views.packing
    if packing.before_last is not None:
        key, value = packing.keys_and_values(module, query.shape[-1])
        attention_mask = None if attention_mask is None else attention_mask[:, :, :1]
    if not packing.active:
        return _by_view(module, query, key, value, attention_mask, options), None
    # Heads stand before the tokens, `[1, heads, tokens, width]`.
    q, k, v = (packing.unpack(x.transpose(1, 2)).transpose(1, 2) for x in (query, key, value))
    return packing.pack(_by_view(module, q, k, v, attention_mask, options)), None


def _by_view(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    options: Mapping[str, Any],
) -> Tensor:
    """Return attention with the dropout of each view, `[V * B, T, heads, width]`."""
    views: DropoutRates = module.view_rates  # type: ignore[assignment]  # set by install
    rate = views.shared if module.training else 0.0
    if rate is not None:
        return _sdpa(module, query, key, value, mask, dropout=rate, **options)[0]
    count = len(views.dropout_rates)
    masks = (None,) * count if mask is None else mask.chunk(count)
    chunks = zip(query.chunk(count), key.chunk(count), value.chunk(count), masks, strict=True)
    outputs = [
        _sdpa(module, *tensors, dropout=rate, **options)[0]
        for tensors, rate in zip(chunks, views.dropout_rates, strict=True)
    ]
    return torch.cat(outputs)


_sdpa = sdpa_attention_forward
AttentionInterface.register(ATTENTION, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


def install(model: PreTrainedModel) -> DropoutRates:
    """Replace the dropout of an encoder; return the object that sets the dropout probabilities.

    Attention dropout follows it only if the model calls transformers' attention interface. After a
    forward pass `attention_seen` shows whether it does.
    """
    views = DropoutRates()
    for module in list(model.modules()):
        module.view_rates = views  # type: ignore[assignment]  # not a parameter, buffer or module
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, RowDropout(views))
    if model._supports_attention_backend or model._supports_sdpa:
        model.set_attn_implementation(ATTENTION)
    return views
