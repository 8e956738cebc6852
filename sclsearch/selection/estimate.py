"""Estimate of the winner's score on new texts from validation rows, corrected for the choice."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sclsearch.randomness import stream

DRAWS = 500
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated score of the chosen configuration on new texts, with its 95 % interval.

    `rows` is the number of different validation rows, `chosen` the uncorrected score.
    """

    score: float
    low: float
    high: float
    rows: int
    chosen: float

    def __str__(self) -> str:
        return f"{self.score:.4f} (95 %: {self.low:.4f} to {self.high:.4f})"


def corrected_estimate(
    scores: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]], rows: int, size: int
) -> Estimate:
    """Return the bootstrap bias-corrected estimate of cross-validation.

    In each of 500 bootstrap samples the configuration with the best score on the sample is scored
    on the rows outside. Their mean is the estimate (Tsamardinos et al., 2018, Machine Learning 107,
    algorithm 2, BBC-CV), but at most the uncorrected score. The interval is that of the chosen
    configuration's score over the samples, moved by the correction. It begins at least three rows
    below the estimate: even without an error, the error rate may be 3 / rows (the rule of three).

    Args:
        scores: Scores of all configurations on some validation rows, `[C]`.
        rows: Number of validation rows; each has all its predictions of one seed or of several.
        size: Number of different rows, which may be validated several times.
    """
    rng, every = stream(0, "estimate"), np.arange(rows)
    whole = scores(every)
    winner = int(whole.argmax())
    outside, inside = [], []
    for _ in range(DRAWS):
        drawn = rng.integers(0, rows, size)
        sample = scores(drawn)
        inside.append(sample[winner])
        rest = np.setdiff1d(every, drawn)
        if len(rest):
            outside.append(scores(rest)[sample.argmax()])
    chosen = float(whole[winner])
    correction = min(float(np.mean(outside)) - chosen, 0.0)
    tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    low, high = (float(bound) for bound in np.quantile(inside, tails) + correction)
    score, highest = chosen + correction, max(chosen, float(np.max(inside)))
    return Estimate(score, min(low, score - 3 / size), min(high, highest), size, chosen)
