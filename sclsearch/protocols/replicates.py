"""Repetitions of a protocol: their seeds, and their places where several are one program."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sclsearch.randomness import seed_for


@dataclass(frozen=True, slots=True)
class Seat:
    """A replicate's place in a block of replicates that are trained in lockstep.

    Attributes:
        block: S, how many replicates have a place in the block.
        number: Its number among them, from 0.
        noise: Seed of the block's dropout and masks.
    """

    block: int
    number: int
    noise: int


@dataclass(frozen=True, slots=True)
class Replicate:
    """Repetition r of a protocol: a pure function of r, so that configurations are paired.

    Those of one method share all that is drawn. Methods share the rows, and of their last stages,
    of the stages before these, and so on, the order of the rows, the first values of layers of
    one shape, and dropout as far as they ask for it alike.

    Attributes:
        number: r.
        subset: Seed of the training subset.
        initialisation: Seed of the new layers.
        order: Seed of the data order.
        noise: Seed of dropout and masks.
        seat: Where it is trained together with others, its place among them: there dropout and
            masks are drawn for all at once.
    """

    number: int
    subset: int
    initialisation: int
    order: int
    noise: int
    seat: Seat | None = None

    @property
    def seeds(self) -> dict[str, int]:
        """The seeds that training depends on, given its rows."""
        own = {
            "initialisation": self.initialisation,
            "order": self.order,
            "noise": self.noise,
        }
        if self.seat is None:
            return own
        return {**own, "seat": self.seat.number, "block_noise": self.seat.noise}


def all_seeds(number: int) -> Replicate:
    """Returns the replicate in which every seed is its number."""
    return Replicate(number, number, number, number, number)


def seated(replicate_of: Callable[[int], Replicate], number: int, block: int) -> Replicate:
    """Returns a replicate with its seat: blocks of S divide the replicates in their order.

    Args:
        replicate_of: Gives a replicate without a seat.
        number: Its number.
        block: S; 1 gives it none.
    """
    replicate, seat = replicate_of(number), number % block
    if block == 1:
        return replicate
    others = [replicate_of(number - seat + other) for other in range(block)]
    # The others' rows and order say how wide a batch is, and so which noise is drawn.
    told = "/".join(f"{one.subset},{one.order},{one.noise}" for one in others)
    return replace(replicate, seat=Seat(block, seat, seed_for(0, f"block/{told}")))
