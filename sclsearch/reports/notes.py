"""Notes and warnings of a report: what the reader must know to judge its scores."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted, one_line
from sclsearch.reports.frames import device_name
from sclsearch.reports.lines import ConfigurationLine, best_line
from sclsearch.reports.verdict import against, is_linear
from sclsearch.selection.significance import FEWEST_PAIRS
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import uneven_seeds
from sclsearch.study.state import SearchState

if TYPE_CHECKING:
    from sclsearch.reports.report import Report

OTHER_WINNERS = {"mean": "2.4 %", "top-k": "3.5 %"}
"""Highest share of other winners in recorded searches of one size, see `benchmarks/race.md`."""
FEW_ROWS = 10
"""Minimum validation rows per class; below it one row moves the class's score by over a tenth."""
OTHERS_UNTESTED = (
    "only the winner was tested; `sclsearch tune` with `--test-scores all` tests the others, too"
)


def ranking_notes(
    state: SearchState,
    lines: Sequence[ConfigurationLine],
    baselines: Sequence[ConfigurationLine],
) -> Iterator[str]:
    """Yield the notes on a ranking, its winner and its data, most important first.

    Args:
        state: The results.
        lines: The ranking of the configurations.
        baselines: Baseline classifiers to compare the winner with; none for a useless winner,
            whose verdict names one.
    """
    winner = best_line(lines)
    if winner is not None:
        yield from _untested(winner, lines, str(state.rule))
        yield from _doubts(winner, baselines, state)
    if state.replicates:
        yield from state.replicates[0].notes
        yield from uneven_seeds(state.replicates)
    yield from _mixed_devices(state.seed_runs.values())
    yield from state.record.origin["notes"]
    if winner is not None:
        runs = list(state.runs_of(winner.number).values())
        for position in winner.reported:
            yield from runs[position].notes


def untested_winner(winner: ConfigurationLine, rule: str, fewer: str = "") -> str:
    """Return that seeds of a winner have no test score, and how to test them.

    `fewer` is the option for a number of seeds smaller than the stored one.
    """
    return (
        f"{winner.untested} of {len(winner.seeds)} seeds of the winner #{winner.number} have no "
        f"test score. Repeat its `sclsearch tune` with `--rule {rule}{fewer}`, which tests them."
    )


def not_shown(shown: int, stored: int) -> Iterator[str]:
    """Yield a note if a report does not read all configurations of a study."""
    if shown < stored:
        yield (
            f"shown: the first {shown} of {stored} stored configurations; show, report and "
            "export read all of them"
        )


def seeds_lacking(report: "Report") -> str:
    """Return how many configurations lack seeds, and whether one may win; empty if none does."""
    lines = report.configurations
    counts = Counter(len(line.seeds) for line in lines if line.score is None)
    if counts.total() in {0, len(lines)}:
        return ""
    listed = ", ".join(f"{count} with {seeds}" for seeds, count in sorted(counts.items()))
    lacking = (
        f"{counts.total()} of {counted(len(lines), 'configuration')} have fewer than "
        f"{counted(report.seeds, 'seed')} ({listed})"
    )
    if not report.finished:
        return f"{lacking}: the search is unfinished, and one of them may win"
    if report.race == "exact":
        return f"{lacking}: none of them could win with all seeds"
    share = OTHER_WINNERS["mean" if report.rule.startswith("mean") else "top-k"]
    return (
        f"{lacking}: the race left them out; in recorded searches, one of them would have won in "
        f"at most {share} of cases"
    )


def left_out(damaged: Sequence[str]) -> Iterator[str]:
    """Yield a warning if files of the study are damaged, and what is wrong with each."""
    if damaged:
        yield (
            f"warning: damaged files, left out of the ranking: {len(damaged)}; another "
            "configuration may be the winner"
        )
    yield from damaged


def _untested(
    winner: ConfigurationLine, lines: Sequence[ConfigurationLine], rule: str
) -> Iterator[str]:
    """Yield a note if seed runs have not been tested."""
    if winner.untested:
        yield f"warning: {untested_winner(winner, rule)}"
    elif any(line.untested for line in lines):
        yield OTHERS_UNTESTED


def _doubts(
    winner: ConfigurationLine, baselines: Sequence[ConfigurationLine], state: SearchState
) -> Iterator[str]:
    """Yield a warning for each reason to doubt a winner.

    Reasons: it is not reliably above a baseline, or a class has few validation rows.
    """
    labels = state.record.origin.get("labels", ())
    counts = [
        np.array(run.validation["confusion"])
        for run in state.runs_of(winner.number).values()
        if run.validation is not None and "confusion" in run.validation
    ]
    for baseline in baselines:
        yield from _not_above(winner, baseline, state)
    if counts:
        rows = np.min([one.sum(1) for one in counts], 0)
        few = [
            f"{one_line(label)} ({count})"
            for label, count in zip(labels, rows, strict=False)
            if count < FEW_ROWS
        ]
        if few:
            yield f"warning: classes with fewer than {FEW_ROWS} validation rows: {', '.join(few)}"


def _mixed_devices(runs: Iterable[SeedRun]) -> Iterator[str]:
    """Yield a note if different devices trained the successful seed runs."""
    counts = Counter(device_name(run) for run in runs if run.failure is None)
    if len(counts) > 1:
        listed = ", ".join(f"{count} on {one_line(name)}" for name, count in counts.most_common())
        yield (
            f"seed runs were trained on different devices: {listed}; the score of a seed run can "
            "differ between them"
        )


def _not_above(
    winner: ConfigurationLine, baseline: ConfigurationLine, state: SearchState
) -> Iterator[str]:
    compared = against(winner, baseline, state)
    if compared is None:
        return
    found, split = compared
    low, interval = found.difference, ""
    if found.interval is not None:
        low, high = found.interval
        interval = f" (95 %: {100 * low:+.1f} to {100 * high:+.1f})"
    elif found.n < FEWEST_PAIRS and is_linear(baseline):
        low, interval = 0.0, f" over {counted(found.n, 'pair')}; an interval takes {FEWEST_PAIRS}"
    if low <= 0:
        how = "reliably " if found.difference > 0 else ""
        picked = len(winner.reported) < len(winner.seeds) - winner.failed
        seeds = " over all seeds" if picked else ""
        points = round(100 * found.difference, 1) + 0.0
        yield (
            f"warning: the winner is not {how}above the baseline {baseline.origin}: its {split} "
            f"score{seeds} differs by {points:+.1f} points{interval}"
        )
