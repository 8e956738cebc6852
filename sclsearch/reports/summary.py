"""Answer of a report or a comparison in three sentences: which, how sure, and what to do next."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sclsearch.canonical import counted
from sclsearch.errors import RETRY, listed
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports import words
from sclsearch.reports.commands import export_command, search_command, study_command
from sclsearch.reports.comparison import (
    ConfirmedScore,
    StudyComparison,
    confirmed_score,
)
from sclsearch.reports.differences import AgainstBaseline, Difference
from sclsearch.reports.encoder_costs import weights_of
from sclsearch.reports.notes import is_linear
from sclsearch.reports.report import ConfigurationLine, Report
from sclsearch.selection.rules import parse_rule
from sclsearch.selection.significance import ALPHA, in_points, signed_points, smallest_p
from sclsearch.store.storage import storage_option
from sclsearch.tasks.metrics import METRICS

NON_FINITE = "non-finite"
"""Start of the failure of a seed run that would fail again."""
Lines = Sequence[ConfigurationLine]


@dataclass(frozen=True, slots=True)
class Summary:
    """Answer, its certainty, and the next step with its command; the command may be empty."""

    answer: str
    certainty: str
    next_step: str
    command: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences as paragraphs, without the command."""
        following = f"Next: {self.next_step}" if self.next_step else ""
        return tuple(filter(None, (self.answer, self.certainty, following)))

    @property
    def lines(self) -> tuple[str, ...]:
        """The sentences as paragraphs, with the command in backquotes."""
        *others, last = self.sentences
        return (*others, f"{last} `{self.command}`" if self.command else last)


def summarize(found: Report, fresh: ConfirmedScore | None = None) -> Summary:
    """Return the summary of a study; `fresh` is its winner's score on new seeds, if known."""
    winner, verdict = found.winner, found.verdict
    if winner is None:
        return _without_winner(found)
    if verdict is None or not found.finished:
        leaders = _leaders(found, winner)
        certainty = " ".join(_certainty(found, leaders, fresh))
        return Summary(_answer(found, leaders, fresh), certainty, *_next(found, fresh))
    best = f"#{winner.number} wins by the rule {found.rule}, but {verdict.fault}"
    none = f"No configuration of {found.method} is useful."
    answer = f"{best} {verdict.above}" if verdict.above else f"{none} {best}"
    certainty = " ".join([*_failures(found), f"Likely cause: {verdict.cause}."])
    return Summary(answer, certainty, f"search again{_baseline(found)}:", verdict.command)


def summary_of(found: Report) -> Summary:
    """Return the summary of a study, with its winner's score on new seeds from the storage."""
    return summarize(found, confirmed_score(found) if found.winner else None)


def _without_winner(found: Report) -> Summary:
    if failures := found.failures:
        answer = f"No configuration finished a seed run; {len(failures)} failed."
        return Summary(answer, f"First failure: {failures[0].rstrip('.')}.", RETRY, "")
    return Summary("No configuration is finished yet.", "", "resume:", search_command(found))


def _leaders(found: Report, winner: ConfigurationLine) -> Lines:
    """Return the winner and the configurations tied with it; alone a start that is kept."""
    lines = [winner] if found.start_is_kept else found.configurations
    return [one for one in lines if one.reported and one.score == winner.score]


def _tie_break(found: Report, winner: ConfigurationLine, tied: Lines) -> str:
    """Return what decides between tied configurations."""
    losses = [one.loss for one in tied if one.loss is not None]
    if parse_rule(found.rule).margin and winner.origin in {"published", "start"}:
        return f"#{winner.number} is the recommended start"
    lower = winner.loss is not None and bool(losses) and winner.loss < min(losses)
    return f"#{winner.number} has the {'lowest validation loss' if lower else 'lowest number'}"


def _answer(found: Report, leaders: Lines, fresh: ConfirmedScore | None) -> str:
    winner, *tied = leaders
    count = sum(found.finished or one.score is not None for one in found.configurations)
    numbers = words.joined([f"#{one.number}" for one in leaders])
    verb = "are" if tied else "is"
    what = f"the best of {count} configurations" if count > 1 else "the configuration"
    if not found.finished:
        numbers = f"So far: {numbers}"
        what = f"the best of {counted(count, 'finished configuration')}"
    if found.start_is_kept:
        numbers, verb, what = f"{numbers}, the start,", "wins", f"among {count} configurations"
    answer = f"{numbers} {verb} {what} of {found.method} on {found.task}"
    if count > 1 and found.has_test and not found.start_is_kept:
        answer += f" by validation {found.metric}"
    if tied:
        answer += f"; {_tie_break(found, winner, tied)}"
    answer += f": {_score(found, winner, fresh)}."
    if hurt := _hurt_by_failures(found, winner):
        higher = f"over its finished seeds, {words.joined(hurt)} has a higher mean"
        answer += f" It wins because seed runs failed: {higher} validation {found.metric}."
    nearest = nearest_baseline(found)
    whose = "Its" if fresh is None or found.estimate else "On the seeds of the search, its"
    return answer if nearest is None else f"{answer} {_lead(nearest, whose, found.metric)}"


def _hurt_by_failures(found: Report, winner: ConfigurationLine) -> list[str]:
    """Return the configurations with failed seeds whose finished seeds have a higher mean."""
    least = winner.partial or 0.0
    lines = [one for one in found.configurations if one.failed and one.score is not None]
    return [f"#{one.number}" for one in lines if (one.partial or 0.0) > least]


def _score(found: Report, winner: ConfigurationLine, fresh: ConfirmedScore | None) -> str:
    if not found.has_test:
        return f"validation {found.metric} {winner.score:.4f}, {words.rule_of(found)}"
    if found.estimate is not None:
        return f"estimated {found.metric} on new texts {found.estimate}"
    score = f"{words.test_result(winner)}, {words.seeds_in_words(found, winner)}"
    if fresh is not None:
        score = f"{words.with_spread(fresh.mean, fresh.std)} on {counted(fresh.seeds, 'new seed')}"
    return f"{found.tested_on} {found.metric} {score}"


def _certainty(found: Report, leaders: Lines, fresh: ConfirmedScore | None) -> Iterator[str]:
    yield from _failures(found)
    if not found.finished:
        yield "The search is unfinished: another configuration may win."
    elif 2 * len(leaders) > len(found.configurations) > 1:
        yield "More validation rows would separate tied configurations; a longer search would not."
    if not found.has_test:
        yield f"There are {NO_TEST_ROWS}."
    elif fresh is not None and found.estimate is None:
        rows = " They read rows that also chose it." if fresh.same_rows else ""
        yield f"The new seeds played no part in the choice.{rows}"
    else:
        if found.over_next is not None and found.finished and len(leaders) == 1:
            yield _over_next(found, leaders[0], found.over_next)
        same = "The same seeds chose the winner, so new seeds may score slightly lower."
        yield same if found.tests_apart else found.choice
    if any(not is_linear(one.name) and not one.lead.reliable for one in found.against):
        yield "It is not clearly better than always predicting the most frequent class."
    yield f"Settings of #{leaders[0].number}: {words.values_of(found, leaders[0])}."


def nearest_baseline(found: Report) -> AgainstBaseline | None:
    """Return the comparison of the winner with its best baseline; None without one."""
    return min(found.against, key=lambda one: one.lead.difference, default=None)


def _over_next(found: Report, winner: ConfigurationLine, one: Difference) -> str:
    """Return how far the next configuration is behind the winner."""
    following = next(line for line in found.configurations if line is not winner)
    number, lost = following.number, following.failed
    if found.start_is_kept:
        return (
            f"#{number} is {in_points(-one.difference)} points above it by validation "
            f"{found.metric}, less than two standard errors, so the start is kept."
        )
    verb = "is behind" if one.reliable else "may be as good"
    if lost and not one.reliable:
        verb += f", because {lost} of its {counted(len(following.seeds), 'seed')} failed"
    return (
        f"#{number} {verb}: the validation {found.metric} of #{winner.number} is "
        f"{in_points(one.difference)} points higher{words.interval(one)}."
    )


def _failures(found: Report) -> Iterator[str]:
    """Yield how many seed runs failed, of which configurations, and how they count."""
    lines = [line for line in found.configurations if line.failed]
    if lines:
        each = listed((f"{one.failed} of #{one.number}" for one in lines), most=4)
        yield (
            f"{sum(line.failed for line in lines)} of {counted(len(found.seed_runs), 'seed run')} "
            f"failed ({each}): a failed one counts as {METRICS[found.metric].minimum:g} in the "
            "validation score, and not in the test score."
        )


def _lead(one: AgainstBaseline, whose: str, metric: str) -> str:
    value, interval = one.lead.difference, words.interval(one.lead)
    points = f"{in_points(abs(value))} points"
    if value > 0 and not one.lead.reliable:
        over = f"over the best baseline, {one.name}, {points},"
        return f"{whose} lead {over} is not reliable{interval}."
    level = f"{points} {'above' if value > 0 else 'below'}" if value else "equal to"
    of = f"that of the best baseline, {one.name}"
    return f"{whose} {one.split} {metric} is {level} {of}{interval}."


def _next(found: Report, fresh: ConfirmedScore | None) -> tuple[str, str]:
    if not found.finished:
        return "resume the search:", search_command(found)
    failures = [seed.failure for seed in found.seed_runs if seed.failure is not None]
    if any(not failure.startswith(NON_FINITE) for failure in failures):
        return "train the failed seed runs again:", f"{search_command(found)} --retry-failed"
    if found.repeats:
        return "", ""
    if fresh is None and found.has_test and found.estimate is None:
        step = f"measure it on new seeds, which did not choose it{_baseline(found)}:"
        return step, study_command("confirm", found)
    return f"save it as a model{_baseline(found)}:", export_command(found)


def _baseline(found: Report) -> str:
    """Return how to save the best baseline, if it is a model and may be as good as the winner."""
    best = nearest_baseline(found)
    if best is None or not is_linear(best.name):
        return ""
    if best.lead.difference > 0 and best.lead.reliable:
        return ""
    good = "is better" if best.lead.reliable else "scores at least as high"
    good = "may be as good" if best.lead.difference > 0 else good
    return f"; `export --baseline` saves the baseline, which {good}"


def summarize_comparison(found: StudyComparison) -> Summary:
    """Return the summary of several studies: the best of them, ties, and the next step."""
    best = found.ranked[0]
    if not found.tested:
        answer = f"{best.name} has the best validation score, {best.score:.4f}."
        return Summary(answer, f"There are {NO_TEST_ROWS}.", "add test rows and repeat.", "")
    verdict = best.report.verdict
    what = "encoder" if found.of_encoders else "method"
    finished = all(one.finished for one in found.reports)
    if verdict is not None and finished:
        fault = f"{best.name} is the best, but {verdict.fault}"
        answer, cause = f"No {what} is useful on {found.task}. {fault}", verdict.cause
        again = f"search again{_baseline(best.report)}:"
        return Summary(answer, f"Likely cause: {cause}.", again, verdict.command)
    answer = _best(found, what)
    # Its seeds may be more than the compared ones.
    nearest = nearest_baseline(best.report) if best.report.seeds == found.seeds else None
    if nearest is not None:
        lead = _lead(nearest, f"{best.name}'s", found.metric)
        answer = f"{answer} {lead}"
    certainty = " ".join([_pair(found), *_smallest(found)])
    return Summary(f"{'' if finished else 'So far: '}{answer}", certainty, *_next_of_all(found))


def _smallest(found: StudyComparison) -> Iterator[str]:
    """Yield which of the encoders within noise of the best is the smallest, if known."""
    near = [found.ranked[0], *found.tied]
    if not found.of_encoders or len(near) == 1:
        return
    sizes = {one.name: weights_of(one.report.model_place) for one in near}
    known = {name: size for name, size in sizes.items() if size is not None}
    if len(known) == len(near):
        least = min(known, key=known.__getitem__)
        size = f"{known[least] / 1e6:.3g} million weights"
        yield f"{least} is the smallest encoder within noise of the best: {size}."


def _best(found: StudyComparison, what: str) -> str:
    """Return which study is best, or that several may be."""
    (best, *others), tied = found.ranked, found.tied
    score = f"{found.tested_on} {found.metric} {words.with_spread(best.score, best.test_std)}"
    if not tied:
        points = in_points(found.pair(best, others[0]).comparison.difference)
        second = f"{points} points above {others[0].name}"
        return f"{best.name} is best on {found.task}: {score}, {second}."
    equal = [one for one in others if one.test_mean == best.test_mean]
    first = words.joined([one.name for one in (best, *equal)])
    near = words.joined([one.name for one in tied if one not in equal])
    chance = f", but the lead over {near} may be chance" if near else ""
    highest = f"{first} {'have' if equal else 'has'} the highest {score}{chance}"
    return f"No {what} is clearly best on {found.task}. {highest}."


def _pair(found: StudyComparison) -> str:
    """Return the test of the best two studies."""
    best, second = found.ranked[:2]
    pair, tests = found.pair(best, second), len(found.pairs)
    if min(1.0, tests * smallest_p(pair.comparison.n)) > ALPHA:
        return (
            f"With {counted(pair.comparison.n, 'seed')} no difference between "
            f"{len(found.studies)} studies can be significant; that takes at least "
            f"{math.ceil(math.log2(2 * tests / ALPHA))} seeds."
        )
    return (
        f"{best.name} minus {second.name}: "
        f"{signed_points(pair.comparison.difference)} points{words.interval(pair.comparison)}, "
        f"p = {pair.adjusted:.3f}, adjusted for all pairs of studies."
    )


def _next_of_all(found: StudyComparison) -> tuple[str, str]:
    reports = found.reports
    unfinished = next((one for one in reports if not one.finished), None)
    if unfinished is not None:
        stored = counted(len(unfinished.seed_runs), "stored seed run")
        reason = f"resume the search of {unfinished.method}, unfinished after {stored}:"
        return reason, search_command(unfinished)
    searches = [one for one in reports if not one.repeats]
    if not searches:
        return "", ""
    confirmed = [one.confirmed.study for one in found.studies if one.confirmed is not None]
    if len(confirmed) < len(found.studies):
        reason = "compare the winners on new seeds, which did not choose them:"
        return reason, study_command("confirm", *searches)
    command = f"sclsearch compare {' '.join(confirmed)}{storage_option(reports[0].storage)}"
    return "compare the winners on the new seeds:", command
