"""Estimate of a winner's score on new texts, from a study's validation predictions on folds."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sclsearch.randomness import stream
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import DamagedError, Storage
from sclsearch.study.state import SearchState
from sclsearch.tasks.metrics import METRICS, confusion

DRAWS, TAILS = 500, (0.025, 0.975)
Index = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated score of a configuration on new texts, with its 95 % interval.

    It comes from `rows` validation rows, and is corrected for the choice of one of `chosen_from`.
    """

    score: float
    low: float
    high: float
    rows: int
    chosen_from: int

    def __str__(self) -> str:
        return f"{self.score:.4f} (95 %: {self.low:.4f} to {self.high:.4f})"


def corrected_estimate(
    scores: Callable[[Index], npt.NDArray[np.float64]],
    rows: int,
    winner: int,
    choose: Callable[[Index], int] | None = None,
) -> Estimate:
    """Return the bootstrap bias-corrected estimate of cross-validation.

    In each of 500 bootstrap samples the configuration with the best score on the sample is scored
    on the rows outside. Their mean is the estimate (Tsamardinos et al., 2018, Machine Learning 107,
    algorithm 2, BBC-CV), but at most the uncorrected score. The interval is that of the chosen
    configuration's score over the samples, moved by the correction. It begins at least three rows
    below the estimate: even without an error, the error rate may be 3 / rows (the rule of three).
    `scores` returns the scores of all configurations on some rows, and `choose` the position of the
    one that they choose, by default the best; `winner` is the chosen one on all `rows`.
    """
    rng, every = stream(0, "estimate"), np.arange(rows)
    outside, inside = [], []
    for _ in range(DRAWS):
        drawn = rng.integers(0, rows, rows)
        sample, rest = scores(drawn), np.setdiff1d(every, drawn)
        inside.append(sample[winner])
        if len(rest):
            picked = sample.argmax() if choose is None else choose(drawn)
            outside.append(scores(rest)[picked])
    whole = scores(every)
    chosen = float(whole[winner])
    correction = min(float(np.mean(outside)) - chosen, 0.0)
    low, high = (float(bound) for bound in np.quantile(inside, TAILS) + correction)
    score, highest = chosen + correction, max(chosen, float(np.max(inside)))
    return Estimate(score, min(low, score - 3 / rows), min(high, highest), rows, len(whole))


def estimate_from_folds(storage: Storage, state: SearchState, folds: int) -> Estimate | None:
    """Return the corrected estimate of the winner's score, from seeds that validate each row once.

    It is None with fewer seeds than folds, if one of the winner failed or predictions are missing,
    and for metrics that need probabilities or scores.
    """
    metric, seeds = METRICS[state.metric], [one.number for one in state.replicates[:folds]]
    runs = {run_id: run for run_id, run in state.seed_runs.items() if run.failure is None}
    complete = [n for n in state.scores if all((n, seed) in runs for seed in seeds)]
    winner = -1 if state.winner is None else state.winner.number
    if winner not in complete or metric.needs != "classes" or seeds != [*range(folds)]:
        return None
    with suppress(DamagedError):
        found = RunStore(storage).rows([runs[n, seed] for n in complete for seed in seeds])
        rows = [one for one in found if one is not None]
        if len(rows) < len(found):
            return None
        labels = [one.labels["validation"] for one in rows[:folds]]
        y, fold = np.concatenate(labels), np.repeat(seeds, [len(one) for one in labels])
        classes = rows[0].probabilities["validation"].shape[1]
        by_row = np.concatenate([one.probabilities["validation"].argmax(1) for one in rows])
        predicted = by_row.reshape(len(complete), len(y))
        start = -1 if state.start is None else state.start.number

        def score(position: int, drawn: Index) -> float:
            return metric.function(confusion(y[drawn], predicted[position][drawn], classes))

        def scores(drawn: Index) -> npt.NDArray[np.float64]:
            return np.array([score(position, drawn) for position in range(len(complete))])

        def choose(drawn: Index) -> int:
            best = int(scores(drawn).argmax())
            by_fold = [rows for n in seeds if len(rows := drawn[fold[drawn] == n])]
            first = complete.index(start)
            ours, its = ([score(one, rows) for rows in by_fold] for one in (best, first))
            return best if state.rule.prefers(ours, its) else first

        # Most samples of the rows choose the start, whose scores say nothing on another winner.
        chosen = choose if winner == start else None
        return corrected_estimate(scores, len(y), complete.index(winner), chosen)
    return None
