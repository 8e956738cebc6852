"""Variants of a protocol: fresh replicates, random splits and laptop scale."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol, Replicate, Rows, Size, Splits, least_epochs
from sclsearch.protocols.splits import HELD_OUT, SAME_ROWS, hold_out, plain_pool
from sclsearch.randomness import stream
from sclsearch.selection.rules import MEAN, Rule, Top
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.stratified import stratified

FRESH_REPLICATES = "fresh replicates"
"""Text after the name of a protocol in the title of a study of fresh replicates."""

CONFIGS = 20
"""Usual number of configurations of a search."""
EFFORT = ((1_000, 10, 5), (5_000, 8, 3), (math.inf, 5, 2))
"""Most rows of a user's own file, and its usual numbers of configurations and of seeds."""
FEW_ROWS, SPLITS = 2_000, 10
"""Rows of a user's own file up to which seeds draw their own validation rows, and the number of
different draws."""
POST_BATCH_SIZE = 8
"""Batch size of post-training in the practical spaces."""
ENOUGH_EPOCHS = 3
"""Epochs of which no protocol trains fewer: rows for which these suffice are not few."""

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
        raise SclsearchError(f"fresh replicates: must be at least 1, got {count}.")
    start = max(protocol.replicates, first or 0)

    def replicate(number: int) -> Replicate:
        # Renumbered: seed runs and records identify a replicate by its position in the study.
        found = replace(protocol.replicate(start + number), number=number)
        return replace(found, subset=start + number) if protocol.few_shot else found

    in_turn = any(protocol.replicate(number).subset != number for number in range(2 * start))
    subsets = ", new subsets" if protocol.few_shot and in_turn else ""
    begin = f" from {start}" if start > protocol.replicates else ""
    repetition = f"{FRESH_REPLICATES}{begin}{subsets}"
    if protocol.repetition:
        repetition = f"{protocol.repetition}, {repetition}"
    return replace(
        protocol,
        replicates=count,
        rule=MEAN,
        replicate=replicate,
        repetition=repetition,
    )


def with_enough_updates(protocol: Protocol) -> Protocol:
    """Return the protocol with at least `LEAST_UPDATES` in each stage that trains the encoder."""

    def training(rows: int, batch_size: int) -> Mapping[str, object]:
        found = protocol.training(rows, batch_size)
        usual = {"epochs": (batch_size, 10), "post_epochs": (POST_BATCH_SIZE, 5)}
        least = {name: least_epochs(rows, size) for name, (size, _) in usual.items()}
        few = {
            name: max(epochs, int(str(found.get(name, usual[name][1]))))
            for name, epochs in least.items()
            if epochs > ENOUGH_EPOCHS
        }
        return {**found, **few}

    return replace(protocol, training=training)


def for_rows(protocol: Protocol, data: TaskData, splits: int | None) -> tuple[Protocol, int]:
    """Return the protocol and the usual number of configurations for the rows of a task.

    A user's own files have fewer seeds and configurations the more rows they have. Without
    validation rows of their own, few rows are divided anew into training and validation rows by
    each of 10 seeds.
    """
    rows = data.splits["train"].labeled
    if not data.task.own or protocol.name != "plain":
        return (protocol if splits is None else with_splits(protocol, splits)), CONFIGS
    configs, seeds = next(effort for most, *effort in EFFORT if rows <= most)
    protocol = replace(protocol, replicates=seeds)
    if splits is None and "validation" not in data.splits and rows <= FEW_ROWS:
        splits = SPLITS
    return (protocol if splits is None else with_splits(protocol, splits)), configs


def with_splits(protocol: Protocol, count: int) -> Protocol:
    """Return `plain` with random splits: replicate r has split r mod `count`."""
    if protocol.name != "plain":
        raise SclsearchError(
            f"--splits {count}: needs --protocol plain, because {protocol.name} defines its own "
            "splits. Leave it out, or pass --protocol plain."
        )
    if count < 2:
        raise SclsearchError(f"--splits: must be at least 2, got {count}.")

    def redraw(data: TaskData, _splits: Splits, _size: Size | None, replicate: Replicate) -> Splits:
        number = replicate.subset % count
        return hold_out(data, plain_pool(data), share=HELD_OUT, seed=number)

    return replace(protocol, redraw=redraw, repetition=f"{count} splits")


def laptop(protocol: Protocol) -> Protocol:
    """Return the protocol with MiniLM, 3 replicates and at most 150 updates per stage.

    It evaluates ten times, on at most 200 validation and 500 test rows. A rule that counts the top
    k of n keeps its k; if k exceeds 3, the rule counts all seeds.
    """

    def redraw(data: TaskData, _splits: Splits, size: Size | None, replicate: Replicate) -> Splits:
        return _fewer(data, protocol.splits(data, size, replicate))

    def within(top: Top) -> Top:
        return Top() if top.k is not None and top.k > REPLICATES else top

    return replace(
        protocol,
        replicates=min(protocol.replicates, REPLICATES),
        rule=Rule(within(protocol.rule.score), within(protocol.rule.report)),
        evaluate="tenth",
        max_updates=UPDATES,
        model="minilm",
        redraw=redraw,
        scale="laptop",
    )


SCALES: Mapping[str, Callable[[Protocol], Protocol]] = MappingProxyType({"laptop": laptop})


def _fewer(data: TaskData, splits: Splits) -> Splits:
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
        notes=(*(among if text == SAME_ROWS and cut else text for text in splits.notes), note),
    )


def at_most(most: int, rows: Rows, data: TaskData, purpose: str) -> Rows:
    """Return a stratified sample of at most `most` rows, drawn by the purpose's random stream."""
    if len(rows.index) <= most:
        return rows
    chosen = stratified(rows.labels(data), most, stream(0, f"{purpose}/{rows.split}"))
    return Rows(rows.split, rows.index[chosen])
