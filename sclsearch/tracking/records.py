"""MLflow runs of a study, its configurations and its seed runs, made from a search state."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sclsearch.store.records import StudyRecord
from sclsearch.store.runs import SeedRun
from sclsearch.study.seed_runs import SeedRunId
from sclsearch.study.state import ConfigurationScore, SearchState
from sclsearch.tasks.metrics import value

MOST_RISK = 0.5
"""Upper limit of the risk at which a race counts as finished."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Data of one MLflow run, or a part of it; repeated writes give equal runs.

    Attributes:
        study: The study's name in MLflow, `name@mark`.
        path: Empty for the study's run; the configuration number; or that and the replicate number.
            A run is a child of the run whose path lacks the last number.
        params: Parameters; immutable once written.
        tags: Tags; they may change between writes.
        artifacts: JSON content of each file, by file name.
        history: Metrics of a seed run: pairs of update number and metrics, in order.
        metrics: Current metrics of a configuration or study. A value that differs from the written
            one becomes the metric's next step.
        status: MLflow's status at the end of the run: `FINISHED` or `FAILED`; None while it goes
            on.
        started: Start of a seed run, Unix seconds; None if unknown.
        seconds: Duration of a seed run.
    """

    study: str
    path: tuple[int, ...] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, object] = field(default_factory=dict)
    history: tuple[tuple[int, Mapping[str, float]], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    status: str | None = None
    started: float | None = None
    seconds: float = 0.0


Counts = tuple[int, int, int, int]


def counts(state: SearchState) -> Counts:
    """Return the number of studies (1), configurations, seed runs and scores of a state."""
    return 1, len(state.configurations), len(state.seed_runs), len(state.scores)


def new_records(
    state: SearchState, since: Counts = (0, 0, 0, 0), *, ended: bool = True
) -> Iterator[RunRecord]:
    """Yield the records that a state has gained, parents first.

    Args:
        state: The state.
        since: Its `counts` at the last call.
        ended: Whether the search has ended. Only then are there records of forecasts and winner.
    """
    study = state.record.mlflow_name
    studies, configurations, seed_runs, scores = since
    if not studies:
        yield _study_record(state.record)
    for one in islice(state.configurations, configurations, None):
        yield RunRecord(study, (one.number,), one.fields, {"origin": one.origin})
    for run_id, run in islice(state.seed_runs.items(), seed_runs, None):
        yield _seed_run_record(state, run_id, run)
    for score in islice(state.scores.values(), scores, None):
        metrics = {f"score.{state.rule.score}": score.score, **_test_metrics(state, score)}
        yield RunRecord(study, (score.number,), metrics=metrics, status="FINISHED")
    if ended and state.winner is not None:
        yield from _final_records(state, state.winner)


def _study_record(record: StudyRecord) -> RunRecord:
    shared = {name: record.training[name] for name in ("method", "metric", "numerics")}
    named = {name: v for name, v in record.identity.items() if name != "space" and v is not None}
    return RunRecord(
        record.mlflow_name,
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


def _seed_run_record(state: SearchState, run_id: SeedRunId, run: SeedRun) -> RunRecord:
    """Return the record of a seed run: losses, validation metrics and test metrics."""
    metric = state.metric
    history: list[tuple[int, dict[str, float]]] = [
        (
            int(reading["update"]),
            {f"{reading['stage']}.loss.{name}": loss for name, loss in reading["loss"].items()},
        )
        for reading in run.stages
    ]
    history += [
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
    tags = {"key": run.key, **_versions(run.environment)}
    if run.failure is not None:
        tags |= {"failure": run.failure.cause, "failure.message": run.failure.message}
    elif run.validation is not None:
        summary |= {
            f"best.validation.{metric}": value(metric, run.validation),
            f"test.{metric}": value(metric, run.test),
        }
    history.append((history[-1][0] if history else 0, summary))
    replicate = state.replicates[state.seeds[run_id[1]]]
    return RunRecord(
        state.record.mlflow_name,
        run_id,
        params={"replicate": replicate.number, **replicate.seeds},
        tags=tags,
        artifacts={"identity.json": run.identity},
        history=tuple(history),
        status="FINISHED" if run.failure is None else "FAILED",
        started=run.started or None,
        seconds=run.seconds,
    )


def _final_records(state: SearchState, winner: ConfigurationScore) -> Iterator[RunRecord]:
    """Yield the forecasts of incomplete configurations, and the winner's scores with the risk."""
    study, rule = state.record.mlflow_name, state.rule.score
    forecasts, risk = state.forecasts()
    # Stored records do not tell whether a race has ended. It has not if another may well win.
    status = "FINISHED" if risk < MOST_RISK else None
    for number, forecast in forecasts.items():
        metrics = {f"expected.{rule}": forecast.expected, f"chance.{rule}": forecast.better}
        yield RunRecord(study, (number,), metrics=metrics, status=status)
    metrics = {f"best.{rule}": winner.score, **_test_metrics(state, winner), f"risk.{rule}": risk}
    yield RunRecord(study, metrics=metrics, status=status)


def _test_metrics(state: SearchState, score: ConfigurationScore) -> dict[str, float]:
    name = f"test.{state.rule.report}.{state.metric}"
    found = {name: score.test_mean, f"{name}.std": score.test_std}
    return {name: metric for name, metric in found.items() if metric is not None}


def _versions(environment: Mapping[str, Any]) -> dict[str, str]:
    tags = {f"version.{name}": found for name, found in environment.get("packages", {}).items()}
    return tags | ({"git.commit": environment["commit"]} if environment.get("commit") else {})
