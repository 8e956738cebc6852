"""Deletion of weights that the winner's report does not need."""

import logging
from collections.abc import Iterator

from sclsearch.search.scheduler import Scheduler
from sclsearch.search.scores import ConfigurationScore
from sclsearch.selection.ranking import reported, score
from sclsearch.selection.rules import Rule, Top, parse_rule
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.study.seed_runs import SeedRunTask
from sclsearch.tasks.metrics import METRICS

_LOG = logging.getLogger(__name__)


class WeightPruner:
    """Callback that deletes unneeded weights during a search, before they fill the disk."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Do nothing: a new configuration has no weights."""

    def finished(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        """Do nothing: the configuration's score decides."""

    def scored(self, figures: ConfigurationScore) -> None:  # noqa: ARG002
        """Delete the weights that no report needs after this new score."""
        delete_unneeded_weights(self.scheduler)


def delete_unneeded_weights(scheduler: Scheduler) -> None:
    """Delete the weights that no report can still need.

    The function keeps the weights that the report of the leading configuration needs. For an
    unfinished configuration it keeps those of the current top k: a seed that is outside the top k
    now stays outside. At the end of a race it skips paused configurations.

    A mean needs no weights, but users may want a model, so its best seed keeps them. If the
    scheduler covers only a part of the study, the function deletes nothing, because the rest may
    hold the winner.
    """
    store = scheduler.store
    configurations, replicates = store.sizes()
    if len(scheduler.configurations) < configurations or len(scheduler.replicates) < replicates:
        return
    # Commands without a rule use the rule of the study's first run.
    rules = {scheduler.study.rule, parse_rule(str(scheduler.record.origin["rule"]))}
    needed = {key for rule in rules for key in _needed(scheduler, rule)}
    running = {task.key for task in scheduler.running.values()}
    for key in store.kept_weights() - needed - running:
        try:
            store.delete_weights(key)
        except OSError as error:
            # A user who may not delete the files of another user's worker still gets all results.
            _LOG.warning("weights that no report needs cannot be deleted: %s", error)


def _needed(scheduler: Scheduler, rule: Rule) -> Iterator[str]:
    """Yield the keys of the seed runs that a report under a rule may need."""
    report = rule.report if rule.report.k is not None else Top(1)
    metric = scheduler.study.metric
    minimum = METRICS[metric].minimum
    runs: dict[int, list[SeedRun]] = {c.number: [] for c in scheduler.configurations}
    for (number, _), run in sorted(scheduler.done.items()):
        runs[number].append(run)
    figures = {number: [run.validated(metric) for run in own] for number, own in runs.items()}
    finished = {n: score(rule, figures[n], minimum) for n in runs if scheduler.score(n) is not None}
    over = scheduler.complete
    leading = max(finished, key=lambda number: (finished[number], -number), default=None)
    for number, own in runs.items():
        open_yet = number not in finished and not (over and number in scheduler.race.waiting)
        if number == leading or open_yet:
            yield from (own[i].key for i in reported(Rule(rule.score, report), figures[number]))
