"""A protocol repeated otherwise than in its paper: on fresh replicates, or over crossed seeds."""

from collections.abc import Mapping
from dataclasses import replace

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol
from sclsearch.protocols.replicates import Replicate
from sclsearch.selection.rules import Rule, Top
from sclsearch.selection.variance import SOURCES, design

MEAN = Rule(score=Top(), report=Top())


def fresh(protocol: Protocol, count: int, first: int | None = None) -> Protocol:
    """Returns the protocol on replicates beyond its own: none that a winner was chosen by.

    Args:
        protocol: The protocol.
        count: How many.
        first: Number of the first, for a winner that more than the protocol's own have chosen.

    Raises:
        SclsearchError: The number is below 1.
    """
    if count < 1:
        raise SclsearchError(f"fresh replicates: there must be at least 1, but it is {count}.")
    start = max(protocol.replicates, first or 0)

    def replicate(number: int) -> Replicate:
        # Numbered anew: seed runs and records name a replicate by its place in the study.
        return replace(protocol.replicate(start + number), number=number)

    return replace(
        protocol,
        replicates=count,
        rule=MEAN,
        replicate=replicate,
        repetition="fresh replicates" + (f" from {start}" if start > protocol.replicates else ""),
    )


def crossed(protocol: Protocol, levels: Mapping[str, int]) -> Protocol:
    """Returns the protocol with every subset, initialisation and order combined.

    Args:
        protocol: The protocol.
        levels: Seeds of each source, by name; a source that is not named takes one.

    Raises:
        SclsearchError: A source is unknown, or too few vary.
    """
    cells = [Replicate(**cell, seat=None) for cell in design(levels)]
    varied = {source: levels[source] for source in SOURCES if levels.get(source, 1) > 1}
    return replace(
        protocol,
        replicates=len(cells),
        rule=MEAN,
        replicate=cells.__getitem__,
        repetition=" x ".join(f"{count} {source}s" for source, count in varied.items()),
    )
