"""Statistics of the winner's predictions: classes, calibration, and misclassified rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.selection.rules import mean_std

if TYPE_CHECKING:
    import pandas as pd

Numbers = npt.NDArray[np.float64]
Bin = tuple[float, float, int]
"""Mean confidence, accuracy and number of rows of a bin."""

BINS = 15
"""Number of equal-width bins of the confidence, as in Guo et al. (2017)."""


def class_scores(counts: Sequence[Numbers]) -> list[list[tuple[float, float | None]]]:
    """Return precision, recall and F1 of each class: mean and standard deviation over the seeds.

    Each seed has a confusion matrix, `[C, C]`, with true classes in rows. A share of no rows is 0.
    """
    matrices = np.stack(counts)  # [seeds, C, C]
    hits = matrices.diagonal(axis1=1, axis2=2)  # [seeds, C]
    predicted, true = matrices.sum(1), matrices.sum(2)
    precision = hits / np.maximum(predicted, 1)
    recall = hits / np.maximum(true, 1)
    f1 = 2 * hits / np.maximum(predicted + true, 1)
    return [
        [mean_std(scores[:, number].tolist()) for scores in (precision, recall, f1)]
        for number in range(matrices.shape[1])
    ]


def calibration(
    predictions: "pd.DataFrame",
) -> tuple[list[Bin], tuple[float, float | None]] | None:
    """Return the calibration of the predicted classes on the test rows.

    Returns:
        The bins of all seeds together, and the expected calibration error: mean and standard
        deviation over the seeds. None if no probabilities are stored.
    """
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
    return _bins(found), mean_std(errors)


def _bins(rows: "pd.DataFrame") -> list[Bin]:
    """Return each bin that has rows."""
    number = np.minimum((rows["confidence"] * BINS).astype(int), BINS - 1)
    return [
        (float(own["confidence"].mean()), float(own["correct"].mean()), len(own))
        for _, own in rows.groupby(number)
    ]


def mistakes(predictions: "pd.DataFrame", most: int) -> "pd.DataFrame":
    """Return at most `most` test rows that seeds get wrong, by their share of wrong seeds.

    The columns `source` and `source_row` are split and number of the row in the task's data. They
    are the index of the result. Its columns:
        label: True class.
        wrong: Number of seeds that predict another class.
        seeds: Number of seeds that have the row in their test rows.
        predicted: Most frequent wrong class.
    """
    place = ["source", "source_row"]
    frame = predictions.assign(wrong=predictions["label"] != predictions["predicted"])
    found = frame.groupby(place).agg(
        label=("label", "first"), wrong=("wrong", "sum"), seeds=("wrong", "size")
    )
    found = found[found["wrong"] > 0].assign(share=lambda rows: rows["wrong"] / rows["seeds"])
    ascending = [False, False, True, True]
    found = found.sort_values(["share", "wrong", *place], ascending=ascending).head(most)
    wrong = frame[frame["wrong"]].set_index(place)["predicted"]
    names = wrong[wrong.index.isin(found.index)].groupby(level=place).agg(lambda one: one.mode()[0])
    return found.drop(columns="share").assign(predicted=names)
