"""A protocol repeated otherwise than in its paper: on fresh replicates, or over crossed seeds."""

from collections.abc import Mapping
from dataclasses import replace

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol, Replicate
from sclsearch.selection.rules import Rule, Top
from sclsearch.selection.variance import design

MEAN = Rule(score=Top(), report=Top())


def fresh(protocol: Protocol, count: int) -> Protocol:
    """Returns the protocol on replicates beyond its own: none that a winner was chosen by.

    Raises:
        SclsearchError: The number is below 1.
    """
    if count < 1:
        raise SclsearchError(f"fresh replicates: there must be at least 1, but it is {count}.")
    return replace(
        protocol,
        replicates=count,
        rule=MEAN,
        replicate=lambda number: protocol.replicate(protocol.replicates + number),
        repetition="fresh replicates",
    )


def crossed(protocol: Protocol, levels: Mapping[str, int]) -> Protocol:
    """Returns the protocol with every subset, initialisation and order combined.

    Args:
        protocol: The protocol.
        levels: Seeds of each source, by name.

    Raises:
        SclsearchError: A source is unknown, or too few vary.
    """
    cells = [Replicate(**cell) for cell in design(levels)]
    return replace(
        protocol,
        replicates=len(cells),
        rule=MEAN,
        replicate=cells.__getitem__,
        repetition=" x ".join(f"{count} {source}s" for source, count in levels.items()),
    )
