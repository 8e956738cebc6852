"""Keeps the weights of the seed runs that the winner's report needs, and no others."""

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
    """Deletes weights while a study runs: until its end they could fill the disk."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Does nothing: there are no weights yet."""

    def finished(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        """Does nothing: the configuration's score decides."""

    def scored(self, figures: ConfigurationScore) -> None:  # noqa: ARG002
        """Deletes what no report needs now that another configuration has its score."""
        delete_unneeded_weights(self.scheduler)


def delete_unneeded_weights(scheduler: Scheduler) -> None:
    """Deletes the weights that no report can need any more.

    Kept are the seeds that the report of the leading configuration is made of, and those of every
    unfinished configuration as far as it has come: a seed that is not among its top k now never
    will be. At the end of a race those that wait are left out. A mean needs no weights, but someone
    will want a model: its best seed stays. Nothing is deleted while the scheduler shows a part of
    the study: the rest may hold the winner.
    """
    store = scheduler.store
    configurations, replicates = store.sizes()
    if len(scheduler.configurations) < configurations or len(scheduler.replicates) < replicates:
        return
    # Commands that are given no rule take that of the study's first start.
    rules = {scheduler.study.rule, parse_rule(str(scheduler.record.origin["rule"]))}
    needed = {key for rule in rules for key in _needed(scheduler, rule)}
    running = {task.key for task in scheduler.running.values()}
    for key in store.kept_weights() - needed - running:
        try:
            store.delete_weights(key)
        except OSError as error:
            # Whoever may not delete what another user's worker wrote still gets all figures.
            _LOG.warning("weights that no report needs cannot be deleted: %s", error)


def _needed(scheduler: Scheduler, rule: Rule) -> Iterator[str]:
    """Yields the keys of the seed runs of which a report under a rule can be made."""
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
