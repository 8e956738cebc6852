"""Repetitions of a protocol: their seeds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replicate:
    """Repetition r of a protocol: a pure function of r, so that configurations are paired.

    Those of one method share all that is drawn. Methods share the rows, and of their last stages,
    of the stages before these, and so on, the order of the rows, the first values of layers of
    one shape, and dropout as far as they ask for it alike.

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
        """The seeds that training depends on, given its rows."""
        return {
            "initialisation": self.initialization,
            "order": self.order,
            "noise": self.noise,
        }


def all_seeds(number: int) -> Replicate:
    """Returns the replicate in which every seed is its number."""
    return Replicate(number, number, number, number, number)
