"""Data frames of a study: its seed runs, their learning curves and their predictions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import canonical
from sclsearch.store.runs import BATCH, RunStore, SeedRun
from sclsearch.store.studies import existing_study
from sclsearch.tasks.metrics import METRICS, f1_by_class, value

if TYPE_CHECKING:
    import pandas as pd

    from sclsearch.reports.report import ConfigurationLine, Report

SEED_RUN_COLUMNS = (
    *("study", "method", "task", "model", "protocol", "size", "configuration", "origin"),
    *("replicate", "validation", "test", "reported", "winner"),
    *("status", "failure", "seconds", "device", "key"),
)
CURVE_COLUMNS = (
    *("configuration", "replicate", "key", "stage", "step", "epoch", "kept", "name", "value"),
)
PREDICTION_COLUMNS = ("configuration", "replicate", "key", "split", "row", "predicted")
LAST_STAGE = "final"


def seed_run_frame(report: "Report") -> "pd.DataFrame":
    """Return one row per stored seed run, by configuration and replicate.

    Columns:
        study, method, task, model, protocol, size: The study; `size` is None for all training
            examples.
        configuration, origin: Number of the configuration, and where its values come from.
        One column per hyperparameter of method and training. Lists are JSON text. A hyperparameter
            named like another column gets the prefix `hyperparameter_`.
        replicate, seed_PURPOSE: Number of the replicate, and its random seeds.
        validation, test: Scores in the study's metric; missing for a failed seed run.
        f1_CLASS: F1 of each class on the test rows; only for classification.
        reported: True if the selection rule reports the test score of this seed run.
        winner: True for the seed runs of the winner.
        status, failure: `finished` or `failed`, and the reason of the failure.
        seconds, device: Training time, and the GPU's name or `cpu`.
        key: Key of the seed run in the run store.
    """
    import pandas as pd

    labels = _labels(report)
    rows = [_seed_run_row(report, labels, *found) for found in _seed_runs(report)]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(SEED_RUN_COLUMNS))


def curve_frame(report: "Report") -> "pd.DataFrame":
    """Return losses and validation metrics during training, one value per row.

    Columns:
        configuration, replicate, key: The seed run.
        stage: Name of the training stage; `final` for the last one, which alone is evaluated.
        step, epoch: Updates and epochs of the stage so far.
        kept: True for the evaluation whose weights are tested.
        name: `loss.TERM` for the mean of a loss term, or of a monitored quantity, since the
            previous record; `validation.METRIC` for a metric on the validation rows.
        value: The value.
    """
    import pandas as pd

    rows = [
        (line.number, replicate, run.key, *point)
        for line, replicate, run in _seed_runs(report)
        for point in _curve(run)
    ]
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def prediction_frame(report: "Report") -> "pd.DataFrame":
    """Return the prediction for each validation and test row of each seed run.

    Columns:
        configuration, replicate, key: The seed run.
        split: `validation` or `test`.
        row: Position of the row among the replicate's rows of that split, from 0.
        predicted: Name of the predicted class; in regression the predicted score.
    """
    import pandas as pd

    labels = _labels(report)
    frames = [
        pd.DataFrame(
            {
                "configuration": line.number,
                "replicate": replicate,
                "key": run.key,
                "split": split,
                "row": np.arange(len(predicted)),
                "predicted": [labels[int(one)] for one in predicted] if labels else predicted,
            }
        )
        for line, replicate, run in _seed_runs(report)
        for split in ("validation", "test")
        if (predicted := run.predictions.get(split)) is not None
    ]
    if not frames:
        return pd.DataFrame(columns=list(PREDICTION_COLUMNS))
    return pd.concat(frames, ignore_index=True)


def _seed_runs(report: "Report") -> Iterator[tuple["ConfigurationLine", int, SeedRun]]:
    """Yield the stored seed runs of a report; hold only a batch of them in memory."""
    lines = sorted(report.configurations, key=lambda line: line.number)
    found = [(line, seed) for line in lines for seed in line.seeds]
    runs = RunStore(report.storage)
    for start in range(0, len(found), BATCH):
        batch = found[start : start + BATCH]
        for (line, seed), run in zip(
            batch, runs.get_all(seed.key for _, seed in batch), strict=True
        ):
            if run is not None:
                yield line, seed.replicate, run


def _labels(report: "Report") -> Sequence[str]:
    """Return the names of the classes, in the order of their numbers; empty in regression."""
    _, record = existing_study(report.storage, report.study)
    return [str(label) for label in record.origin.get("labels", ())]


def _seed_run_row(
    report: "Report",
    labels: Sequence[str],
    line: "ConfigurationLine",
    replicate: int,
    run: SeedRun,
) -> dict[str, Any]:
    reported = {line.seeds[position].replicate for position in line.reported}
    return {
        "study": report.study,
        "method": report.method,
        "task": report.task,
        "model": report.model,
        "protocol": report.protocol,
        "size": report.size,
        "configuration": line.number,
        "origin": line.origin,
        **_hyperparameters(line.fields),
        "replicate": replicate,
        **{f"seed_{purpose}": seed for purpose, seed in run.identity["seeds"].items()},
        "validation": run.validated(report.metric),
        "test": run.tested(report.metric),
        **_f1(labels, run),
        "reported": replicate in reported,
        "winner": line is report.winner,
        "status": "failed" if run.failure else "finished",
        "failure": f"{run.failure.cause}: {run.failure.message}" if run.failure else None,
        "seconds": run.seconds,
        "device": _device(run),
        "key": run.key,
    }


def _hyperparameters(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"hyperparameter_{name}" if name in SEED_RUN_COLUMNS else name: (
            canonical(found) if isinstance(found, list | dict) else found
        )
        for name, found in fields.items()
    }


def _f1(labels: Sequence[str], run: SeedRun) -> dict[str, float | None]:
    """Return F1 of each class on the test rows, None for a failed seed run."""
    if run.failure or "confusion" not in run.test:
        return {f"f1_{label}": None for label in labels}
    shares = f1_by_class(np.array(run.test["confusion"], np.int64)).tolist()
    return {f"f1_{label}": share for label, share in zip(labels, shares, strict=False)}


def _device(run: SeedRun) -> str:
    on_gpu = str(run.identity.get("numerics", "")).startswith("cuda")
    return str(run.environment.get("gpu") or "cuda") if on_gpu else "cpu"


def _curve(run: SeedRun) -> Iterator[tuple[str, int, float, bool, str, float]]:
    """Yield stage, step, epoch, kept, name and value of each loss term and validation metric."""
    for record in run.stages:
        for term, loss in record["loss"].items():
            yield record["stage"], record["update"], record["epoch"], False, f"loss.{term}", loss
    kept = run.kept % max(1, len(run.evaluations))
    for number, record in enumerate(run.evaluations):
        place = LAST_STAGE, record["update"], record["epoch"], number == kept
        for term, loss in record["loss"].items():
            yield *place, f"loss.{term}", loss
        for metric, score in _metrics(record["validation"]).items():
            yield *place, f"validation.{metric}", score


def _metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Return every metric of a stored evaluation that its task has."""
    if "confusion" not in evaluation:
        return dict(evaluation)
    classes = len(evaluation["confusion"])
    return {
        name: value(name, evaluation)
        for name, metric in METRICS.items()
        if metric.needs == "classes" and not (metric.binary and classes != 2)
    }
