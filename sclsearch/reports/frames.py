"""Data frames of a study: its seed runs, their learning curves and their predictions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import canonical
from sclsearch.store.runs import BATCH, SPLITS, RowResults, RunStore, SeedRun
from sclsearch.store.studies import existing_study
from sclsearch.tasks.metrics import METRICS, f1_by_class, value

if TYPE_CHECKING:
    import pandas as pd

    from sclsearch.reports.lines import ConfigurationLine
    from sclsearch.reports.report import Report

STUDY_COLUMNS = ("study", "method", "task", "model", "protocol", "size", "metric")
SEED_RUN_COLUMNS = (
    *(*STUDY_COLUMNS, "configuration", "origin"),
    *("replicate", "validation", "test", "reported", "winner"),
    *("status", "failure", "seconds", "device", "key"),
)
CONFIGURATION_COLUMNS = (
    *(*STUDY_COLUMNS, "configuration", "origin"),
    *("rule", "score", "test_mean", "test_std", "seeds", "failures", "winner"),
)
TAKEN = frozenset((*SEED_RUN_COLUMNS, *CONFIGURATION_COLUMNS))
CURVE_COLUMNS = (
    *("configuration", "replicate", "key", "stage", "step", "epoch", "kept", "name", "value"),
)
PREDICTION_COLUMNS = ("configuration", "replicate", "key", "split", "row", "predicted")
LAST_STAGE = "final"
StoredSeedRun = tuple["ConfigurationLine", int, SeedRun]
"""Line of the configuration, number of the replicate, and seed run."""


def seed_run_frame(report: "Report") -> "pd.DataFrame":
    """Return one row per stored seed run, by configuration and replicate.

    Columns:
        study, method, task, model, protocol, size, metric: The study; `size` is None for all
            training examples.
        configuration, origin: Number of the configuration, and where its values come from.
        One column per hyperparameter of method and training. Lists are JSON text. A hyperparameter
            named like another column gets the prefix `hyperparameter_`.
        replicate, seed_PURPOSE: Number of the replicate, and its random seeds.
        validation, test: Scores in the metric; missing for a failed seed run.
        f1_CLASS: F1 of each class on the test rows; only for classification.
        reported: True if the selection rule reports the test score of this seed run.
        winner: True for the seed runs of the winner.
        status, failure: `finished` or `failed`, and the reason of the failure.
        seconds, device: Training time, and the GPU's name or `cpu`.
        key: Key of the seed run in the run store.
    """
    import pandas as pd

    labels = _labels(report)
    rows = [_seed_run_row(report, labels, *found) for found in stored_seed_runs(report)]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(SEED_RUN_COLUMNS))


def configuration_frame(report: "Report") -> "pd.DataFrame":
    """Return one row per configuration, best first.

    Columns:
        study to origin, and one column per hyperparameter: As in `seed_run_frame`.
        rule, score: The selection rule and the score under it; missing while seed runs are missing.
        test_mean, test_std: Mean and sample standard deviation of the reported test scores.
        seeds, failures: Numbers of finished and of failed seed runs.
        winner: True for the winner.
    """
    import pandas as pd

    rows = [
        {
            **_configuration(report, line),
            "rule": report.rule,
            "score": line.score,
            "test_mean": line.test_mean,
            "test_std": line.test_std,
            "seeds": len(line.seeds) - line.failed,
            "failures": line.failed,
            "winner": line is report.winner,
        }
        for line in report.configurations
    ]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(CONFIGURATION_COLUMNS))


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
        for line, replicate, run in stored_seed_runs(report)
        for point in _curve(run)
    ]
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def prediction_frame(report: "Report") -> "pd.DataFrame":
    """Return the prediction for each validation and test row of each seed run.

    Columns:
        configuration, replicate, key: The seed run.
        split: `validation` or `test`.
        row: Position of the row among the replicate's rows of that split, from 0.
        label: Name of the true class; in regression the true score.
        predicted: Name of the predicted class; in regression the predicted score.
        probability_CLASS: Softmax of the method's logits; for `lacon` and `lacon-fusion`, of the
            cosine similarities over tau.

    Labels and probabilities are missing for seed runs whose file of them was deleted.
    """
    import pandas as pd

    classes, runs = _labels(report), RunStore(report.storage)
    frames = [pd.DataFrame(columns=list(PREDICTION_COLUMNS))]
    for batch in _batches(report):
        stored = runs.rows([run for _, _, run in batch])
        for (line, replicate, run), rows in zip(batch, stored, strict=True):
            place = {"configuration": line.number, "replicate": replicate, "key": run.key}
            frames += [
                pd.DataFrame({**place, "split": split, **_row_columns(classes, run, rows, split)})
                for split in SPLITS
                if split in run.predictions
            ]
    return pd.concat(frames[1:] or frames, ignore_index=True)


def stored_seed_runs(report: "Report") -> Iterator[StoredSeedRun]:
    """Yield the stored seed runs of a report by configuration number and replicate."""
    for batch in _batches(report):
        yield from batch


def _batches(report: "Report") -> Iterator[list[StoredSeedRun]]:
    """Yield the stored seed runs in lists, so that only a few are in memory at a time."""
    runs = RunStore(report.storage)
    lines = sorted(report.configurations, key=lambda line: line.number)
    seeds = [(line, seed) for line in lines for seed in line.seeds]
    for start in range(0, len(seeds), BATCH):
        batch = seeds[start : start + BATCH]
        stored = runs.get_all(seed.key for _, seed in batch)
        yield [
            (line, seed.replicate, run)
            for (line, seed), run in zip(batch, stored, strict=True)
            if run is not None
        ]


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
        **_configuration(report, line),
        "replicate": replicate,
        **{f"seed_{purpose}": seed for purpose, seed in run.identity["seeds"].items()},
        "validation": run.validated(report.metric),
        "test": run.tested(report.metric),
        **_f1(labels, run),
        "reported": replicate in reported,
        "winner": line is report.winner,
        "status": "failed" if run.failure else "finished",
        "failure": str(run.failure) if run.failure else None,
        "seconds": run.seconds,
        "device": device_name(run),
        "key": run.key,
    }


def _row_columns(
    classes: Sequence[str], run: SeedRun, rows: RowResults | None, split: str
) -> dict[str, Any]:
    """Return row numbers, labels, predictions and probabilities of the rows of a split."""

    def named(values: Iterable[float]) -> Sequence[str | float]:
        return [classes[int(one)] for one in values] if classes else list(values)

    predicted = run.predictions[split]
    label, probabilities = {}, {}
    if rows is not None:
        label = {"label": named(rows.labels[split])}
        columns = zip(classes, rows.probabilities[split].T, strict=True)
        probabilities = {f"probability_{name}": column for name, column in columns}
    row = {"row": np.arange(len(predicted))}
    return {**row, **label, "predicted": named(predicted), **probabilities}


def _configuration(report: "Report", line: "ConfigurationLine") -> dict[str, Any]:
    """Return the columns of study and configuration, with one per hyperparameter."""
    return {
        **{name: getattr(report, name) for name in STUDY_COLUMNS},
        "configuration": line.number,
        "origin": line.origin,
        **{
            f"hyperparameter_{name}" if name in TAKEN else name: (
                canonical(found) if isinstance(found, list | dict) else found
            )
            for name, found in line.fields.items()
        },
    }


def _f1(labels: Sequence[str], run: SeedRun) -> dict[str, float | None]:
    """Return F1 of each class on the test rows, None for a failed seed run."""
    if run.failure or "confusion" not in run.test:
        return {f"f1_{label}": None for label in labels}
    shares = f1_by_class(np.array(run.test["confusion"], np.int64)).tolist()
    return {f"f1_{label}": share for label, share in zip(labels, shares, strict=False)}


def device_name(run: SeedRun) -> str:
    """Return the name of the GPU that trained a seed run, `cuda` if unknown, or `cpu`."""
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
