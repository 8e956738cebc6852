"""Replicates of a protocol and their random seeds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replicate:
    """Seeds of replicate r: a pure function of r, so that configurations are paired.

    Configurations of one method share every random draw. Different methods share the rows. Their
    stages are aligned from the last one backwards: aligned stages share the order of the rows, the
    initial values of layers of one shape, and dropout as far as they request it alike.

    Attributes:
        number: r.
        subset: Seed of the training subset.
        initialization: Seed of the new layers.
        order: Seed of the data order.
        noise: Seed of dropout and masks.
    """

    number: int
    subset: int
    initialization: int
    order: int
    noise: int

    @property
    def seeds(self) -> dict[str, int]:
        """Seeds that training depends on, given its rows."""
        return {
            "initialisation": self.initialization,
            "order": self.order,
            "noise": self.noise,
        }


def all_seeds(number: int) -> Replicate:
    """Return the replicate whose seeds all equal its number."""
    return Replicate(number, number, number, number, number)
