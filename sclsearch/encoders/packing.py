"""Layers without padding: between embeddings and last hidden states the tokens stand in one row.

Linear layers and norms treat every token by itself, and they are nearly all of the work; only
attention needs the rows. So the embeddings' output is packed before the first layer, attention
unpacks its queries, keys and values, and the last layer's output is unpacked. Masks and positions
stay as the model makes them, and a batch keeps its composition.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

WORTH = 0.95
"""Padding is left in where more of the positions than this are tokens: moving them costs too."""


@dataclass
class Packing:
    """Where the tokens of the batch in force stand, shared by all modules of one encoder.

    Attributes:
        places: Positions of the tokens among those of all rows, `[tokens]`; None leaves padding in.
        rows: V * B.
        length: T.
        active: Whether the states are packed at present, between the first and the last layer.
    """

    places: Tensor | None = None
    rows: int = 0
    length: int = 0
    active: bool = False

    @contextmanager
    def of(self, mask: Tensor) -> Iterator[None]:
        """Packs the batch that has tokens at these positions, `[V * B, T]`, in the body."""
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
        """The row of each token, `[tokens]`."""
        return self._moved() // self.length

    def pack(self, x: Tensor) -> Tensor:
        """Returns `[1, tokens, ...]` from `[V * B, T, ...]`."""
        return x.flatten(0, 1).index_select(0, self._moved())[None]

    def unpack(self, x: Tensor) -> Tensor:
        """Returns `[V * B, T, ...]` from `[1, tokens, ...]`, zero at padding."""
        padded = x.new_zeros(self.rows * self.length, *x.shape[2:])
        padded = padded.index_copy(0, self._moved(), x[0])
        return padded.view(self.rows, self.length, *x.shape[2:])

    def unpack_first(self, x: Tensor) -> Tensor:
        """Returns position 0 of each row, `[V * B, 1, ...]`, from `[1, tokens, ...]`.

        From here on the states are no longer packed. Every row must have a token there.
        """
        self.active = False
        starts = (self._moved() % self.length == 0).nonzero()[:, 0]
        return x[0].index_select(0, starts)[:, None]

    def before_layers(
        self, _layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Packs what the first layer is given."""
        if self.places is None:
            return None
        self.active = True
        return (self.pack(given[0]), *given[1:]), named

    def after_layers(self, _layer: nn.Module, _given: tuple[Any, ...], output: Any) -> Any:
        """Unpacks what the last layer returns."""
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
    """Returns an encoder's layers, the first one first; None if they are not to be told."""
    count = getattr(model.config, "num_hidden_layers", None)
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    return lists[0] if len(lists) == 1 else None


def install_packing(layers: nn.ModuleList, packing: Packing) -> None:
    """Makes an encoder's layers take what is packed."""
    # Methods, not closures: a copy of the encoder must get hooks with a state of its own.
    layers[0].register_forward_pre_hook(packing.before_layers, with_kwargs=True)
    layers[-1].register_forward_hook(packing.after_layers)
