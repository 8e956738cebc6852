"""Tells MLflow what the scheduler tells it."""

from sclsearch.search.scheduler import Scheduler
from sclsearch.search.scores import ConfigurationScore
from sclsearch.search.views import (
    configuration_view,
    forecast_view,
    score_view,
    seed_run_view,
    study_view,
    winner_view,
)
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.store.storage import Storage
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.seed_runs import SeedRunTask
from sclsearch.study.spec import NO_TRACKING, RunOptions
from sclsearch.tracking import NO_DATABASE, Tracker, find_tracking_uri, prepare


class MLflowLogger:
    """Tells MLflow what the scheduler tells it."""

    def __init__(self, prepared: PreparedStudy, uri: str) -> None:
        self.record, self.study = prepared.record, prepared.study
        self.tracker = Tracker(uri)
        self.tracker.put(study_view(self.record))
        self.winner: ConfigurationScore | None = None

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Shows the configuration."""
        self.tracker.put(configuration_view(self.record.mlflow_name, configuration))

    def finished(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:  # noqa: ARG002
        """Shows the seed run, a stored one too: another study may have trained it."""
        configuration, _ = task.id
        mlflow_name, metric = self.record.mlflow_name, self.study.metric
        self.tracker.put(seed_run_view(mlflow_name, configuration, task.replicate, run, metric))

    def scored(self, figures: ConfigurationScore) -> None:
        """Shows the figures, and remembers the winner's for the end."""
        rule = self.study.rule
        self.tracker.put(score_view(self.record.mlflow_name, figures, rule, self.study.metric))
        self.winner = max(self.winner or figures, figures, key=lambda one: one.rank)

    def close(self, scheduler: Scheduler) -> str | None:
        """Shows the winner; returns why MLflow does not show everything, None if it does."""
        mlflow_name, rule, metric = self.record.mlflow_name, self.study.rule, self.study.metric
        finished = scheduler.complete
        forecasts, risk = scheduler.race.odds() if self.winner else ({}, 1.0)
        for number, forecast in forecasts.items():
            self.tracker.put(forecast_view(mlflow_name, number, forecast, rule, finished=finished))
        if self.winner is not None:
            view = winner_view(mlflow_name, self.winner, rule, metric, risk=risk, finished=finished)
            self.tracker.put(view)
        return self.tracker.close()


def tracking_uri_of(storage: Storage, options: RunOptions) -> str | None:
    """Returns where MLflow is told of studies, None where it is left out or has no database.

    Raises:
        SclsearchError: The tracking URI is none.
    """
    return None if options.tracking == NO_TRACKING else find_tracking_uri(options.tracking, storage)


def prepare_tracking(storage: Storage, options: RunOptions) -> str | None:
    """Returns what `shown_at` does, where a database is there now.

    Raises:
        SclsearchError: The tracking URI is none, or its database cannot be written.
    """
    uri = tracking_uri_of(storage, options)
    if uri is not None:
        prepare(uri)
    return uri


def reason_not_tracked(options: RunOptions) -> str | None:
    """Returns why MLflow shows nothing where there is no scribe; None if that was asked for."""
    return None if options.tracking == NO_TRACKING else NO_DATABASE
