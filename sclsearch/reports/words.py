"""Words of reports: scores, seeds, rules, races and times as text."""

from collections import Counter
from collections.abc import Sequence

from sclsearch.canonical import counted, settings
from sclsearch.reports.differences import Difference
from sclsearch.reports.report import ConfigurationLine, Report
from sclsearch.selection.race import Band
from sclsearch.selection.significance import Comparison, signed_points

CONFIGURATION = {False: "defaults", True: "the winner that it repeats"}
"""Label of a configuration without values; the key is True if the study repeats a winner."""
OTHER_WINNERS = {"mean": "0 to 2.4 %", "top-k": "0.4 to 4.1 %"}
"""Share of other winners by the size of recorded searches, see `benchmarks/race.md`."""


def joined(names: Sequence[str]) -> str:
    """Return names as text: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def duration(seconds: float | None) -> str:
    """Return a duration as text, such as `7 min` or `1.9 h`."""
    if seconds is None:
        return "unknown"
    minutes = seconds / 60
    if minutes >= 90:
        return f"{minutes / 60:.1f} h"
    return f"{minutes:.0f} min" if minutes >= 1 or not seconds else "under 1 min"


def expected_time(seconds: Sequence[float | None], at_once: int) -> str:
    """Return the time of several searches, each None before its first stored seed run.

    `at_once` is the number of seed runs at a time.
    """
    known = [one for one in seconds if one is not None]
    if seconds and not known:
        return "shown after the first seed runs"
    least = "at least " if len(known) < len(seconds) else ""
    return f"{least}{duration(sum(known))}, {counted(at_once, 'seed run')} at a time"


def with_spread(mean: float, std: float | None) -> str:
    """Return a mean with its standard deviation, `0.6493 ± 0.0142`, or the mean alone."""
    return f"{mean:.4f}" + ("" if std is None else f" ± {std:.4f}")


def interval(one: Difference | Comparison) -> str:
    """Return the interval of a difference, ` (95 %: +0.4 to +2.0)`, or its number of pairs."""
    if one.interval is None:
        return f" ({counted(one.n, 'pair')})"
    low, high = map(signed_points, one.interval)
    return f" (95 %{'' if one.for_rows else ' for other seeds alone'}: {low} to {high})"


def validation_result(line: ConfigurationLine, missing: str = "…") -> str:
    """Return the score; without all seeds, the mean of those there are, and their number."""
    if line.score is not None:
        return f"{line.score:.4f}"
    if line.partial is None:
        return missing
    return f"{line.partial:.4f} ({counted(len(line.seeds), 'seed')})"


def test_result(line: ConfigurationLine) -> str:
    """Return mean ± standard deviation of the reported test scores.

    Without a score it is `none`, or `–` if seed runs have not been tested or have no test rows.
    """
    if line.test_mean is None:
        return "–" if line.reported else "none"
    return with_spread(line.test_mean, line.test_std)


def values_of(report: Report, line: ConfigurationLine) -> str:
    """Return the hyperparameters that tell a configuration from others, or a word without any."""
    return settings(line.values) or CONFIGURATION[report.repeats]


def order_of(report: Report) -> str:
    """Return the order of a report's configurations in words."""
    return "winner first, then by score" if report.start_is_kept else "best first"


def left_out(failed: int) -> str:
    """Return which seeds a mean leaves out."""
    return f"{'failed ones' if failed else 'none'} left out"


def seeds_in_words(report: Report, winner: ConfigurationLine) -> str:
    """Return the seeds of the reported test score in words, such as `mean ± std of all 3 seeds`."""
    count = len(winner.reported)
    if report.seeds == 1:
        return "of one seed"
    if winner.succeeded == 1:
        return "of the only seed that finished"
    if count == 1:
        return "of the seed with the best validation score"
    return f"mean ± std of {'these' if count < report.seeds else 'all'} {count} seeds"


def rule_in_words(top: str, seeds: int) -> str:
    """Return the score part of a rule in words, such as `mean of the top 3 of 10 seeds`."""
    if seeds == 1:
        return "one seed"
    known = {"mean": "mean", "careful": "mean", "best": "best"}
    which = known.get(top) or f"mean of the top {top.removeprefix('top-')}"
    return f"{which} of {seeds} seeds"


def rule_of(report: Report) -> str:
    """Return how the rule of a report scores a configuration, in words."""
    return rule_in_words(report.rule.partition("/")[0], report.seeds)


def race_sentence(stages: Sequence[int], band: Band) -> str:
    """Return what a race does, in one sentence."""
    further = " and, at the end, all that can still win"
    if band != "exact":
        further = f" and those within {band:g} standard errors of the leader"
    after = " and ".join(map(str, stages))
    return f"after {after} seeds, the best third of the configurations{further} go on"


def race_statement(report: Report) -> str:
    """Return how many configurations have fewer seeds, and what that means for the winner."""
    if lacking := seeds_lacking(report):
        return f"{lacking}."
    seeds = "its seed" if report.seeds == 1 else f"all {report.seeds} seeds"
    return f"Every configuration has {seeds}, so the race skipped none."


def seeds_lacking(report: Report) -> str:
    """Return how many configurations lack seeds, and whether one may win; empty if none does."""
    lines = report.configurations
    counts = Counter(len(line.seeds) for line in lines if line.score is None)
    if counts.total() in {0, len(lines)}:
        return ""
    each = ", ".join(f"{count} with {seeds}" for seeds, count in sorted(counts.items()))
    if not report.finished:
        end = "the search is unfinished, and one of them may win"
    elif report.race == "exact":
        end = "none of them could win with all seeds"
    else:
        share = OTHER_WINNERS["top-k" if report.rule.startswith("top") else "mean"]
        end = (
            "the race skipped their other seeds; in recorded searches, one of them would have won "
            f"in {share} of cases"
        )
    return (
        f"{counts.total()} of {counted(len(lines), 'configuration')} have fewer than "
        f"{counted(report.seeds, 'seed')} ({each}): {end}"
    )
