"""MLflow records of a study, built from the study's stored records only."""

from collections.abc import Iterator, Mapping
from typing import Any

from sclsearch.search.scores import ConfigurationScore, configuration_score
from sclsearch.selection.posterior import Forecast
from sclsearch.selection.race import Race
from sclsearch.selection.rules import Rule
from sclsearch.store.records import ConfigurationRecord, ReplicateRecord, StudyRecord, seed_run_key
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.tasks.metrics import MAXIMUM, METRICS, value
from sclsearch.tracking import ConfigurationView, ScoreView, SeedRunView, StudyView, View

MOST_RISK = 0.5
"""Upper limit of the risk at which a race counts as finished."""


def study_view(record: StudyRecord) -> StudyView:
    """Return the MLflow run of the study: its identity, and the digests of data and weights."""
    shared = {name: record.training[name] for name in ("method", "metric", "numerics")}
    named = {name: v for name, v in record.identity.items() if name != "space" and v is not None}
    return StudyView(
        name=record.mlflow_name,
        params={**shared, **named},
        tags={
            "data.digest": str(record.training["data"]),
            "weights.digest": str(record.training["weights"]),
        },
        artifacts={
            "study.json": {
                "identity": record.identity,
                "training": record.training,
                "origin": record.origin,
            }
        },
    )


def configuration_view(study: str, configuration: ConfigurationRecord) -> ConfigurationView:
    """Return the MLflow run of a configuration: every field of method and training."""
    return ConfigurationView(
        study, configuration.number, configuration.fields, {"origin": configuration.origin}
    )


def seed_run_view(
    study: str, configuration: int, replicate: ReplicateRecord, run: SeedRun, metric: str
) -> SeedRunView:
    """Return the MLflow run of a seed run: losses, validation metrics and test metrics."""
    evaluations: list[tuple[int, dict[str, float]]] = [
        (
            int(reading["update"]),
            {f"{reading['stage']}.loss.{name}": loss for name, loss in reading["loss"].items()},
        )
        for reading in run.stages
    ]
    evaluations += [
        (
            int(evaluation["update"]),
            {
                **{f"loss.{name}": loss for name, loss in evaluation["loss"].items()},
                f"validation.{metric}": value(metric, evaluation["validation"]),
            },
        )
        for evaluation in run.evaluations
    ]
    summary: dict[str, float] = {"seconds": run.seconds}
    tags = {"key": run.key, **_made_by(run.environment)}
    if run.failure is not None:
        tags |= {"failure": run.failure.cause, "failure.message": run.failure.message}
    elif run.validation is not None:
        summary |= {
            f"best.validation.{metric}": value(metric, run.validation),
            f"test.{metric}": value(metric, run.test),
        }
    return SeedRunView(
        study=study,
        configuration=configuration,
        replicate=replicate.number,
        key=run.key,
        params={"replicate": replicate.number, **replicate.seeds},
        tags=tags,
        evaluations=tuple(evaluations),
        summary=summary,
        failed=run.failure is not None,
        started=run.started or None,
        seconds=run.seconds,
        artifacts={"identity.json": run.identity},
    )


def score_view(study: str, figures: ConfigurationScore, rule: Rule, metric: str) -> ScoreView:
    """Return the configuration's score and test metric under the rule."""
    shown = {f"score.{rule.score}": figures.score, **_test(figures, rule, metric)}
    return ScoreView(study, figures.number, shown, finished=True)


def forecast_view(
    study: str, number: int, forecast: Forecast, rule: Rule, *, finished: bool
) -> ScoreView:
    """Return the last forecast of a configuration that lacks seeds."""
    shown = {f"expected.{rule.score}": forecast.expected, f"chance.{rule.score}": forecast.better}
    return ScoreView(study, number, shown, finished=finished)


def winner_view(
    study: str, winner: ConfigurationScore, rule: Rule, metric: str, *, risk: float, finished: bool
) -> ScoreView:
    """Return the study's metrics: the winner's score and test metric, and the race's risk."""
    shown = {f"best.{rule.score}": winner.score, **_test(winner, rule, metric)}
    shown[f"risk.{rule.score}"] = risk
    return ScoreView(study, None, shown, finished=finished)


def _test(figures: ConfigurationScore, rule: Rule, metric: str) -> dict[str, float]:
    named = {
        f"test.{rule.report}.{metric}": figures.test_mean,
        f"test.{rule.report}.{metric}.std": figures.test_std,
    }
    return {name: figure for name, figure in named.items() if figure is not None}


def all_views(store: StudyStore, runs: RunStore, record: StudyRecord, rule: Rule) -> Iterator[View]:
    """Yield all MLflow records of a study, parents first.

    A study also counts as finished if its incomplete configurations would hardly win: a race may
    have ended it.
    """
    metric = str(record.training["metric"])
    configurations, replicates = store.configurations(), store.replicates()
    yield study_view(record)
    scored: list[ConfigurationScore] = []
    race = Race(rule.score, METRICS[metric].minimum, MAXIMUM, len(replicates))
    for configuration in configurations:
        yield configuration_view(record.mlflow_name, configuration)
        found, _ = runs.get_valid(seed_run_key(record, configuration, r) for r in replicates)
        race.open()
        for seed, (replicate, run) in enumerate(zip(replicates, found, strict=True)):
            if run is not None:
                race.note(configuration.number, seed, run.validated(metric))
                yield seed_run_view(
                    record.mlflow_name, configuration.number, replicate, run, metric
                )
        finished = [run for run in found if run is not None]
        if found and len(finished) == len(found):
            scored.append(configuration_score(configuration.number, finished, rule, metric))
            yield score_view(record.mlflow_name, scored[-1], rule, metric)
    if not scored:
        return
    forecasts, risk = race.odds()
    # The records do not hold the risk at which a race ends. If another configuration may well win,
    # the race has not ended.
    ended = risk < MOST_RISK
    for number, forecast in forecasts.items():
        yield forecast_view(record.mlflow_name, number, forecast, rule, finished=ended)
    winner = max(scored, key=lambda figures: figures.rank)
    yield winner_view(record.mlflow_name, winner, rule, metric, risk=risk, finished=ended)


def _made_by(environment: Mapping[str, Any]) -> dict[str, str]:
    tags = {f"version.{name}": found for name, found in environment.get("packages", {}).items()}
    return tags | ({"git.commit": environment["commit"]} if environment.get("commit") else {})
