"""Estimate of a winner's score on new texts, from a study's validation predictions on folds."""

import numpy as np
import numpy.typing as npt

from sclsearch.selection.estimate import Estimate, corrected_estimate
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.study.state import SearchState
from sclsearch.tasks.base import Labels
from sclsearch.tasks.metrics import METRICS, Metric, confusion

Index = npt.NDArray[np.int64]


def estimate_from_folds(storage: Storage, state: SearchState) -> Estimate | None:
    """Return the corrected estimate of the best configuration; None without all predictions.

    A configuration counts with the validation rows that it predicted: a race may have skipped some.
    """
    runs = {place: run for place, run in state.seed_runs.items() if run.failure is None}
    stored = dict(zip(runs, RunStore(storage).rows([*runs.values()]), strict=True))
    known = {place: rows for place, rows in stored.items() if rows is not None}
    classes = {rows.probabilities["validation"].shape[1] for rows in known.values()}
    if len(known) < len(stored) or classes in ({0}, set()):
        return None  # a file was deleted, the task is a regression, or all seed runs failed
    y = {replicate: rows.labels["validation"] for (_, replicate), rows in known.items()}
    start = dict(zip(y, np.cumsum([0, *map(len, y.values())]).tolist(), strict=False))
    labels = np.concatenate([*y.values()])
    tables = {one.number: np.full((len(labels), *classes), np.nan) for one in state.configurations}
    for (number, replicate), rows in known.items():
        place = slice(start[replicate], start[replicate] + len(y[replicate]))
        tables[number][place] = rows.probabilities["validation"]

    def scores(drawn: Index) -> npt.NDArray[np.float64]:
        return np.array(
            [_score(METRICS[state.metric], one, labels, drawn) for one in tables.values()]
        )

    # Seeds beyond the number of folds validate the same rows in other folds.
    first = state.replicates[0].number
    pool = len(y[first]) + state.record.origin["training_rows"][0]
    return corrected_estimate(scores, len(labels), min(len(labels), pool))


def _score(
    metric: Metric, probabilities: npt.NDArray[np.float64], labels: Labels, rows: Index
) -> float:
    """Return the metric on those of the rows that a configuration has predicted."""
    rows = rows[~np.isnan(probabilities[rows, 0])]
    if not len(rows):
        return metric.minimum
    if metric.needs == "probabilities":
        return metric.function(probabilities[rows], labels[rows])
    classes = probabilities.shape[1]
    return metric.function(confusion(labels[rows], probabilities[rows].argmax(1), classes))
