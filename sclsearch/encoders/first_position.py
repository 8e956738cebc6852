"""Last layer computed at position 0 only, for embeddings that read only that state.

Such an embedding needs only the last layer's keys and values of the other tokens. Their queries,
output projection and feed-forward part do not affect it. With six layers this saves an eighth of
the work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from sclsearch.encoders.packing import Packing

PROJECTIONS = (("key", "value"), ("k_lin", "v_lin"))
"""Names of the key and value projections in the model families."""


@dataclass
class FirstPosition:
    """Input of an encoder's last layer, shared by all modules of the encoder.

    Attributes:
        packing: Positions of the tokens while padding is removed.
        wanted: True if the current forward pass needs only position 0 of the last states.
        given: States of all tokens before the last layer, while it runs at position 0 only.
    """

    packing: Packing
    wanted: bool = False
    given: Tensor | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Compute only position 0 in the last layer, inside the with block."""
        self.wanted = True
        try:
            yield
        finally:
            self.wanted, self.given = False, None

    def before_last(
        self, _layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Replace the input of the last layer by its first positions, `[V * B, 1, d]`."""
        if not self.wanted:
            return None
        self.given = given[0]
        first = self.packing.unpack_first(given[0]) if self.packing.active else given[0][:, :1]
        return (first, *given[1:]), named

    def keys_and_values(self, attention: nn.Module, width: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of all positions, `[V * B, heads, T, width]`.

        Args:
            attention: Attention module of the last layer.
            width: Width of a head.

        Raises:
            AttributeError: The module has none of the known projections.
        """
        names = next((n for n in PROJECTIONS if hasattr(attention, n[0])), PROJECTIONS[0])
        key, value = (self._of_all(getattr(attention, name), width) for name in names)
        return key, value

    def _of_all(self, projection: nn.Module, width: int) -> Tensor:
        projected: Tensor = projection(self.given).unflatten(-1, (-1, width))
        if self.packing.places is not None:
            projected = self.packing.unpack(projected)
        return projected.transpose(1, 2)


def install_first_position(layers: nn.ModuleList, first: FirstPosition) -> None:
    """Install the hook that lets an encoder's last layer compute only position 0."""
    layers[-1].register_forward_pre_hook(first.before_last, with_kwargs=True)
