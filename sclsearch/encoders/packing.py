"""Removal of padding: an encoder's layers process all tokens of a batch as one packed row.

Linear layers and norms process each token separately, and they are nearly all of the work. Only
attention needs the rows. So the output of the embeddings is packed before the first layer.
Attention unpacks its queries, keys and values, and the output of the last layer is unpacked. Masks,
positions and the composition of the batch do not change.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

WORTH = 0.95
"""Share of tokens among the positions above which packing is not worth its cost."""


@dataclass
class Packing:
    """Token positions of the current batch, shared by all modules of one encoder.

    Attributes:
        places: Positions of the tokens in the flattened rows, `[tokens]`; None keeps the padding.
        rows: V * B.
        length: T.
        active: True while the states are packed, between the first and the last layer.
    """

    places: Tensor | None = None
    rows: int = 0
    length: int = 0
    active: bool = False

    @contextmanager
    def of(self, mask: Tensor) -> Iterator[None]:
        """Pack a batch with the token mask `[V * B, T]`, inside the with block."""
        self.rows, self.length = mask.shape
        places = mask.flatten().nonzero()[:, 0]
        if len(places) <= WORTH * mask.numel():
            self.places = places
        try:
            yield
        finally:
            self.places, self.active = None, False

    @property
    def row_of_token(self) -> Tensor:
        """Row number of each token, `[tokens]`."""
        return self._moved() // self.length

    def pack(self, x: Tensor) -> Tensor:
        """Return the packed states, `[1, tokens, ...]`, from padded ones, `[V * B, T, ...]`."""
        return x.flatten(0, 1).index_select(0, self._moved())[None]

    def unpack(self, x: Tensor) -> Tensor:
        """Return the padded states, `[V * B, T, ...]`, from `[1, tokens, ...]`; padding is zero."""
        padded = x.new_zeros(self.rows * self.length, *x.shape[2:])
        padded = padded.index_copy(0, self._moved(), x[0])
        return padded.view(self.rows, self.length, *x.shape[2:])

    def unpack_first(self, x: Tensor) -> Tensor:
        """Return position 0 of each row, `[V * B, 1, ...]`, from `[1, tokens, ...]`.

        After this call the states are no longer packed. Every row must have a token at position 0.
        """
        self.active = False
        starts = (self._moved() % self.length == 0).nonzero()[:, 0]
        return x[0].index_select(0, starts)[:, None]

    def before_layers(
        self, _layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Pack the input of the first layer."""
        if self.places is None:
            return None
        self.active = True
        return (self.pack(given[0]), *given[1:]), named

    def after_layers(self, _layer: nn.Module, _given: tuple[Any, ...], output: Any) -> Any:
        """Unpack the output of the last layer."""
        if not self.active:
            return None
        self.active = False
        if isinstance(output, tuple):
            return (self.unpack(output[0]), *output[1:])
        return self.unpack(output)

    def _moved(self) -> Tensor:
        if self.places is None:
            raise ValueError("tokens can be moved while a batch is packed, but none is")
        return self.places


def layers_of(model: PreTrainedModel) -> nn.ModuleList | None:
    """Return an encoder's layers in order; None if they cannot be identified."""
    count = getattr(model.config, "num_hidden_layers", None)
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    return lists[0] if len(lists) == 1 else None


def install_packing(layers: nn.ModuleList, packing: Packing) -> None:
    """Install the hooks that pack the states before the first layer and unpack them at the end."""
    # Methods instead of closures: a copy of the encoder must get hooks with separate state.
    layers[0].register_forward_pre_hook(packing.before_layers, with_kwargs=True)
    layers[-1].register_forward_hook(packing.after_layers)
