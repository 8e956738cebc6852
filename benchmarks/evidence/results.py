"""Results of the rows: paired comparisons on fresh seeds, and verdicts."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.evidence.records import Frames, of_kind
from benchmarks.evidence.rows import ROWS, Row
from sclsearch.errors import SclsearchError
from sclsearch.selection.rules import mean_std, parse_rule, reported_test
from sclsearch.selection.significance import (
    ALPHA,
    Comparison,
    SearchScores,
    compare,
    holm,
)
from sclsearch.tasks.metrics import METRICS

TENS = 10
"""Seeds of the papers' rule: the top 3 of 10."""
LOGISTIC = "logistic regression on the frozen encoder"
HOLDS, FAILS, INCONCLUSIVE = "holds", "does not hold", "inconclusive"


def scores(frame: pd.DataFrame, split: str = "test") -> list[float | None]:
    """Return the scores of a frame; None for a failed seed run."""
    return [None if math.isnan(one) else one for one in frame[split].tolist()]


def mean_of(frame: pd.DataFrame, split: str = "test") -> float:
    """Return the mean score of the seed runs that did not fail."""
    return mean_std([one for one in scores(frame, split) if one is not None])[0]


def paired(better: pd.DataFrame, reference: pd.DataFrame, kind: str = "confirm") -> Comparison:
    """Return the paired comparison of two winners on their fresh seeds, or on those of the search.

    Raises:
        SclsearchError: The studies have other seeds, training rows or test rows.
    """
    own, its = of_kind(better, kind), of_kind(reference, kind)
    for name in ("replicate", "train_rows", "test_rows"):
        if own[name].tolist() != its[name].tolist():
            raise SclsearchError(
                f"{better['study'][0]} and {reference['study'][0]}: must have the same {name}. "
                "Train both with benchmarks/evidence.sh."
            )
    return compare(scores(own), scores(its), own["train_rows"].tolist())


def against_baseline(frame: pd.DataFrame, origin: str) -> Comparison:
    """Return the paired comparison of a study with a baseline on its fresh seeds."""
    own = of_kind(frame, "confirm")
    baseline = of_kind(frame, "baseline", origin)
    return compare(scores(own), scores(baseline), own["train_rows"].tolist())


def verdict(comparison: Comparison, adjusted: float, published: float | None) -> str:
    """Return the verdict on the claim that a difference is positive.

    - `holds`: the difference is positive and its p-value, adjusted for the page, at most 0.05.
    - `does not hold`: the difference is negative and its adjusted p-value at most 0.05; or the
      adjusted p-value is above 0.05, and the 95 % interval ends below the difference that the
      paper publishes for the same task and number of examples.
    - `inconclusive`: everything else.
    """
    if adjusted <= ALPHA:
        return HOLDS if comparison.difference > 0 else FAILS
    if published is not None and comparison.interval and comparison.interval[1] < published:
        return FAILS
    return INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a row.

    Attributes:
        row: The row.
        comparison: Paired comparison on fresh seeds.
        adjusted: P-value after Holm's correction for all rows of the page.
        verdict: The verdict in one word.
    """

    row: Row
    comparison: Comparison
    adjusted: float
    verdict: str


def results(model: str, frames: Frames) -> list[Result]:
    """Return the results of all rows of which both sides are stored."""
    rows = recorded(model, frames)
    sides = [[frames[study] for study in row.studies(model)] for row in rows]
    found = [paired(better, reference) for reference, better in sides]
    return [
        Result(
            row,
            one,
            adjusted,
            verdict(one, adjusted, row.published),
        )
        for row, one, adjusted in zip(rows, found, holm([one.p for one in found]), strict=True)
    ]


def recorded(model: str, frames: Frames) -> list[Row]:
    """Return the rows of which both sides are stored."""
    return [row for row in ROWS if set(row.studies(model)) <= frames.keys()]


def top_of_ten(frame: pd.DataFrame) -> list[float]:
    """Return the test score of the top 3 by validation of each ten fresh seeds, in turn."""
    confirm = of_kind(frame, "confirm")
    validation, test = scores(confirm, "validation"), scores(confirm)
    tens = [slice(start, start + TENS) for start in range(0, len(confirm) - TENS + 1, TENS)]
    found = [reported_test(parse_rule("top-3"), validation[ten], test[ten])[1] for ten in tens]
    return [one for one in found if one is not None]


def searched_scores(frame: pd.DataFrame) -> SearchScores:
    """Return the scores of all configurations of a search, as `sclsearch compare` reads them."""
    search = frame[frame["kind"] == "search"]
    table = search.pivot_table(("validation", "test"), "configuration", "replicate", dropna=False)
    trained = search.pivot_table("seconds", "configuration", "replicate").notna().to_numpy()
    minimum = METRICS[search["metric"].iloc[0]].minimum
    validation = np.where(trained, table["validation"].fillna(minimum), np.nan)
    return SearchScores(validation, table["test"].to_numpy(), trained, parse_rule("mean").score)
