"""The last layer at position 0 alone, for embeddings that read no other last state.

Of the other tokens such an embedding needs the keys and values of the last layer. Their queries,
the layer's output projection and its feed-forward part change nothing: of six layers an eighth of
the work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from sclsearch.encoders.packing import Packing

PROJECTIONS = (("key", "value"), ("k_lin", "v_lin"))
"""What the families call the layers that make keys and values."""


@dataclass
class FirstPosition:
    """What the last layer of one encoder was given, shared by all of the encoder's modules.

    Attributes:
        packing: Where the tokens stand while there is no padding.
        wanted: Whether the last states at position 0 are enough in the forward in force.
        given: States of all tokens before the last layer, while that runs for position 0 alone.
    """

    packing: Packing
    wanted: bool = False
    given: Tensor | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Leaves the other positions out in the body."""
        self.wanted = True
        try:
            yield
        finally:
            self.wanted, self.given = False, None

    def before_last(
        self, _layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Takes the first positions, `[V * B, 1, d]`, of what the last layer is given."""
        if not self.wanted:
            return None
        self.given = given[0]
        first = self.packing.unpack_first(given[0]) if self.packing.active else given[0][:, :1]
        return (first, *given[1:]), named

    def keys_and_values(self, attention: nn.Module, width: int) -> tuple[Tensor, Tensor]:
        """Returns keys and values of all positions, `[V * B, heads, T, width]`.

        Args:
            attention: The last layer's.
            width: That of a head.

        Raises:
            AttributeError: It has none of the known projections.
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
    """Makes the last of an encoder's layers take position 0 alone where that is wanted."""
    layers[-1].register_forward_pre_hook(first.before_last, with_kwargs=True)
