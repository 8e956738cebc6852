"""Watches the terms of the loss without waiting for the device at every update."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


class NonFiniteLossError(ArithmeticError):
    """A term of the loss, or a score, is infinite or no number; the message says which and when.

    Attributes:
        together: As an outcome has it, whose place this takes.
    """

    together: tuple[int, ...] = ()


Reading = dict[str, float] | NonFiniteLossError


class TermWatch:
    """Sums the terms since the last reading and remembers the first that is not finite.

    Args:
        stage: Name of the stage, for the error.
        per_epoch: Updates in an epoch, for the error.
        seed_runs: S, how many seed runs are watched.
    """

    def __init__(self, stage: str, per_epoch: int, seed_runs: int = 1) -> None:
        self.stage, self.per_epoch, self.seed_runs = stage, per_epoch, seed_runs
        self.names: tuple[str, ...] = ()
        self.sums: Tensor | None = None
        self.bad: Tensor | None = None
        self.count = 0

    def see(self, update: int, terms: Mapping[str, Tensor]) -> None:
        """Takes in the terms of an update, counted from 0; does not wait for the device.

        Args:
            update: The update.
            terms: Scalars of the one seed run, or one value of each, `[S]`.
        """
        values = torch.stack([term.detach().float() for term in terms.values()], dim=-1)
        values = values.view(self.seed_runs, -1)  # [S, terms]
        if self.sums is None or self.bad is None:
            self.names = tuple(terms)
            self.sums = torch.zeros_like(values)
            self.bad = torch.full_like(values, -1, dtype=torch.int64)
        self.bad = torch.where((self.bad < 0) & ~values.isfinite(), update, self.bad)
        self.sums = self.sums + values
        self.count += 1

    def read(self) -> list[Reading]:
        """Returns for each seed run the mean of each term since the last reading.

        Where a term was not finite since the start, there is the error instead.
        """
        if self.sums is None or self.bad is None:
            return [{} for _ in range(self.seed_runs)]
        readings = [
            self._fault(bad) or self._means(sums)
            for bad, sums in zip(self.bad.tolist(), self.sums.tolist(), strict=True)
        ]
        self.sums, self.count = torch.zeros_like(self.sums), 0
        return readings

    def _means(self, sums: Sequence[float]) -> dict[str, float]:
        return {name: total / self.count for name, total in zip(self.names, sums, strict=True)}

    def _fault(self, updates: Sequence[int]) -> NonFiniteLossError | None:
        bad = [(u, n) for n, u in zip(self.names, updates, strict=True) if u >= 0]
        if not bad:
            return None
        # The others follow one update later, through the weights.
        update, name = min(bad, key=lambda one: one[0])
        epoch, step = divmod(update, self.per_epoch)
        return NonFiniteLossError(
            f"{self.stage}: {name} must be finite, but it is not at epoch {epoch + 1}, "
            f"update {step + 1} of {self.per_epoch}"
        )
