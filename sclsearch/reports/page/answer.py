"""First screen of the page: question, sentences, a small table and one figure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sclsearch.canonical import counted
from sclsearch.reports.comparison import StudyComparison, confirmed_score
from sclsearch.reports.comparison_tables import points, text_frame
from sclsearch.reports.differences import Difference
from sclsearch.reports.page import plots
from sclsearch.reports.page.plots import Plot, Table
from sclsearch.reports.page.sections import Rows, StudyResults
from sclsearch.reports.summary import Summary, name_of, summarize, summarize_comparison
from sclsearch.reports.terminal import test_result, validation_result, with_spread
from sclsearch.selection.significance import Comparison, signed_points

MOST_IN_ANSWER = 4
"""Number of configurations in the figure beside the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """First screen of the page: question, sentences, a small table and one figure."""

    question: str
    summary: Summary
    table: Table
    plot: Plot | None


def answer(found: Sequence[StudyResults], compared: StudyComparison | str | None) -> Answer:
    """Return the first screen of the page."""
    if isinstance(compared, StudyComparison):
        return _best_study(found, compared)
    first = found[0]
    report = first.report
    size = f" with {report.size} training examples" if report.size else ""
    question = f"Which configuration of {report.method} is best on {report.task}{size}?"
    summary = summarize(report, confirmed_score(report))
    if compared is not None:
        question = f"{' and '.join(one.name for one in found)}"
        summary = Summary("There is no answer for these studies together.", compared, "", "")
    rows = all(one.lead.for_rows for one in report.against)
    caption = "Validation scores choose the winner."
    if report.against:
        caption += (
            " Lead: winner minus baseline, in points, with its 95 % interval for other seeds "
            f"{'and rows' if rows else 'alone'}."
        )
    table = Table("answer", caption, text_frame(*_candidates(first)), bold=(0,))
    return Answer(question, summary, table, _answer_plot(first))


def _candidates(results: StudyResults) -> tuple[Rows, tuple[str, ...]]:
    report, winner = results.report, results.winner
    others = [one for one in report.configurations if one is not winner and one.reported]
    against = {one.name: one.lead for one in report.against}
    rows: Rows = []
    for line in (winner, *others[: MOST_IN_ANSWER - 1], *report.baselines):
        baseline = line in report.baselines
        compared = against.get(line.origin) if baseline else None
        number = line.origin if baseline else f"#{line.number}"
        difference = ("", "") if compared is None else _lead(compared)
        seeds = f" ({line.succeeded} of {len(line.seeds)} seeds)" if line.failed else ""
        test = f"{test_result(line)}{seeds}"
        rows.append([number, validation_result(line, "–"), test, *difference])
    header = ("", f"validation {report.metric}", f"test {report.metric}", "lead", "95 %")
    shown = None if against else 3  # without baselines nobody leads
    return [row[:shown] for row in rows], header[:shown]


def _answer_plot(results: StudyResults) -> Plot:
    report = results.report
    lines = report.configurations[:MOST_IN_ANSWER]
    tested = report.has_test and not any(line.untested for line in lines)
    split = "test" if tested else "validation"
    figure = plots.seed_plot(lines, report.baselines, split, report.metric)
    caption = "The winner, then the best by validation: one dot per seed, a bar at their mean."
    return Plot(f"{results.prefix}answer", caption, figure)


def _best_study(found: Sequence[StudyResults], compared: StudyComparison) -> Answer:
    report = found[0].report
    size = f" with {report.size} training examples" if report.size else ""
    what = "method" if len({one.report.method for one in found}) == len(found) else "study"
    question = f"Which {what} is best on {report.task}{size}?"
    rows = list(_scored(compared))
    score = f"{'test' if compared.tested else 'validation'} {compared.metric}"
    header = (what, score, *(["lead", "95 %", "p"] if compared.tested else []))
    caption = (
        "Validation scores chose the winner of each search; these are their test scores, mean "
        f"± std over {counted(compared.seeds, 'seed')}. "
        f"Lead: {rows[0][0]} minus the row, in points, paired by seed. p: permutation test, Holm's "
        "correction for all pairs."
    )
    table = Table("answer", caption, text_frame(rows, header), bold=(0,))
    summary = summarize_comparison(compared)
    return Answer(question, summary, table, _forest(compared) if compared.tested else None)


def _scored(compared: StudyComparison) -> Iterator[list[object]]:
    """Yield name, score and difference from the best: of studies, then of its baselines."""
    best, *others = compared.ranked
    if not compared.tested:
        for one in compared.ranked:
            yield [name_of(compared, one), f"{one.validation or 0.0:.4f}"]
        return
    yield [name_of(compared, best), with_spread(best.test_mean or 0.0, best.test_std), "", "", ""]
    for one in others:
        pair = compared.pair(best, one)
        score = with_spread(one.test_mean or 0.0, one.test_std)
        yield [name_of(compared, one), score, *_lead(pair.comparison), f"{pair.adjusted:.3f}"]
    own = compared.report_of(best)
    scores = {line.origin: test_result(line) for line in own.baselines}
    for baseline in own.against:
        yield [baseline.name, scores[baseline.name], *_lead(baseline.lead), ""]


def _lead(one: Difference | Comparison) -> tuple[str, str]:
    return signed_points(one.difference), points(one.interval)


def _forest(compared: StudyComparison) -> Plot:
    best, *others = compared.ranked
    pairs = [compared.pair(best, one).comparison for one in others]
    ranked = sorted(compared.report_of(best).against, key=lambda one: one.lead.difference)
    baselines = ranked[:1]  # a worse one may stretch the axis
    names = [*(name_of(compared, one) for one in others), *(one.name for one in baselines)]
    figure = plots.forest_plot(
        names, [*pairs, *(one.lead for one in baselines)], len(pairs), compared.metric
    )
    squares = " and the best baseline (square)" if baselines else ""
    name = name_of(compared, best)
    caption = (
        f"{name} minus each method{squares}, with its 95 % interval: right of 0 {name} is better. "
        "A difference whose interval covers 0 may be chance."
    )
    return Plot("comparison", caption, figure)
