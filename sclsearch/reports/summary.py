"""Answer of a report or a comparison in three sentences: which, how sure, and what to do next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sclsearch.canonical import counted
from sclsearch.errors import RETRY
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.commands import export_command, search_command, study_command
from sclsearch.reports.comparison import (
    ComparedStudy,
    ConfirmedScore,
    StudyComparison,
    confirmed_score,
)
from sclsearch.reports.report import AgainstBaseline, ConfigurationLine, Report
from sclsearch.reports.terminal import (
    rule_of,
    seeds_in_words,
    test_result,
    tie_statement,
    values_of,
    with_spread,
)
from sclsearch.selection.significance import ALPHA, Comparison, in_points, smallest_p
from sclsearch.store.storage import storage_option


@dataclass(frozen=True, slots=True)
class Summary:
    """Answer, its certainty, and the next step with its command; the command may be empty."""

    answer: str
    certainty: str
    next_step: str
    command: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The sentences as paragraphs, with the command in backquotes."""
        command = f" `{self.command}`" if self.command else ""
        return tuple(
            filter(None, (self.answer, self.certainty, f"Next: {self.next_step}{command}"))
        )


def summarize(found: Report, fresh: ConfirmedScore | None = None) -> Summary:
    """Return the summary of a study; `fresh` is its winner's score on new seeds, if known."""
    winner = found.winner
    if winner is None:
        return _without_winner(found)
    verdict = found.verdict
    if verdict is not None:
        answer = f"No configuration of {found.method} is useful. {verdict.sentence}"
        return Summary(answer, f"Likely cause: {verdict.cause}.", "search again:", verdict.command)
    certainty = " ".join(_certainty(found, winner, fresh))
    return Summary(_answer(found, winner, fresh), certainty, *_next(found, fresh))


def summary_of(found: Report) -> Summary:
    """Return the summary of a study, with its winner's score on new seeds from the storage."""
    return summarize(found, confirmed_score(found) if found.winner else None)


def _without_winner(found: Report) -> Summary:
    if failures := found.failures:
        answer = f"No configuration finished a seed run; {len(failures)} failed."
        return Summary(answer, f"First failure: {failures[0].rstrip('.')}.", RETRY, "")
    return Summary("No configuration is finished yet.", "", "resume:", search_command(found))


def _answer(found: Report, winner: ConfigurationLine, fresh: ConfirmedScore | None) -> str:
    count = len(found.configurations)
    best = f"is the best of {count} configurations of" if count > 1 else "is the configuration of"
    subject = f"#{winner.number} {best} {found.method} on {found.task}"
    score = f"test {found.metric} {test_result(winner)}, {seeds_in_words(found, winner)}"
    if not found.has_test:
        score = f"validation {found.metric} {winner.score:.4f}, {rule_of(found)}"
    elif fresh is not None:
        mean = with_spread(fresh.mean, fresh.std)
        score = f"test {found.metric} {mean} on {counted(fresh.seeds, 'new seed')}"
    return f"{subject}: {score}. It has {values_of(found, winner)}."


def _certainty(
    found: Report, winner: ConfigurationLine, fresh: ConfirmedScore | None
) -> Iterator[str]:
    if tied := tie_statement(found, winner):
        yield f"It is {tied}."
    nearest = nearest_baseline(found)
    if nearest is not None:
        yield _above(nearest, "It")
    if not found.has_test:
        yield f"There are {NO_TEST_ROWS}."
    elif fresh is None:
        yield (
            "The same seeds chose it, so the score may be slightly too high."
            if found.tests_apart
            else found.choice
        )
    else:
        rows = " They read rows that also chose it." if fresh.same_rows else ""
        yield f"The new seeds played no part in the choice.{rows}"


def nearest_baseline(found: Report) -> AgainstBaseline | None:
    """Return the comparison of the winner with its best baseline; None without one."""
    return min(found.against, key=lambda one: one.comparison.difference, default=None)


def _above(one: AgainstBaseline, subject: str) -> str:
    difference, interval = one.comparison.difference, one.comparison.interval
    sure = interval is not None and interval[0] > 0
    points = f"{in_points(abs(difference))} points"
    spread = "" if interval is None else f" (95 %: {_range(interval)})"
    if sure:
        return f"{subject} is {points} above the baseline {one.name}{spread}."
    side = "above" if difference > 0 else "below"
    level = f"{points} {side}" if difference else "equal to"
    pairs = f" over {counted(one.comparison.n, 'pair')}" if interval is None else spread
    return f"{subject} is not reliably above the baseline {one.name}: {level} it{pairs}."


def _range(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:+.1f} to {100 * interval[1]:+.1f}"


def _next(found: Report, fresh: ConfirmedScore | None) -> tuple[str, str]:
    if not found.finished:
        return "resume the search:", search_command(found)
    if fresh is None and found.has_test and not found.repeats:
        return "measure it on new seeds, which did not choose it:", study_command("confirm", found)
    if found.repeats:
        return "", ""
    return "save it as a model:", export_command(found)


def summarize_comparison(found: StudyComparison) -> Summary:
    """Return the summary of several studies: the best of them, ties, and the next step."""
    if not found.tested:
        scores = {one.study: one.validation or 0.0 for one in found.studies}
        best = max(found.studies, key=lambda one: scores[one.study])
        answer = f"{name_of(found, best)} has the best validation score, {best.validation:.4f}."
        return Summary(answer, f"There are {NO_TEST_ROWS}.", "add test rows and repeat.", "")
    best, *others = found.ranked
    verdict = found.report_of(best).verdict
    if verdict is not None:
        answer = f"No method is useful on {found.task}. {name_of(found, best)}: {verdict.sentence}"
        return Summary(answer, f"Likely cause: {verdict.cause}.", "search again:", verdict.command)
    tied = [one for one in others if found.pair(best, one).adjusted > ALPHA]
    certainty = " ".join(_certainty_of_best(found, best, others))
    return Summary(_best(found, best, others, tied), certainty, *_next_of_all(found))


def name_of(found: StudyComparison, one: ComparedStudy) -> str:
    """Return the method of a study, or the study's name if another study has the same method."""
    methods = [other.method for other in found.studies]
    return one.method if methods.count(one.method) == 1 else one.study


def _best(
    found: StudyComparison,
    best: ComparedStudy,
    others: Sequence[ComparedStudy],
    tied: Sequence[ComparedStudy],
) -> str:
    score = f"test {found.metric} {with_spread(best.test_mean or 0.0, best.test_std)}"
    if not tied:
        difference = in_points(found.pair(best, others[0]).comparison.difference)
        second = f"{difference} points above {name_of(found, others[0])}"
        return f"{name_of(found, best)} is best on {found.task}: {score}, {second}."
    names = " and ".join(
        filter(
            None, [", ".join(name_of(found, one) for one in tied[:-1]), name_of(found, tied[-1])]
        )
    )
    worse = [one for one in others if one not in tied]
    clear = f"; it is above {', '.join(name_of(found, one) for one in worse)}" if worse else ""
    return (
        f"No method is clearly best on {found.task}. {name_of(found, best)} has the highest "
        f"{score}, but its lead over {names} may be chance{clear}."
    )


def _certainty_of_best(
    found: StudyComparison, best: ComparedStudy, others: Sequence[ComparedStudy]
) -> Iterator[str]:
    pair = found.pair(best, others[0])
    interval = pair.comparison.interval
    spread = "" if interval is None else f" (95 %: {_range(interval)})"
    yield (
        f"{name_of(found, best)} - {name_of(found, others[0])}: "
        f"{100 * pair.comparison.difference:+.1f} points{spread}, p = {pair.adjusted:.3f}, "
        "adjusted for all pairs of methods."
    )
    yield from _too_few_pairs(found, pair.comparison)
    nearest = nearest_baseline(found.report_of(best))
    if nearest is not None:
        yield _above(nearest, name_of(found, best))


def _too_few_pairs(found: StudyComparison, comparison: Comparison) -> Iterator[str]:
    count = len(found.studies)
    smallest = min(1.0, smallest_p(comparison.n - comparison.n_equal) * count * (count - 1) / 2)
    if smallest > ALPHA:
        pairs = counted(comparison.n, "seed")
        yield f"With {pairs} the smallest possible p is {smallest:.2g}: too few for any difference."


def _next_of_all(found: StudyComparison) -> tuple[str, str]:
    reports = found.reports
    unfinished = next((one for one in reports if not one.finished), None)
    if unfinished is not None:
        return f"resume the search of {unfinished.method}:", search_command(unfinished)
    searches = [one for one in reports if not one.repeats]
    confirmed = [one.confirmed.study for one in found.studies if one.confirmed is not None]
    if searches and len(confirmed) < len(found.studies):
        reason = "compare the winners on new seeds, which did not choose them:"
        return reason, study_command("confirm", *searches)
    if searches:
        where = storage_option(reports[0].storage)
        command = f"sclsearch compare {' '.join(confirmed)}{where}"
        return "compare the winners on the new seeds:", command
    return "", ""
