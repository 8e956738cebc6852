"""Variants of a protocol: fresh replicates, folds and laptop scale."""

import math
from dataclasses import replace
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol, Replicate, Size, Splits
from sclsearch.protocols.rows import SAME_ROWS, at_most, hold_out_fold, plain_pool
from sclsearch.selection.rules import CAREFUL, MEAN, Top
from sclsearch.tasks.base import TaskData

NEW_REPLICATES = "new replicates"
"""Text after the name of a protocol in the title of a study of new replicates."""
CONFIGS = 20
"""Default number of configurations of a search."""
SEARCH_SIZES = ((500, 5, 5), (1_000, 10, 5), (5_000, 8, 3), (math.inf, 5, 2))
"""Default size of a search for a user's own file: most rows, configurations, seeds."""
FEW_ROWS, FOLDS = 2_000, 5
"""Rows of a user's own file up to which seeds validate on folds, and the number of folds."""
# Limits at laptop scale: replicates, updates per stage, validation rows and test rows.
REPLICATES, UPDATES, VALIDATION, TEST = 3, 150, 200, 500


def fresh(protocol: Protocol, count: int, first: int | None = None) -> Protocol:
    """Return the protocol with new replicates, which had no part in the choice of the winner.

    Each few-shot replicate has its own subset, even if the protocol reuses subsets, as CMLM does
    with its five.

    `first` is the number of the first replicate, for a winner chosen on more replicates than the
    protocol has. None continues after the protocol's.
    """
    if count < 1:
        raise SclsearchError(f"new replicates: must be at least 1, got {count}.")
    start = max(protocol.replicates, first or 0)

    def replicate(number: int) -> Replicate:
        # Renumbered: seed runs and records identify a replicate by its position in the study.
        found = replace(protocol.replicate(start + number), number=number)
        return replace(found, subset=start + number) if protocol.few_shot else found

    reuses_subsets = any(protocol.replicate(number).subset != number for number in range(2 * start))
    subsets = ", new subsets" if protocol.few_shot and reuses_subsets else ""
    begin = f" from {start}" if start > protocol.replicates else ""
    before = f"{protocol.repetition}, " if protocol.repetition else ""
    repetition = f"{before}{NEW_REPLICATES}{begin}{subsets}"
    return replace(
        protocol, replicates=count, rule=MEAN, replicate=replicate, repetition=repetition
    )


def for_rows(protocol: Protocol, data: TaskData, folds: int | None) -> tuple[Protocol, int]:
    """Return the protocol and the default number of configurations for the rows of a task.

    A user's own files have fewer seeds and configurations the more rows they have. Without
    validation rows of their own, few rows are divided into 5 folds.
    """
    configs = CONFIGS
    if data.task.own and protocol.name == "plain":
        rows = data.splits["train"].labeled
        configs, seeds = next(effort for most, *effort in SEARCH_SIZES if rows <= most)
        protocol = replace(protocol, replicates=seeds)
        if folds is None and "validation" not in data.splits and rows <= FEW_ROWS:
            folds = FOLDS
    return (protocol if folds is None else with_folds(protocol, folds)), configs


def with_folds(protocol: Protocol, folds: int) -> Protocol:
    """Return `plain` with cross-validation: as many replicates as folds validate each row once.

    Seed runs keep their last weights: the best of several evaluations on few rows has a higher
    validation score, but is not better on new texts. For the same reason the start wins, unless
    another configuration is reliably better (`benchmarks/search.md`).
    """
    if protocol.name != "plain":
        raise SclsearchError(
            f"--folds {folds}: needs --protocol plain, because {protocol.name} defines its own "
            "splits. Leave it out, or pass --protocol plain."
        )
    if folds < 2:
        raise SclsearchError(f"--folds: must be at least 2, got {folds}.")

    def rows(data: TaskData, _size: Size | None, replicate: Replicate) -> Splits:
        return hold_out_fold(data, plain_pool(data), folds=folds, number=replicate.subset)

    kept: dict[str, Any] = {"keep": "last", "rule": CAREFUL}
    return replace(protocol, rows=rows, folds=folds, repetition=f"{folds} folds", **kept)


def laptop(protocol: Protocol) -> Protocol:
    """Return the protocol with MiniLM, 3 replicates and at most 150 updates per stage.

    It evaluates ten times, on at most 200 validation and 500 test rows. A rule that counts the top
    k of n keeps its k; if k exceeds 3, the rule counts all seeds.
    """

    def rows(data: TaskData, size: Size | None, replicate: Replicate) -> Splits:
        return _fewer(data, protocol.rows(data, size, replicate), on_folds=bool(protocol.folds))

    def within(top: Top) -> Top:
        return Top() if top.k is not None and top.k > REPLICATES else top

    return replace(
        protocol,
        rows=rows,
        replicates=min(protocol.replicates, REPLICATES),
        rule=replace(
            protocol.rule,
            score=within(protocol.rule.score),
            report=within(protocol.rule.report),
        ),
        evaluate="tenth",
        max_updates=UPDATES,
        model="minilm",
        scale="laptop",
    )


def _fewer(data: TaskData, splits: Splits, *, on_folds: bool) -> Splits:
    validation = at_most(VALIDATION, splits.validation, data, "scale")
    test = at_most(TEST, splits.test, data, "scale")
    if on_folds and splits.test is splits.validation:
        test = validation
    among = f"the {len(validation.index)} rows that choose are among the {len(test.index)} reported"
    cut = len(validation.index) < len(test.index)
    note = (
        f"scaled: at most {UPDATES} updates a stage, {VALIDATION} validation and {TEST} test rows"
    )
    return replace(
        splits,
        validation=validation,
        test=test,
        held=(splits.validation, splits.test),
        notes=(*(among if text == SAME_ROWS and cut else text for text in splits.notes), note),
    )
