"""Protocols with other replicates than the paper's: new seeds, random splits or crossed seeds."""

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
    """Return the protocol with new replicates, which had no part in the choice of the winner.

    Each few-shot replicate has its own subset, even if the protocol reuses subsets, as CMLM does
    with its five.

    Args:
        protocol: The protocol.
        count: Number of replicates.
        first: Number of the first replicate, for a winner chosen on more replicates than the
            protocol's own; None continues after the protocol's.

    Raises:
        SclsearchError: The number is below 1.
    """
    if count < 1:
        raise SclsearchError(f"fresh replicates: there must be at least 1, but it is {count}.")
    start = max(protocol.replicates, first or 0)

    def replicate(number: int) -> Replicate:
        # Renumbered: seed runs and records identify a replicate by its position in the study.
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
    """Return `plain` with `count` random splits of the training rows; replicates cycle through.

    Args:
        protocol: The protocol.
        count: Number of splits; replicate r uses split r modulo this.

    Raises:
        SclsearchError: The protocol defines its own splits, or the number is below 2.
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
    """Return the protocol with all combinations of subset, initialization and order seeds.

    Args:
        protocol: The protocol.
        levels: Number of seeds by source; a source that is not named has one.

    Raises:
        SclsearchError: A source is unknown, or too few sources vary.
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
