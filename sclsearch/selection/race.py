"""Halving over seeds: which seed runs come next.

After 2, 4, 8, … seeds (3, 6, 12, … under a rule that counts the best k), the search goes on with
the best third of the configurations, at least 3, and with all within a band below the leader. The
last ones get all seeds. This is successive halving (Jamieson and Talwalkar, 2016,
https://arxiv.org/abs/1502.07943) with seeds as the resource. It follows from the scores alone.
"""

import math
from collections.abc import Collection
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from sclsearch.selection.rules import DECIMALS, Top

LEAST, KEPT = 3, 1 / 3
"""Least number and share of the configurations that go on after each stage."""
Band = float | Literal["exact"] | None
"""Band in standard errors; `exact` also trains whatever could still win; None trains all seeds."""
SeedRunId = tuple[int, int]
"""Number of a configuration and of its replicate, both from 0."""
RACED_CONFIGS, RACED_SEEDS = 6, 5
"""Configurations and seeds from which on a search races by default."""
MEAN_BAND, TOP_BAND = 2.5, 3.5
"""Default band: under `mean`, and under a rule that counts the best k seeds."""
Numbers = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def usual_band(top: Top, configs: int, seeds: int) -> Band:
    """Return the band of a search without `--race`. One lucky seed decides under `best`."""
    if configs < RACED_CONFIGS or seeds < RACED_SEEDS or top.k == 1:
        return None
    return MEAN_BAND if top.k is None else TOP_BAND


class Race:
    """Validation scores `[C, n]` of all seeds, NaN where unknown, and what to train next.

    With `keep_first` the first configuration gets all seeds, whatever its scores.
    """

    def __init__(
        self, top: Top, highest: float, seeds: int, band: Band = None, *, keep_first: bool = False
    ) -> None:
        self.top, self.highest, self.band = top, highest, band
        self.keep_first = keep_first
        self.scores: Scores = np.empty((0, seeds))
        self._current: tuple[Numbers, int] | None = None  # what `_stage` returns; None if unknown
        doubled = ((2 if top.k is None else 3) * 2**n for n in range(seeds if band else 0))
        self.stages: tuple[int, ...] = (*(one for one in doubled if one < seeds), seeds)

    def add_configuration(self) -> None:
        """Add a configuration without any scores."""
        self.scores = np.vstack([self.scores, np.full(self.stages[-1], math.nan)])
        self._current = None

    def add_score(self, configuration: int, seed: int, score: float) -> None:
        self.scores[configuration, seed] = score
        self._current = None

    def all_compared(self, configurations: int) -> bool:
        """Return whether the first `configurations` have the scores of the first stage."""
        return not np.isnan(self.scores[:configurations, : self.stages[0]]).any()

    def values(self, seeds: int, scores: Scores | None = None) -> Scores:
        """Return each configuration's score over its first seeds, `[C]`; NaN if one is missing.

        Under top-k it is the mean over the best ⌈k · seeds / n⌉ of them.
        """
        best = np.sort((self.scores if scores is None else scores)[:, :seeds], axis=1)
        if self.top.k is not None:
            best = best[:, -math.ceil(self.top.k * seeds / self.stages[-1]) :]
        return np.asarray(best.mean(1).round(DECIMALS))

    @property
    def decided(self) -> bool:
        numbers, seeds = self._stage()
        return not np.isnan(self.scores[numbers, :seeds]).any()

    def next(self, running: Collection[SeedRunId], *, all_open: bool) -> SeedRunId | None:
        """Return the configuration and the seed to train next; None if none is needed now.

        While configurations are still to be added (`all_open` is False), only seeds of the first
        stage are needed.
        """
        numbers, seeds = self._stage()
        if not all_open and seeds != self.stages[0]:
            return None
        return self._first_missing(numbers, seeds, running)

    def ahead(self, running: Collection[SeedRunId], *, all_open: bool) -> SeedRunId | None:
        """Return a configuration and seed for a worker for which `next` has none.

        The best configurations so far get seeds of the next stage, but not of the last one: who
        gets all seeds, and may win, must not depend on the workers. While configurations are still
        to be added, all get seeds of the second stage.
        """
        numbers, seeds = (
            self._stage() if all_open else (np.arange(len(self.scores)), self.stages[0])
        )
        later = min((one for one in self.stages[:-1] if one > seeds), default=seeds)
        values = np.nan_to_num(self.values(seeds)[numbers], nan=-math.inf)
        best = numbers[np.argsort(-values, kind="stable")]
        most = max(math.ceil(KEPT * len(numbers)), LEAST) if all_open else None
        return self._first_missing(best[:most], later, running)

    def needed(self, unopened: int = 0) -> int:
        """Return how many seeds are still needed if the band keeps no more than the best third."""
        numbers, seeds = self._stage()
        stage, count = self.stages.index(seeds), len(self.scores) + unopened
        total = int(np.isnan(self.scores[numbers, :seeds]).sum()) + unopened * self.stages[0]
        for later, (before, after) in enumerate(pairwise(self.stages[stage:]), stage + 1):
            kept = max(math.ceil(count * KEPT**later), LEAST)
            total += min(kept, count) * (after - before)
        return total

    def _stage(self) -> tuple[Numbers, int]:
        """Return configurations and number of seeds of the first stage that lacks scores."""
        if self._current is None:
            self._current = self._first_stage()
        return self._current

    def _first_stage(self) -> tuple[Numbers, int]:
        numbers, keep = np.arange(len(self.scores)), float(len(self.scores))
        for seeds in self.stages[:-1]:
            values = self.values(seeds)
            if not len(numbers) or np.isnan(values[numbers]).any():
                return numbers, seeds
            numbers, keep = self._ranked(numbers, seeds), max(keep * KEPT, LEAST)
            within = values[numbers] >= values[numbers[0]] - self._width(numbers, seeds)
            first = (numbers == 0) & self.keep_first
            numbers = numbers[(np.arange(len(numbers)) < keep) | within | first]
        if self.band != "exact":
            return numbers, self.stages[-1]
        final = self.values(self.stages[-1])
        if len(numbers) and not np.isnan(final[numbers]).any():
            most = np.where(np.isnan(self.scores), self.highest, self.scores)
            possible = self.values(self.stages[-1], most) >= np.nanmax(final)
            possible[0] |= self.keep_first
            numbers = np.flatnonzero(possible)
        return numbers, self.stages[-1]

    def _ranked(self, numbers: Numbers, seeds: int) -> Numbers:
        return numbers[np.lexsort((numbers, -self.values(seeds)[numbers]))]

    def _width(self, ranked: Numbers, seeds: int) -> float:
        """Return `band` standard errors of the difference of two final scores.

        They follow from the first `seeds` scores. The variance is the residual variance of the
        better half, after effects of configurations and seeds.
        """
        half = self.scores[ranked[: max(2, -(-len(ranked) // 2))], :seeds]
        rest = half - half.mean(1, keepdims=True) - half.mean(0) + half.mean()
        variance = (rest**2).sum() / max((len(half) - 1) * (seeds - 1), 1)
        error = math.sqrt(2 * variance * (1 / seeds - 1 / self.stages[-1]))
        return error * self.band if isinstance(self.band, int | float) else 0.0

    def _first_missing(
        self, numbers: Numbers, seeds: int, running: Collection[SeedRunId]
    ) -> SeedRunId | None:
        for number, seed in np.argwhere(np.isnan(self.scores[numbers, :seeds])).tolist():
            if (run_id := (int(numbers[number]), seed)) not in running:
                return run_id
        return None
