"""Baseline classifiers of a study's report, and warnings about a doubtful winner."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sclsearch.reports.lines import ConfigurationLine, line_of
from sclsearch.selection.rules import Rule
from sclsearch.selection.significance import compare
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun

FEW_ROWS = 10
"""Minimum validation rows per class; below it one row moves the class's score by over a tenth."""


def baseline_lines(
    stored: Mapping[int, Any], replicates: Sequence[int], rule: Rule, metric: str
) -> tuple[ConfigurationLine, ...]:
    """Return report lines for the baselines, each scored like a configuration under a rule.

    The `origin` of a line is the name of the baseline.

    Args:
        stored: Evaluations of each baseline, by replicate.
        replicates: Numbers of the replicates.
        rule: Selection rule that aggregates the seeds.
        metric: Name of the metric.
    """
    names = {name for found in stored.values() for name in found}
    lines = []
    for name in sorted(names, key=lambda name: ("encoder" in name, name)):  # simplest first
        runs = [(number, _as_run(stored.get(number, {}).get(name))) for number in replicates]
        lines.append(line_of(ConfigurationRecord(-1, {}, {}, name), runs, (), rule, metric))
    return tuple(lines)


def doubts(
    winner: ConfigurationLine,
    baselines: Sequence[ConfigurationLine],
    runs: Sequence[SeedRun],
    labels: Sequence[str],
) -> Iterator[str]:
    """Yield a warning for each reason to doubt a winner.

    Reasons: it predicts one class, is not above a baseline, or a class has few validation rows.

    Args:
        winner: The winning configuration.
        baselines: The baselines under the same rule.
        runs: The winner's seed runs.
        labels: Names of the classes; empty for regression.
    """
    counts = [
        np.array(run.evaluations[run.kept]["validation"]["confusion"])
        for run in runs
        if run.failure is None and "confusion" in run.evaluations[run.kept]["validation"]
    ]
    collapsed = sum(int((one.sum(0) > 0).sum() == 1) for one in counts)
    if 2 * collapsed > len(counts):
        yield (
            f"warning: in {collapsed} of {len(counts)} seeds the winner predicts one class for "
            "every validation row"
        )
    for baseline in baselines:
        yield from _not_above(winner, baseline)
    if counts:
        rows = np.min([one.sum(1) for one in counts], 0)
        few = [
            f"{label} ({count})"
            for label, count in zip(labels, rows, strict=False)
            if count < FEW_ROWS
        ]
        if few:
            yield f"warning: classes with fewer than {FEW_ROWS} validation rows: {', '.join(few)}"


def _not_above(winner: ConfigurationLine, baseline: ConfigurationLine) -> Iterator[str]:
    tests = {seed.replicate: seed.test for seed in baseline.seeds}
    ours = [seed.test for seed in winner.seeds]
    theirs = [tests.get(seed.replicate) for seed in winner.seeds]
    if not any(a is not None and b is not None for a, b in zip(ours, theirs, strict=True)):
        return
    found = compare(ours, theirs)
    low = found.difference if found.interval is None else found.interval[0]
    if low > 0:
        return
    told = "" if found.interval is None else f" (95 %: {low:+.4f} to {found.interval[1]:+.4f})"
    yield (
        f"warning: the winner is not above the baseline {baseline.origin}: its test score differs "
        f"by {found.difference:+.4f}{told}"
    )


def _as_run(found: Mapping[str, Any] | None) -> SeedRun | None:
    if found is None:
        return None
    return SeedRun(
        "", {}, {}, evaluations=({"validation": found["validation"]},), test=found["test"]
    )
