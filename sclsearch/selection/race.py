"""Racing: early pausing of configurations that will almost surely not win.

After each seed run the race pauses configurations that are unlikely to win. At the end it evaluates
all paused configurations again, and resumes as many as the guarantee requires.

The guarantee concerns a search that trains all configurations on all seeds. By the model of
`ScorePosterior`, such a search has another winner with at most the given probability.

With a risk of 0 the race pauses only configurations that cannot win, whatever their missing scores
are. That rule needs no model and is adaptive capping (Hutter et al. 2009,
https://arxiv.org/abs/1401.3492).
"""

import math
from collections.abc import Iterable

from sclsearch.selection.posterior import Forecast, ScorePosterior, risk_of
from sclsearch.selection.rules import Top

LEAST = 3
"""Seeds that every configuration gets. Two diverged seeds could wrongly agree on a low score."""


class Race:
    """Seed scores of all configurations, and the set of paused configurations.

    Args:
        top: Rule that combines the validation scores of the seeds into a configuration's score.
        low: Lowest possible score.
        high: Highest possible score.
        seeds: Seeds per configuration, n.
        configs: Total number of configurations; required if `risk` is given.
        risk: Highest accepted probability that another configuration would win with all seeds.
            None turns racing off.
    """

    def __init__(
        self,
        top: Top,
        low: float,
        high: float,
        seeds: int,
        configs: int = 0,
        risk: float | None = None,
    ) -> None:
        self.top, self.low, self.high = top, low, high
        self.seeds, self.configs, self.risk = seeds, configs, risk
        self.scores: list[list[float]] = []
        self.paused: dict[int, Forecast] = {}
        self.expected: dict[int, float] = {}
        self._changed: set[int] = set()
        self._certain = False

    @property
    def certain(self) -> bool:
        """True if the guarantee holds for the scores known so far."""
        return self._certain or not self.paused

    def open(self) -> None:
        """Add a configuration without any scores."""
        self.scores.append([math.nan] * self.seeds)

    def note(self, number: int, seed: int, score: float | None) -> None:
        """Record the score of a configuration (`number`) and seed, both counted from 0.

        A score of None means that the seed run failed; it counts as the lowest possible score.
        """
        self.scores[number][seed] = self.low if score is None else score
        self._certain = False
        self._changed.add(number)
        if not self._missing(number):
            # The best certain score may have risen beyond the reach of other configurations.
            self._changed |= set(range(len(self.scores))) - self.paused.keys()

    def forecasts(self) -> tuple[dict[int, Forecast], float]:
        """Return forecasts of all incomplete configurations, and the risk that any of them wins.

        Configurations without any score have no forecast; each counts as probability 1 in the risk.
        """
        lacking = [number for number in range(len(self.scores)) if self._missing(number)]
        found = self._forecasts(number for number in lacking if self._missing(number) < self.seeds)
        return found, risk_of(found.get(number) for number in lacking)

    def judge(self) -> None:
        """Pause configurations with new information that are unlikely to win."""
        if self.risk is None or not self._changed:
            return
        forecasts = self._forecasts(
            number for number in self._changed if self.seeds - LEAST >= self._missing(number) > 0
        )
        for number in self._changed:
            self.paused.pop(number, None)
        self._changed.clear()
        self.expected |= {number: forecast.expected for number, forecast in forecasts.items()}
        spent = risk_of(self.paused.values())
        for number, forecast in sorted(
            forecasts.items(), key=lambda item: (item[1].better, item[0])
        ):
            spent += forecast.better
            # Later configurations may use the share of the risk that earlier ones left unused.
            if spent > self.risk * len(self.scores) / self.configs:
                break
            self.paused[number] = forecast

    def certify(self) -> None:
        """Evaluate all paused configurations again and resume the most likely winners.

        Configurations resume until the total risk of the others is at most the accepted risk.
        """
        if self.certain or self.risk is None:
            return
        self.paused = self._forecasts(self.paused)
        while risk_of(self.paused.values()) > self.risk:
            del self.paused[max(self.paused, key=lambda number: self.paused[number].better)]
        self._certain = True

    def order(self, number: int, seed: int) -> tuple[bool, float]:
        """Return the sort key of a seed run: first seeds of all, then seeds of the best so far."""
        if self.risk is None:
            return False, 0.0
        return seed >= LEAST, -self.expected.get(number, -math.inf)

    def _missing(self, number: int) -> int:
        return sum(map(math.isnan, self.scores[number]))

    def _forecasts(self, numbers: Iterable[int]) -> dict[int, Forecast]:
        wanted = list(numbers)
        if not wanted:
            return {}
        posterior = ScorePosterior(self.top, self.scores, self.low, self.high)
        return {number: posterior.forecast(number) for number in wanted}
