"""Deletion of weights that the winner's report does not need."""

import logging
from collections.abc import Iterator

from sclsearch.search.callbacks import Callback
from sclsearch.search.scheduler import Scheduler
from sclsearch.selection.rules import Rule, Top, reported
from sclsearch.study.state import ConfigurationScore, SearchState

_LOG = logging.getLogger(__name__)


class WeightPruner(Callback):
    """Callback that deletes unneeded weights during a search, before they fill the disk."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def on_score(self, _score: ConfigurationScore) -> None:
        """Delete the weights that no report needs after this new score."""
        delete_unneeded_weights(self.scheduler)


def delete_unneeded_weights(scheduler: Scheduler) -> None:
    """Delete the weights that no report can still need.

    The function keeps the weights that the report of the leading configuration needs. For an
    unfinished configuration it keeps those of the current top k: a seed that is outside the top k
    now stays outside. At the end of a race it skips paused configurations.

    If the scheduler covers only a part of the study, the function deletes nothing, because the rest
    may hold the winner.
    """
    store, state = scheduler.store, scheduler.state
    configurations, replicates = store.sizes()
    if len(state.configurations) < configurations or len(state.replicates) < replicates:
        return
    needed = {task.key for task in scheduler.running.values()}
    paused = state.paused if scheduler.decided else set()
    for rule in state.rules:
        needed |= set(_needed(state, rule, paused, untested=not scheduler.complete))
    needed |= {state.seed_runs[one].key for one in scheduler.untested}
    for key in store.kept_weights() - needed:
        try:
            store.weights(key).remove()
        except OSError as error:
            # A user who may not delete the files of another user's worker still gets all results.
            _LOG.warning("weights that no report needs cannot be deleted: %s", error)


def _needed(state: SearchState, rule: Rule, paused: set[int], *, untested: bool) -> Iterator[str]:
    """Yield the keys of the seed runs that a report under a rule may need.

    Args:
        state: The state of the search.
        rule: The rule.
        paused: Numbers of the configurations that cannot win.
        untested: Whether to include all seed runs that may have to be tested.
    """
    if rule != state.rule:
        runs = state.seed_runs.items()
        state = SearchState.from_records(
            state.record, state.replicates, state.configurations, runs, rule
        )
    leading = state.winner
    report = Rule(rule.score, Top(rule.weights))
    for configuration in state.configurations:
        number = configuration.number
        unfinished = number not in state.scores and number not in paused
        if unfinished or (leading is not None and leading.number == number):
            own = list(state.runs_of(number).values())
            validation = [run.validated(state.metric) for run in own]
            yield from (own[position].key for position in reported(report, validation))
            if untested:
                yield from (run.key for run in own if run.untested)
