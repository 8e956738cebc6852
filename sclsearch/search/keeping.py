"""Keeps the weights of the seed runs that the present winner's report needs, and no others."""

from sclsearch.search.board import Board, SeedTask
from sclsearch.selection.ranking import reported
from sclsearch.selection.rules import Rule, Top
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun


class Keeper:
    """Deletes weights while a study runs: until its end they could fill the disk."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Does nothing: there are no weights yet."""

    def finished(self, task: SeedTask, run: SeedRun, *, stored: bool) -> None:
        """Does nothing: the configuration's score decides."""

    def scored(self, configuration: ConfigurationRecord, score: float) -> None:  # noqa: ARG002
        """Deletes what no report needs now that another configuration has its score."""
        delete_superfluous_weights(self.board)


def delete_superfluous_weights(board: Board) -> None:
    """Deletes the weights that no report can need any more.

    Kept are the seeds that the report of the leading configuration is made of, and those of every
    unfinished configuration as far as it has come: a seed that is not among its top k now never
    will be. A mean needs no weights, but someone will want a model: its best seed stays. Nothing is
    deleted while the board shows a part of the study: the rest may hold the winner.
    """
    store = board.store
    configurations, replicates = store.sizes()
    if len(board.configurations) < configurations or len(board.replicates) < replicates:
        return
    rule = board.study.rule
    report = rule.report if rule.report.k is not None else Top(1)
    scores = {c.number: board.score(c.number) for c in board.configurations}
    leading = max(
        (number for number, score in scores.items() if score is not None),
        key=lambda number: (scores[number], -number),
        default=None,
    )
    needed: set[str] = set()
    for number, score in scores.items():
        if score is None or number == leading:
            runs = [run for (owner, _), run in sorted(board.done.items()) if owner == number]
            figures = [board.validation(run) for run in runs]
            needed |= {runs[i].key for i in reported(Rule(rule.score, report), figures)}
    running = {task.key for task in board.running.values()}
    for key in store.kept_weights() - needed - running:
        store.drop_weights(key)
