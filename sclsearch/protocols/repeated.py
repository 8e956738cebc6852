"""A protocol repeated otherwise than in its paper: on fresh replicates, or over crossed seeds."""

from collections.abc import Mapping
from dataclasses import replace

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol, Size, Splits
from sclsearch.protocols.replicates import Replicate
from sclsearch.protocols.splits import HELD_OUT, from_train, hold_out
from sclsearch.selection.rules import Rule, Top
from sclsearch.selection.variance import SOURCES, design
from sclsearch.tasks.base import TaskData

MEAN = Rule(score=Top(), report=Top())


def fresh(protocol: Protocol, count: int, first: int | None = None) -> Protocol:
    """Returns the protocol on replicates beyond its own: none that a winner was chosen by.

    Each few-shot one has a subset of its own, also where a protocol's come again in turn, as CMLM's
    five.

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
        found = replace(protocol.replicate(start + number), number=number)
        return replace(found, subset=start + number) if protocol.few_shot else found

    in_turn = any(protocol.replicate(number).subset != number for number in range(2 * start))
    subsets = ", new subsets" if protocol.few_shot and in_turn else ""
    begin = f" from {start}" if start > protocol.replicates else ""
    return replace(
        protocol,
        replicates=count,
        rule=MEAN,
        replicate=replicate,
        repetition=f"fresh replicates{begin}{subsets}",
    )


def with_splits(protocol: Protocol, count: int) -> Protocol:
    """Return `plain` with so many random splits of the training rows, in turn by replicate.

    Args:
        protocol: The protocol.
        count: Splits; replicate r takes number r modulo this.

    Raises:
        SclsearchError: The protocol has splits of its own, or the number is below 2.
    """
    if protocol.name != "plain":
        raise SclsearchError(
            f"--splits {count}: must come with protocol plain, got {protocol.name}, which says "
            "how it splits. Leave it out, or pass --protocol plain."
        )
    if count < 2:
        raise SclsearchError(f"--splits: must be at least 2, got {count}.")

    def redraw(data: TaskData, _parts: Splits, _size: Size | None, replicate: Replicate) -> Splits:
        number = replicate.subset % count
        return hold_out(data, from_train(data), share=HELD_OUT, seed=number)

    return replace(protocol, redraw=redraw, repetition=f"{count} splits")


def crossed(protocol: Protocol, levels: Mapping[str, int]) -> Protocol:
    """Returns the protocol with every subset, initialisation and order combined.

    Args:
        protocol: The protocol.
        levels: Seeds of each source, by name; a source that is not named takes one.

    Raises:
        SclsearchError: A source is unknown, or too few vary.
    """
    cells = [Replicate(**cell) for cell in design(levels)]
    varied = {source: levels[source] for source in SOURCES if levels.get(source, 1) > 1}
    return replace(
        protocol,
        replicates=len(cells),
        rule=MEAN,
        replicate=cells.__getitem__,
        repetition=" x ".join(f"{count} {source}s" for source, count in varied.items()),
    )
