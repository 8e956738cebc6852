"""Paired comparison of a published table's rows with the first reproduced row."""

from collections.abc import Sequence
from dataclasses import dataclass

from sclsearch.papers.base import Cell
from sclsearch.papers.figures import Figure
from sclsearch.selection.significance import Comparison, compare, holm


@dataclass(frozen=True, slots=True)
class Pair:
    """Comparison of two rows of a table on one task under one condition.

    Attributes:
        ours: The compared row.
        base: The baseline, which is the first reproduced row there.
        comparison: Comparison of their test scores, paired by replicate.
        adjusted: p-value adjusted for all comparisons of the table (Holm).
    """

    ours: Cell
    base: Cell
    comparison: Comparison
    adjusted: float


def pairs(figures: Sequence[Figure]) -> list[Pair]:
    """Return the comparison of each row with the first reproduced one, by task and condition.

    Pairs without a replicate that finished in both are omitted.
    """
    places: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        if figure.mean is not None:
            place = figure.cell.block.name, figure.cell.column.name
            places.setdefault(place, []).append(figure)
    compared: dict[tuple[str, ...], tuple[Figure, Figure, Comparison]] = {}
    for base, *others in places.values():
        for other in others:
            if any(None not in both for both in zip(other.tests, base.tests, strict=True)):
                # If several conditions share one study, they count as one comparison in the
                # adjustment.
                own = other.cell.row.name, other.cell.column.name, other.study, base.study
                comparison = compare(other.tests, base.tests, base.subsets)
                compared.setdefault(own, (other, base, comparison))
    found = compared.values()
    adjusted = holm([comparison.p for *_, comparison in found])
    return [
        Pair(ours.cell, base.cell, comparison, p)
        for (ours, base, comparison), p in zip(found, adjusted, strict=True)
    ]
