"""Rows of a published table against the first that is made, paired by replicate."""

from collections.abc import Sequence
from dataclasses import dataclass

from sclsearch.papers.base import Cell
from sclsearch.papers.figures import Figure
from sclsearch.selection.significance import Comparison, compare, holm


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows of a table on one task under one condition.

    Attributes:
        ours: The row that is compared.
        base: The row it is compared with, the first that is made there.
        comparison: Of their test figures, paired by replicate.
        adjusted: The p-value adjusted for all comparisons of the table (Holm).
    """

    ours: Cell
    base: Cell
    comparison: Comparison
    adjusted: float


def pairs(figures: Sequence[Figure]) -> list[Pair]:
    """Returns each row against the first that is made, on each task under each condition.

    A pair of which no replicate finished in both says nothing and is left out.
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
                # Where conditions are one figure there is one comparison to adjust for.
                own = other.cell.row.name, other.cell.column.name, other.study, base.study
                comparison = compare(other.tests, base.tests, base.subsets)
                compared.setdefault(own, (other, base, comparison))
    found = compared.values()
    adjusted = holm([comparison.p for *_, comparison in found])
    return [
        Pair(ours.cell, base.cell, comparison, p)
        for (ours, base, comparison), p in zip(found, adjusted, strict=True)
    ]
