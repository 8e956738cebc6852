"""Tells MLflow what the board tells it."""

from sclsearch.search.board import Board
from sclsearch.search.figures import Figures
from sclsearch.search.listener import SeedTask
from sclsearch.search.options import NO_TRACKING, How
from sclsearch.search.prepare import Prepared
from sclsearch.search.views import (
    chance_view,
    configuration_view,
    score_view,
    seed_run_view,
    study_view,
    winner_view,
)
from sclsearch.store.places import Storage
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.tracking import NO_DATABASE, Tracker, find_tracking_uri, prepare


class Scribe:
    """Tells MLflow what the board tells it."""

    def __init__(self, prepared: Prepared, uri: str) -> None:
        self.record, self.study = prepared.record, prepared.study
        self.tracker = Tracker(uri)
        self.tracker.put(study_view(self.record))
        self.winner: Figures | None = None

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Shows the configuration."""
        self.tracker.put(configuration_view(self.record.shown_as, configuration))

    def finished(self, task: SeedTask, run: SeedRun, *, stored: bool) -> None:  # noqa: ARG002
        """Shows the seed run, a stored one too: another study may have trained it."""
        configuration, _ = task.place
        shown_as, metric = self.record.shown_as, self.study.metric
        self.tracker.put(seed_run_view(shown_as, configuration, task.replicate, run, metric))

    def scored(self, figures: Figures) -> None:
        """Shows the figures, and remembers the winner's for the end."""
        rule = self.study.rule
        self.tracker.put(score_view(self.record.shown_as, figures, rule, self.study.metric))
        self.winner = max(self.winner or figures, figures, key=lambda one: one.rank)

    def close(self, board: Board) -> str | None:
        """Shows the winner; returns why MLflow does not show everything, None if it does."""
        shown_as, rule, metric = self.record.shown_as, self.study.rule, self.study.metric
        finished = board.complete
        chances, risk = board.race.odds() if self.winner else ({}, 1.0)
        for number, chance in chances.items():
            self.tracker.put(chance_view(shown_as, number, chance, rule, finished=finished))
        if self.winner is not None:
            view = winner_view(shown_as, self.winner, rule, metric, risk=risk, finished=finished)
            self.tracker.put(view)
        return self.tracker.close()


def shown_at(storage: Storage, how: How) -> str | None:
    """Returns where MLflow is told of studies, None where it is left out or has no database.

    Raises:
        SclsearchError: The tracking URI is none.
    """
    return None if how.tracking == NO_TRACKING else find_tracking_uri(how.tracking, storage)


def ready_tracking(storage: Storage, how: How) -> str | None:
    """Returns what `shown_at` does, where a database is there now.

    Raises:
        SclsearchError: The tracking URI is none, or its database cannot be written.
    """
    uri = shown_at(storage, how)
    if uri is not None:
        prepare(uri)
    return uri


def not_shown(how: How) -> str | None:
    """Returns why MLflow shows nothing where there is no scribe; None if that was asked for."""
    return None if how.tracking == NO_TRACKING else NO_DATABASE
