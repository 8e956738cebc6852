"""Estimate of a winner's score on new texts, from a study's validation predictions on folds."""

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from sclsearch.selection.estimate import Estimate, corrected_estimate
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.study.state import SearchState
from sclsearch.tasks.metrics import METRICS, confusion


def estimate_from_folds(storage: Storage, state: SearchState) -> Estimate | None:
    """Return the corrected estimate of the best configuration; None without all predictions.

    A configuration counts with the validation rows that it predicted: a race may have skipped some.
    Replicates with the same validation rows predict each of these rows.
    """
    runs = {place: run for place, run in state.seed_runs.items() if run.failure is None}
    stored = dict(zip(runs, RunStore(storage).rows([*runs.values()]), strict=True))
    if not stored or any(
        rows is None or not rows.probabilities["validation"].shape[1] for rows in stored.values()
    ):
        return None  # a file was deleted, or the task is a regression
    known = {place: rows for place, rows in stored.items() if rows is not None}
    y = {replicate: rows.labels["validation"] for (_, replicate), rows in known.items()}
    start = dict(zip(y, np.cumsum([0, *map(len, y.values())]).tolist(), strict=False))
    labels = np.concatenate([*y.values()])
    classes = next(iter(known.values())).probabilities["validation"].shape[1]
    table = {one.number: np.full((len(labels), classes), np.nan) for one in state.configurations}
    for (number, replicate), rows in known.items():
        place = slice(start[replicate], start[replicate] + len(y[replicate]))
        table[number][place] = rows.probabilities["validation"]
    columns: dict[tuple[str, int], list[int]] = defaultdict(list)  # of each validation row
    for one in state.replicates:
        for position in range(len(y.get(one.number, ()))):
            columns[one.rows["validation"], position].append(start[one.number] + position)
    members = [np.array(one) for one in columns.values()]
    metric = METRICS[state.metric]

    def score(probabilities: npt.NDArray[np.float64], index: npt.NDArray[np.int64]) -> float:
        index = index[~np.isnan(probabilities[index, 0])]
        if not len(index):
            return metric.minimum
        if metric.needs == "probabilities":
            return metric.function(probabilities[index], labels[index])
        return metric.function(confusion(labels[index], probabilities[index].argmax(1), classes))

    def scores(drawn: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        index = np.concatenate([members[row] for row in drawn])
        return np.array([score(one, index) for one in table.values()])

    # Further replicates validate the same rows in other folds.
    pool = len(y[state.replicates[0].number]) + state.record.origin["training_rows"][0]
    return corrected_estimate(scores, len(members), min(len(members), pool))
