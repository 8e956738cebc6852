"""Scaled-down protocols for a laptop: fewer rows, updates and replicates, marked in reports."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sclsearch.protocols.base import Protocol, Rows, Size, Splits
from sclsearch.protocols.replicates import Replicate
from sclsearch.protocols.splits import SAME_ROWS
from sclsearch.randomness import stream
from sclsearch.selection.rules import Rule, Top
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.stratified import stratified

REPLICATES, UPDATES, VALIDATION, TEST = 3, 150, 200, 500


def laptop(protocol: Protocol) -> Protocol:
    """Return the protocol with MiniLM, 3 replicates and at most 150 updates per stage.

    It evaluates ten times, on at most 200 validation and 500 test rows. A rule that counts the top
    k of n keeps its k; if k exceeds 3, the rule counts all seeds.
    """

    def redraw(data: TaskData, _parts: Splits, size: Size | None, replicate: Replicate) -> Splits:
        return _less(data, protocol.splits(data, size, replicate))

    return replace(
        protocol,
        replicates=min(protocol.replicates, REPLICATES),
        rule=Rule(_within(protocol.rule.score), _within(protocol.rule.report)),
        evaluate="tenth",
        max_updates=UPDATES,
        model="minilm",
        redraw=redraw,
        scale="laptop",
    )


SCALES: Mapping[str, Callable[[Protocol], Protocol]] = MappingProxyType({"laptop": laptop})


def _within(top: Top) -> Top:
    return Top() if top.k is not None and top.k > REPLICATES else top


def _less(data: TaskData, splits: Splits) -> Splits:
    note = (
        f"scaled: at most {UPDATES} updates a stage, {VALIDATION} validation and {TEST} test rows"
    )
    validation = at_most(VALIDATION, splits.validation, data, "scale")
    test = at_most(TEST, splits.test, data, "scale")
    among = f"the {len(validation.index)} rows that choose are among the {len(test.index)} reported"
    cut = len(validation.index) < len(test.index)
    return replace(
        splits,
        validation=validation,
        test=test,
        held=(splits.validation, splits.test),
        notes=(*(among if told == SAME_ROWS and cut else told for told in splits.notes), note),
    )


def at_most(most: int, rows: Rows, data: TaskData, purpose: str) -> Rows:
    """Return a stratified sample of at most `most` rows, drawn by the purpose's random stream."""
    if len(rows.index) <= most:
        return rows
    chosen = stratified(rows.labels(data), most, stream(0, f"{purpose}/{rows.split}"))
    return Rows(rows.split, rows.index[chosen])
