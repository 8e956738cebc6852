"""Temperature and threshold of an export, fitted on the stored probabilities of validation rows.

Temperature scaling is that of Guo et al. (2017), https://arxiv.org/abs/1706.04599: probabilities
p become p^(1/T), normalized, as if the logits of a softmax were divided by T.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sclsearch.canonical import one_line
from sclsearch.errors import SclsearchError
from sclsearch.store.schema import Count, Number, Text
from sclsearch.tasks.metrics import (
    METRICS,
    Classes,
    Metric,
    calibration_error,
    confusion,
    neg_log_loss,
)

if TYPE_CHECKING:
    from sclsearch.exports.export import ExportOptions
    from sclsearch.exports.predictor import ExportRecord
    from sclsearch.reports.report import Report, SeedLine
    from sclsearch.store.runs import RowResults

Probabilities = npt.NDArray[Any]
LOWEST, HIGHEST = 0.05, 20.0
"""Bounds of the temperature, 0 without them if all rows are predicted right."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Temperature and threshold of an export, and its scores before and after them."""

    temperature: Annotated[float, Field(ge=LOWEST, le=HIGHEST)] | None
    # Probability of class 1, of two, from which it is predicted; None for the likelier class.
    threshold: Annotated[float, Field(ge=0, le=1)] | None
    rows: Count  # of validation
    scores: Mapping[Text, list[Number]]  # before and after, by split and name


def calibrate(
    found: "Report", seeds: "Sequence[SeedLine]", options: "ExportOptions"
) -> Calibration:
    """Fit temperature and threshold to the mean validation probabilities of seed runs.

    Raises:
        SclsearchError: Task or metric do not fit, the seed runs have different validation rows, or
            their probabilities are not stored.
    """
    metric, stored = METRICS[found.metric], _stored_rows(found, seeds, options)
    labels = {
        split: y.astype(np.int64)
        for split, y in stored[0].labels.items()
        if split == "validation" or found.tests_apart
    }
    before = {split: np.mean([of.probabilities[split] for of in stored], 0) for split in labels}
    y, p = labels["validation"], before["validation"]
    temperature = fit_temperature(p, y) if options.calibrate else None
    likely = scaled(p, temperature)[:, 1]
    threshold = fit_threshold(likely, y, metric) if options.threshold else None
    scores = dict[str, list[float]]()
    for split, y in labels.items():
        first, last = pair = before[split], scaled(before[split], temperature)
        if temperature is not None:
            scores[f"{split} log loss"] = [-neg_log_loss(p, y) for p in pair]
            errors = [calibration_error(p, y) for p in pair]
            scores[f"{split} expected calibration error"] = errors
        if threshold is not None:
            predicted = first.argmax(1), last[:, 1] >= threshold
            values = [metric.function(confusion(y, one, 2)) for one in predicted]
            scores[f"{split} {metric.name}"] = values
    return Calibration(temperature, threshold, len(labels["validation"]), scores)


def _stored_rows(
    found: "Report", seeds: "Sequence[SeedLine]", options: "ExportOptions"
) -> "list[RowResults]":
    """Return the stored probabilities of seed runs, or raise SclsearchError if they do not fit."""
    from sclsearch.store.runs import RunStore

    classes, metric = len(found.record.origin.get("labels", ())), METRICS[found.metric]
    rows = [found.rows[seed.replicate] for seed in seeds]
    runs = RunStore(found.storage)
    trained = [run for run in runs.get_all([seed.key for seed in seeds]) if run]
    stored, fault = [of for of in runs.rows(trained) if of], ""
    if not classes or (options.threshold and (classes != 2 or metric.needs != "classes")):
        need = "two classes, and a metric of predicted ones" if options.threshold else "classes"
        fault = f"{found.task} must have {need}, got {classes or 'no'} classes and {metric.name}"
    elif len({(of["validation"], of.get("test")) for of in rows}) > 1:
        # A validation row of one seed may have trained another.
        fault = "the seeds of an ensemble must have the same validation and test rows"
    elif len(stored) < len(seeds):
        fault = f"{found.study} does not have the probabilities of its validation rows"
    if fault:
        option = "--calibrate" if options.calibrate else "--threshold"
        raise SclsearchError(f"{option}: {fault}. Leave it out.")
    return stored


def scaled(probabilities: Probabilities, temperature: float | None) -> Probabilities:
    """Return probabilities, `[rows, C]`, at a temperature; None leaves them as they are."""
    from scipy.special import softmax

    if temperature is None:
        return probabilities
    least = np.finfo(np.float32).smallest_subnormal  # what float32 rounds to 0 has a finite log
    logs = np.log(probabilities.clip(least), dtype=np.float64)
    return np.asarray(softmax(logs / temperature, axis=1), probabilities.dtype)


def fit_temperature(probabilities: Probabilities, y: Classes) -> float:
    """Return the temperature between 0.05 and 20 with the least log loss; 1 if none is better."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        true = scaled(probabilities.astype(np.float64), np.exp(log_temperature))[range(len(y)), y]
        # Clipped far below the log loss that is shown, so that it has one minimum.
        return -float(np.log(true.clip(1e-300)).mean())

    found = minimize_scalar(loss, bounds=(np.log(LOWEST), np.log(HIGHEST)), method="bounded")
    return float(np.exp(found.x)) if found.fun < loss(0.0) else 1.0


def fit_threshold(likely: Probabilities, y: Classes, metric: Metric) -> float:
    """Return the probability of class 1, of `[rows]`, from which predicting it scores best.

    It lies in the middle between two rows; of equals, the nearest to 0.5 is returned.
    """
    edges = np.unique([0.0, *likely, 1.0])

    def order(middle: float) -> tuple[float, float]:
        return metric.function(confusion(y, likely >= middle, 2)), -abs(middle - 0.5)

    return float(max((edges[1:] + edges[:-1]) / 2, key=order))


def calibration_lines(record: "ExportRecord") -> Iterator[str]:
    """Yield a sentence on temperature and threshold of an export, and one on its scores."""
    if (own := record.calibration) is None:
        return
    fitted = list[str]()
    if own.temperature is not None:
        inside = LOWEST * 1.01 < own.temperature < HIGHEST / 1.01
        bound = "" if inside else ", a bound, because the rows do not determine it"
        fitted.append(f"temperature {own.temperature:.3g} (Guo et al., 2017){bound}")
    if own.threshold is not None:
        name = f"`{one_line(record.labels[1]).replace('`', chr(39))}`"
        fitted.append(
            f"{name} from probability {own.threshold:.4f} (transformers: the likelier class)"
        )
    shown = (f"{name} {one[0]:.4f} → {one[1]:.4f}" for name, one in own.scores.items())
    yield f"Fitted on {own.rows} validation rows: {'; '.join(fitted)}."
    yield f"Before and after: {', '.join(shown)}."
