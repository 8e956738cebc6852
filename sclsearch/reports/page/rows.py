"""Statistics of the winner's predictions: classes, calibration, and rows that most seeds miss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.selection.rules import mean_std

if TYPE_CHECKING:
    import pandas as pd

Numbers = npt.NDArray[np.float64]

BINS = 15
"""Number of equal-width bins of the confidence, as in Guo et al. (2017)."""


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Precision, recall and F1 of one class on the test rows.

    Attributes:
        label: Name of the class.
        scores: Mean and standard deviation over the seeds, by name of the score.
        rows: Mean number of test rows of the class.
    """

    label: str
    scores: dict[str, tuple[float, float | None]]
    rows: float


def class_scores(counts: Sequence[Numbers], labels: Sequence[str]) -> list[ClassScores]:
    """Return precision, recall and F1 of each class.

    Args:
        counts: Confusion matrix of each seed, `[C, C]`: true classes in rows.
        labels: Names of the classes.
    """
    found = []
    for number, label in enumerate(labels):
        hits = [float(one[number, number]) for one in counts]
        predicted = [float(one[:, number].sum()) for one in counts]
        true = [float(one[number].sum()) for one in counts]
        parts = {
            "precision": [_share(h, p) for h, p in zip(hits, predicted, strict=True)],
            "recall": [_share(h, t) for h, t in zip(hits, true, strict=True)],
            "F1": [_share(2 * h, p + t) for h, p, t in zip(hits, predicted, true, strict=True)],
        }
        scores = {name: mean_std(values) for name, values in parts.items()}
        found.append(ClassScores(label, scores, float(np.mean(true))))
    return found


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of the predicted classes on the test rows.

    Attributes:
        bins: Mean confidence, accuracy and number of rows of each bin that has rows, all seeds
            together.
        error: Expected calibration error: mean and standard deviation over the seeds.
    """

    bins: tuple[tuple[float, float, int], ...]
    error: tuple[float, float | None]


def calibration(predictions: "pd.DataFrame") -> Calibration | None:
    """Return the calibration of the predictions; None if no probabilities are stored."""
    names = [name for name in predictions if str(name).startswith("probability_")]
    test = predictions[predictions["split"] == "test"]
    test = test.dropna(subset=names) if names else test[:0]
    if test.empty:
        return None
    found = test.assign(
        confidence=test[names].max(axis=1).astype(float),
        correct=(test["label"] == test["predicted"]).astype(float),
    )
    errors = []
    for _, own in found.groupby("replicate"):
        gaps = [abs(accuracy - sure) * rows for sure, accuracy, rows in _bins(own)]
        errors.append(float(sum(gaps)) / len(own))
    return Calibration(tuple(_bins(found)), mean_std(errors))


def _bins(rows: "pd.DataFrame") -> list[tuple[float, float, int]]:
    """Return mean confidence, accuracy and number of rows of each bin that has rows."""
    number = np.minimum((rows["confidence"] * BINS).astype(int), BINS - 1)
    parts = rows.groupby(number)
    return [
        (float(own["confidence"].mean()), float(own["correct"].mean()), len(own))
        for _, own in parts
    ]


@dataclass(frozen=True, slots=True)
class Mistake:
    """Test row that several seeds predict wrongly.

    Attributes:
        place: Split and number of the row in the task's data.
        label: True class.
        wrong: Number of seeds that predict another class.
        seeds: Number of seeds that have the row in their test rows.
        predicted: Most frequent wrong class.
    """

    place: tuple[str, int]
    label: str
    wrong: int
    seeds: int
    predicted: str


def mistakes(predictions: "pd.DataFrame", most: int) -> list[Mistake]:
    """Return the test rows that most seeds get wrong, by their share of wrong seeds.

    Args:
        predictions: Predictions of the test rows with the columns `source` and `source_row`: split
            and number of the row in the task's data.
        most: Maximum number of rows.
    """
    found = []
    for (source, row), own in predictions.groupby(["source", "source_row"], sort=True):
        wrong = own[own["label"] != own["predicted"]]
        if len(wrong):
            counts = wrong["predicted"].value_counts().sort_index()
            found.append(
                Mistake(
                    (str(source), int(str(row))),
                    str(own["label"].iloc[0]),
                    len(wrong),
                    len(own),
                    str(counts.idxmax()),
                )
            )
    found.sort(key=lambda one: (-one.wrong / one.seeds, -one.wrong, one.place))
    return found[:most]
