"""Watches the terms of the loss without waiting for the device at every update."""

from collections.abc import Mapping

import torch
from torch import Tensor


class NonFiniteLossError(ArithmeticError):
    """A term of the loss, or a score, is infinite or no number; the message says which and when."""


class TermWatch:
    """Sums the terms since the last reading and remembers the first that is not finite.

    Args:
        stage: Name of the stage, for the error.
        per_epoch: Updates in an epoch, for the error.
    """

    def __init__(self, stage: str, per_epoch: int) -> None:
        self.stage, self.per_epoch = stage, per_epoch
        self.names: tuple[str, ...] = ()
        self.sums: Tensor | None = None
        self.bad: Tensor | None = None
        self.count = 0

    def see(self, update: int, terms: Mapping[str, Tensor]) -> None:
        """Takes in the terms of an update, counted from 0; does not wait for the device."""
        values = torch.stack([term.detach().float() for term in terms.values()])
        if self.sums is None or self.bad is None:
            self.names = tuple(terms)
            self.sums = torch.zeros_like(values)
            self.bad = torch.full_like(values, -1, dtype=torch.int64)
        self.bad = torch.where((self.bad < 0) & ~values.isfinite(), update, self.bad)
        self.sums = self.sums + values
        self.count += 1

    def read(self) -> dict[str, float]:
        """Returns the mean of each term since the last reading.

        Raises:
            NonFiniteLossError: A term was not finite since the start.
        """
        if self.sums is None or self.bad is None:
            return {}
        bad = [(u, n) for n, u in zip(self.names, self.bad.tolist(), strict=True) if u >= 0]
        if bad:
            # The others follow one update later, through the weights.
            update, name = min(bad, key=lambda one: one[0])
            epoch, step = divmod(update, self.per_epoch)
            raise NonFiniteLossError(
                f"{self.stage}: {name} must be finite, but it is not at epoch {epoch + 1}, "
                f"update {step + 1} of {self.per_epoch}"
            )
        means = [total / self.count for total in self.sums.tolist()]
        self.sums, self.count = torch.zeros_like(self.sums), 0
        return dict(zip(self.names, means, strict=True))
