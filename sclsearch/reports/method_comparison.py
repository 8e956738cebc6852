"""Comparison of methods over several tasks by mean ranks (Demšar, 2006, JMLR 7:1-30)."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.notes import Note
from sclsearch.reports.report import Report
from sclsearch.selection.rules import DECIMALS
from sclsearch.selection.significance import ALPHA, compare, signed_points, smallest_p

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """Comparison of methods over several tasks, each by the test score of its winner.

    Attributes:
        methods: Methods, or encoders of one method, by mean rank, the best first.
        comparisons: The paired comparison of each task, its studies in the order of `methods`.
        scores: Mean test score by task, then by method in the order of `methods`.
        ranks: Mean rank over the tasks by method; 1 is the best, equal scores share their ranks.
        p: P-value of Friedman's test, or of Wilcoxon's signed-rank test of two methods.
        critical_difference: Smallest reliable difference of two mean ranks by Nemenyi's test at
            the 5 % level; None for two methods.
    """

    methods: tuple[str, ...]
    comparisons: tuple[StudyComparison, ...]
    scores: tuple[tuple[float, ...], ...]
    ranks: tuple[float, ...]
    p: float
    critical_difference: float | None

    @property
    def tasks(self) -> list[str]:
        return [one.task for one in self.comparisons]

    @property
    def reports(self) -> list[Report]:
        return [*chain.from_iterable(one.reports for one in self.comparisons)]

    @property
    def notes(self) -> list[Note]:
        """Notes of the comparisons of each task."""
        return [note.about(one.task) for one in self.comparisons for note in one.notes]

    @property
    def worse(self) -> tuple[str, ...]:
        """Methods that are reliably worse than the best one."""
        if self.p > ALPHA:
            return ()
        behind, gap = np.subtract(self.ranks, self.ranks[0]), self.critical_difference or 0.0
        return tuple(np.array(self.methods)[(behind > 0) & (behind >= gap)].tolist())

    @property
    def answer(self) -> str:
        """Sentences on the best method, and how reliable its lead is."""
        tasks, worse = counted(len(self.scores), "task"), " and ".join(self.worse)
        if self.critical_difference is None:
            lead = np.subtract(*np.transpose(self.scores))
            answer = (
                f"{self.methods[0]} is better than {self.methods[1]} on {(lead > 0).sum()} of "
                f"{tasks}; the mean difference is {signed_points(lead.mean())} points, and "
                f"Wilcoxon's p is {self.p:.3f}, so "
                f"{'it is reliably better' if worse else 'the lead may be chance'}."
            )
        else:
            first = self.methods[: self.ranks.count(self.ranks[0])]
            answer = (
                f"{' and '.join(first)} {'has' if len(first) == 1 else 'have'} the best mean rank, "
                f"{self.ranks[0]:.1f} of {len(self.ranks)} methods over {tasks}; the critical "
                f"difference is {self.critical_difference:.1f}, and Friedman's p is {self.p:.3f}, "
                f"so {worse or 'no other'} {'are' if len(self.worse) > 1 else 'is'} reliably worse."
            )
        fewest = fewest_tasks(len(self.methods))
        if len(self.scores) >= fewest:
            return answer
        return f"{answer} So few tasks cannot show a difference; that takes at least {fewest}."

    def frame(self) -> "pd.DataFrame":
        """Return the mean test scores in points, one row per task and one column per method."""
        import pandas as pd

        columns = [f"{name} (points)" for name in self.methods]
        frame = pd.DataFrame(100 * np.array(self.scores), columns=columns)
        frame.insert(0, "task", self.tasks)
        return frame

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON, with its answer."""
        comparisons = [one.as_dict() for one in self.comparisons]
        found = asdict(replace(self, comparisons=()))
        return {**found, "tasks": self.tasks, "comparisons": comparisons, "answer": self.answer}

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.methods)}>\n{self.answer}"


def compare_methods(reports: Sequence[Report]) -> MethodComparison:
    """Return the comparison of methods over several tasks; each has one study per task.

    Raises:
        SclsearchError: There are fewer than two methods or tasks, a method lacks a task, or the
            studies of a task cannot be compared.
    """
    found, names = _by_task(reports)
    comparisons = [compare_studies([of_task[name] for name in names]) for of_task in found]
    if untested := [one.task for one in comparisons if not one.tested]:
        raise SclsearchError(f"compare: {', '.join(untested)}: there are {NO_TEST_ROWS}.")
    scores = np.array([[one.test_mean for one in each.studies] for each in comparisons], float)
    ranks, p = mean_ranks(scores)
    order = np.argsort(ranks, kind="stable").tolist()
    return MethodComparison(
        methods=tuple(names[place] for place in order),
        comparisons=tuple(
            replace(one, studies=tuple(one.studies[place] for place in order))
            for one in comparisons
        ),
        scores=tuple(map(tuple, scores[:, order].tolist())),
        ranks=tuple(ranks[order].tolist()),
        p=p,
        critical_difference=critical_difference(len(names), len(found)) if len(names) > 2 else None,
    )


def _by_task(reports: Sequence[Report]) -> tuple[list[dict[str, Report]], list[str]]:
    """Return the reports of each task by method or encoder, and the names of these."""
    by_encoder = len({one.method for one in reports}) == 1
    found: dict[str, dict[str, Report]] = {}
    for one in reports:
        of_task = found.setdefault(one.task, {})
        name = one.encoder if by_encoder else one.method
        if name in of_task:
            raise SclsearchError(
                f"compare: {of_task[name].study} and {one.study} are both of {name} on {one.task}. "
                "Pass one study per method and task."
            )
        of_task[name] = one
    names = list(dict.fromkeys(name for of_task in found.values() for name in of_task))
    lacking = [f"{name} on {task}" for task in found for name in names if name not in found[task]]
    if lacking or len(names) < 2 or len(found) < 2:
        raise SclsearchError(
            "compare: needs two or more methods with a study of each of two or more tasks, got "
            f"{', '.join(names)} on {', '.join(found)}"
            + (f"; missing: {', '.join(lacking)}" if lacking else "")
            + ". `sclsearch ls studies` lists studies."
        )
    return [*found.values()], names


def mean_ranks(scores: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], float]:
    """Return the mean rank of each column, and the p-value of Friedman's or Wilcoxon's test."""
    from scipy.stats import friedmanchisquare, rankdata

    rounded = scores.round(DECIMALS)
    ranks = rankdata(-rounded, axis=1).mean(axis=0)
    if len(ranks) == 2:
        return ranks, compare(*rounded.T.tolist()).p_wilcoxon
    # Without a difference of ranks, ties may leave Friedman's statistic undefined.
    return ranks, float(friedmanchisquare(*rounded.T).pvalue) if np.ptp(ranks) else 1.0


def critical_difference(methods: int, tasks: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at the 5 % level (section 3.2.2)."""
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - ALPHA, methods, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * tasks))


def fewest_tasks(methods: int) -> int:
    """Return the smallest number of tasks whose tests can show a difference at the 5 % level."""
    if methods == 2:
        return next(tasks for tasks in count(2) if smallest_p(tasks) <= ALPHA)
    from scipy.stats import chi2

    return next(
        tasks
        for tasks in count(2)
        if critical_difference(methods, tasks) <= methods - 1
        and chi2.sf(tasks * (methods - 1), methods - 1) <= ALPHA
    )
