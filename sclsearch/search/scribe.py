"""Logging of search events to MLflow."""

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
    """Callback that logs search events to MLflow."""

    def __init__(self, prepared: PreparedStudy, uri: str) -> None:
        self.record, self.study = prepared.record, prepared.study
        self.tracker = Tracker(uri)
        self.tracker.put(study_view(self.record))
        self.winner: ConfigurationScore | None = None

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Log the configuration."""
        self.tracker.put(configuration_view(self.record.mlflow_name, configuration))

    def finished(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:  # noqa: ARG002
        """Log the seed run, even a stored one, because another study may have trained it."""
        configuration, _ = task.id
        mlflow_name, metric = self.record.mlflow_name, self.study.metric
        self.tracker.put(seed_run_view(mlflow_name, configuration, task.replicate, run, metric))

    def scored(self, figures: ConfigurationScore) -> None:
        """Log the score, and keep the winner's for the end."""
        rule = self.study.rule
        self.tracker.put(score_view(self.record.mlflow_name, figures, rule, self.study.metric))
        self.winner = max(self.winner or figures, figures, key=lambda one: one.rank)

    def close(self, scheduler: Scheduler) -> str | None:
        """Log the winner; return the reason why MLflow lacks records, or None if it has all."""
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
    """Return the MLflow tracking URI, or None if MLflow is off or has no database.

    Raises:
        SclsearchError: The tracking URI is none.
    """
    return None if options.tracking == NO_TRACKING else find_tracking_uri(options.tracking, storage)


def prepare_tracking(storage: Storage, options: RunOptions) -> str | None:
    """Return the URI of `tracking_uri_of`, after the creation of its database if needed.

    Raises:
        SclsearchError: The tracking URI is none, or its database cannot be written.
    """
    uri = tracking_uri_of(storage, options)
    if uri is not None:
        prepare(uri)
    return uri


def reason_not_tracked(options: RunOptions) -> str | None:
    """Return the reason why there is no MLflowLogger, or None if the user turned MLflow off."""
    return None if options.tracking == NO_TRACKING else NO_DATABASE
