"""MLflow runs of a study, its configurations and its seed runs, made from a search state."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sclsearch.canonical import settings
from sclsearch.selection.race import SeedRunId
from sclsearch.store.runs import Evaluation, SeedRun
from sclsearch.store.studies import ConfigurationRecord, StudyRecord
from sclsearch.study.state import ConfigurationScore, SearchState, SeedRunTask
from sclsearch.tasks.metrics import value


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Data of one MLflow run, or a part of it; repeated writes give equal runs."""

    # The study's unique name, `name@mark`.
    study: str
    # Empty for the study's run; the configuration number; or that and the replicate number. A run
    # is a child of the run whose path lacks the last number.
    path: tuple[int, ...] = ()
    # Immutable once written.
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    # Text of each file, by path.
    artifacts: Mapping[str, str] = field(default_factory=dict)
    # Metrics of a seed run: pairs of update number and metrics, in order.
    history: tuple[tuple[int, Mapping[str, float]], ...] = ()
    # Current metrics of a configuration or study.
    metrics: Mapping[str, float] = field(default_factory=dict)
    # MLflow's status at the end of the run: `FINISHED` or `FAILED`; None while it goes on.
    status: str | None = None
    # Start of a seed run, Unix seconds, if known, and its duration.
    started: float | None = None
    seconds: float = 0.0
    # Name of the MLflow experiment for a new study.
    experiment: str = "sclsearch"
    # Name and Markdown text of the run's page; empty keeps those it has.
    name: str = ""
    description: str = ""
    # Name of this part of the run's data; a repeated part is written only if it differs.
    part: str = "run"
    # Name of the task, SHA-256 of its rows, and their origin, for people.
    data: tuple[str, str, str] | None = None
    # Key and metric of a stored seed run: the writer adds its curves.
    results: tuple[str, str] | None = None


SHORT = {"learning_rate": "lr", "tau": "τ", "lam": "λ", "alpha": "α"}
LONGEST_NAME = 250


def experiment_name(record: StudyRecord) -> str:
    """Return the name of a study's experiment, such as `cola, 100 examples, minilm`.

    Studies of several methods share an experiment, so that one table compares them.
    """
    task, size, model = (record.identity[name] for name in ("task", "size", "model"))
    number, _, per_class = str(size or "all").partition("-")
    examples = f"{number} examples" + (f" {per_class.replace('-', ' ')}" if per_class else "")
    return f"{task}, {examples}, {model}"


def configuration_name(record: StudyRecord, configuration: ConfigurationRecord) -> str:
    """Return method, number and searched hyperparameters: `scl #0 τ=0.3 lr=0.0001`."""
    order = [parameter["name"] for parameter in record.identity["space"]["parameters"]]
    values = {name: configuration.values[name] for name in order if name in configuration.values}
    name = f"{record.training['method']} #{configuration.number} {short_settings(values)}"
    return name.rstrip()[:LONGEST_NAME]


def short_settings(values: Mapping[str, Any]) -> str:
    """Return hyperparameters as one short line, for example `τ=0.3 lr=0.0001`."""
    return settings({SHORT.get(name, name): value for name, value in values.items()})


def counts(state: SearchState) -> tuple[int, ...]:
    """Return the numbers of configurations, seed runs, scores and later tests."""
    grown = (state.configurations, state.seed_runs, state.scores, state.tested_later)
    return tuple(map(len, grown))


def new_records(
    state: SearchState,
    since: tuple[int, ...] | None = None,
    most: int | None = None,
    *,
    ended: bool = True,
) -> Iterator[RunRecord]:
    """Yield the records that a state has gained, parents first.

    `since` has the `counts` up to which records were yielded; None before the first call. `most` is
    the greatest number of seed runs; None has no limit. Records of the winner come only after the
    search has ended.
    """
    if since is None:
        yield _study_record(state)
    configurations, seed_runs, scores, tests = since or (0, 0, 0, 0)
    end = None if most is None else seed_runs + most
    for one in islice(state.configurations, configurations, None):
        yield _configuration_record(state.record, one)
    by_number = {one.number: one for one in state.configurations}
    tested = state.tested_later[tests:]
    for run_id in dict.fromkeys([*islice(state.seed_runs, seed_runs, end), *tested]):
        run = state.seed_runs[run_id]
        yield _seed_run_record(state, by_number[run_id[0]], run_id, run)
    scored = [*islice(state.scores, scores, None), *(number for number, _ in tested)]
    for number in dict.fromkeys(scored):
        if number in state.scores:
            metrics = {**_scores(state.scores[number]), "seeds": len(state.runs_of(number))}
            yield _part(state, (number,), metrics, "FINISHED")
    if ended and state.winner is not None:
        yield from _final_records(state, state.winner)


def json_text(content: object) -> str:
    """Return the text of a JSON file."""
    return json.dumps(content, indent=1, ensure_ascii=False, default=str)


def _part(
    state: SearchState, path: tuple[int, ...], metrics: Mapping[str, float], status: str | None
) -> RunRecord:
    return RunRecord(
        state.record.mlflow_name,
        path,
        metrics=metrics,
        status=status,
        experiment=experiment_name(state.record),
        part="scores",
    )


def _study_record(state: SearchState) -> RunRecord:
    record = state.record
    shared = {name: record.training[name] for name in ("method", "metric", "numerics")}
    named = {name: v for name, v in record.identity.items() if name != "space" and v is not None}
    searched = [parameter["name"] for parameter in record.identity["space"]["parameters"]]
    parts = {"identity": record.identity, "training": record.training, "origin": record.origin}
    return RunRecord(
        record.mlflow_name,
        params={**shared, **named},
        tags={"rule": str(state.rule), "searched": " ".join(searched)},
        artifacts={"study.json": json_text(parts)},
        experiment=experiment_name(record),
        name=record.name,
        data=(record.identity["task"], record.training["data"], record.origin.get("source", "")),
    )


def _configuration_record(record: StudyRecord, one: ConfigurationRecord) -> RunRecord:
    return RunRecord(
        record.mlflow_name,
        (one.number,),
        params={
            "method": record.training["method"],
            "configuration": one.number,
            "origin": one.origin,
            **one.fields,
        },
        experiment=experiment_name(record),
        name=configuration_name(record, one),
    )


def _seed_run_record(
    state: SearchState, configuration: ConfigurationRecord, run_id: SeedRunId, run: SeedRun
) -> RunRecord:
    record, replicate = state.record, state.replicates[state.seeds[run_id[1]]]
    found = RunRecord(
        record.mlflow_name,
        run_id,
        params={
            "method": record.training["method"],
            "configuration": configuration.number,
            "seed": replicate.number,
            **configuration.values,
        },
        experiment=experiment_name(record),
        name=f"{record.training['method']} seed {replicate.number}",
    )
    complete = with_results(found, run, state.metric)
    return replace(complete, results=(run.key, state.metric)) if state.compact else complete


def with_results(record: RunRecord, run: SeedRun, metric: str) -> RunRecord:
    """Return the record of a seed run with its curves, scores and times."""
    history: list[tuple[int, dict[str, float]]] = [
        (
            int(reading["update"]),
            {f"{reading['stage']}.loss.{name}": loss for name, loss in reading["loss"].items()},
        )
        for reading in run.stages
    ]
    history += [_point(metric, evaluation) for evaluation in run.evaluations]
    summary: dict[str, float] = {"seconds": run.seconds}
    tags = {"key": run.key, "device": run.device}
    if driver := run.environment.get("driver"):
        tags["driver"] = str(driver)
    if run.failure is not None:
        tags["failure"] = str(run.failure)
    elif run.validation is not None:
        summary["val"] = value(metric, run.validation)
        if (test := run.tested(metric)) is not None:
            summary["test"] = test
    history.append((history[-1][0] if history else 0, summary))
    return replace(
        record,
        tags=tags,
        history=tuple(history),
        status="FINISHED" if run.failure is None else "FAILED",
        started=run.started or None,
        seconds=run.seconds,
        results=None,
    )


def live_record(state: SearchState, task: SeedRunTask, evaluation: Evaluation) -> RunRecord:
    """Return the record of an evaluation of a running seed run."""
    record = state.record
    return RunRecord(
        record.mlflow_name,
        task.id,
        experiment=experiment_name(record),
        name=f"{record.training['method']} seed {task.replicate.number}",
        history=(_point(state.metric, evaluation),),
        part="live",
    )


def _point(metric: str, evaluation: Evaluation) -> tuple[int, dict[str, float]]:
    losses = {f"loss.{name}": loss for name, loss in evaluation["loss"].items()}
    return int(evaluation["update"]), {
        **losses,
        "validation": value(metric, evaluation["validation"]),
    }


def _final_records(state: SearchState, winner: ConfigurationScore) -> Iterator[RunRecord]:
    status = "FINISHED" if state.race.decided else None
    for number in state.paused:
        yield _part(state, (number,), {}, status)
    # MLflow keeps metrics: the score of an untested winner would stand beside an older test score.
    untested = any(run.untested for run in state.runs_of(winner.number).values())
    scores = {} if untested else _scores(winner)
    yield _part(state, (), scores, status)


def _scores(score: ConfigurationScore) -> dict[str, float]:
    found = {"val": score.score, "test": score.test_mean, "test_std": score.test_std}
    loss = {"val_loss": score.loss} if math.isfinite(score.loss) else {}
    return {name: metric for name, metric in found.items() if metric is not None} | loss
