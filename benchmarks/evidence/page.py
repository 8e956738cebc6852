"""The tables of the page benchmarks/evidence.md."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.evidence.claims import CLAIMS, Claim
from benchmarks.evidence.records import Frames, of_kind, paired, scores
from benchmarks.machine import markdown, percent
from sclsearch.canonical import settings
from sclsearch.reports.comparison_tables import compared, points
from sclsearch.selection.rules import Top, mean_std, parse_rule, reported_test
from sclsearch.selection.significance import (
    ALPHA,
    Comparison,
    SearchScores,
    compare,
    holm,
    search_interval,
)

LOGISTIC = "logistic regression on the frozen encoder"
BASELINES = ("majority class", LOGISTIC, "SetFit")
SEARCHED = ("learning_rate", "head_lr_mult", "label_lr_mult", "post_learning_rate", "dropouts")
"""Hyperparameters of the spaces; each space has two of them."""
CLAIM_COLUMNS = (
    *("claim", "task", "examples", "left", "right"),
    *("majority class", "logistic regression", "SetFit", "difference", "95 %", "pairs"),
    *("p", "adjusted", "Wilcoxon", "published", "search seeds (95 %, search)", "verdict"),
)
SIDE_COLUMNS = (
    *("side", "seed runs, search", "device", "winner", "validation, search", "validation, fresh"),
    *("test, search", "test, fresh", "top 3 of 10", "minus logistic regression, 95 %"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Paired comparison of a claim's sides on fresh seeds; p adjusted for the page by Holm."""

    claim: Claim
    comparison: Comparison
    adjusted: float

    @property
    def verdict(self) -> str:
        """Return the verdict, as the page defines it."""
        interval, published = self.comparison.interval, self.claim.published
        if self.adjusted <= ALPHA:
            return "holds" if self.comparison.difference > 0 else "does not hold"
        if published is not None and interval is not None and interval[1] < published:
            return "does not hold"
        return "inconclusive"


def results(frames: Frames) -> list[Result]:
    """Return the results of all claims of which both sides are stored."""
    claims = [one for one in CLAIMS if {one.reference.study, one.better.study} <= frames.keys()]
    found = [paired(frames[one.better.study], frames[one.reference.study]) for one in claims]
    return [Result(*one) for one in zip(claims, found, holm([f.p for f in found]), strict=True)]


def page(text: str, frames: Frames) -> str:
    """Return the page with new tables."""
    found = {one.claim: one for one in results(frames)}
    claims = [claim_cells(claim, found.get(claim), frames) for claim in CLAIMS]
    sides = [list(side_cells(study, frame)) for study, frame in frames.items()]
    tables = iter([markdown(CLAIM_COLUMNS, claims), markdown(SIDE_COLUMNS, sides)])
    return re.sub(r"(?m)(^\|.*\n)+", lambda _: "\n".join([*next(tables), ""]), text)


def claim_cells(claim: Claim, result: Result | None, frames: Frames) -> list[str]:
    """Return the line of a claim; without its scores if it has no result."""
    better, reference = claim.better, claim.reference
    name = f"{claim.paper}: `{better.name}` > `{reference.name}`"
    cells = [name, better.condition, str(better.size)]
    if result is None:
        empty = len(CLAIM_COLUMNS) - len(cells) - 1
        return [*cells, *[""] * empty, "not recorded"]
    sides = frames[better.study], frames[reference.study]
    baselines = [of_kind(sides[0], "baseline", one)["test"].mean() for one in BASELINES]
    return [
        *cells,
        *(percent(of_kind(side, "confirm")["test"].mean()) for side in sides),
        *("" if np.isnan(mean) else percent(mean) for mean in baselines),
        *(
            cell.replace("0.000", "< 0.001")
            for cell in compared(result.comparison, result.adjusted)
        ),
        "" if claim.published is None else f"{100 * claim.published:+.1f}",
        with_search(*sides),
        f"**{result.verdict}**",
    ]


def with_search(better: pd.DataFrame, reference: pd.DataFrame) -> str:
    """Return the winners' difference on the seeds that chose them, and its search interval."""
    comparison = paired(better, reference, "search")
    subsets = of_kind(better, "search")["train_rows"].tolist()
    a, b = search_scores(better), search_scores(reference)
    interval = points(search_interval(comparison, a, b, subsets))
    return f"{100 * comparison.difference:+.1f} ({interval})"


def search_scores(frame: pd.DataFrame) -> SearchScores:
    """Return the scores of all configurations of a search, as `sclsearch compare` reads them."""
    search = frame[frame["kind"] == "search"].fillna({"validation": 0.0})  # failed seed runs
    table = search.pivot(index="configuration", columns="replicate")
    validation, test = (table[split].to_numpy(float) for split in ("validation", "test"))
    return SearchScores(validation, test, ~np.isnan(validation), Top())


def side_cells(study: str, frame: pd.DataFrame) -> Iterator[str]:
    """Yield the cells of a side: its search, its winner, and the winner's scores."""
    search = frame[frame["kind"] == "search"]
    chosen, fresh = of_kind(frame, "search"), of_kind(frame, "confirm")
    names = [name for name in SEARCHED if name in search and search[name].nunique() > 1]
    values = {name: chosen[name].iloc[0] for name in names}
    rates = search["learning_rate"]
    edge = " ∗" * (values.get("learning_rate") in (rates.min(), rates.max()))
    tens = [fresh[start : start + 10] for start in range(0, len(fresh), 10)]
    top = parse_rule("top-3")
    tops = [reported_test(top, scores(ten, "validation"), scores(ten))[1] for ten in tens]
    baseline = scores(of_kind(frame, "baseline", LOGISTIC))
    difference, interval, *_ = compared(compare(scores(fresh), baseline), 1.0)
    yield f"`{study}`"
    yield str(len(search))
    yield ", ".join(frame["device"].dropna().unique())
    yield settings(values) + edge
    for split in ("validation", "test"):
        for side in (chosen, fresh):
            mean, std = mean_std(side[split].dropna().tolist())
            yield f"{percent(mean)} ± {percent(std or 0)}"
    yield percent(pd.Series(tops, dtype=float).mean())
    yield f"{difference} ({interval})"
