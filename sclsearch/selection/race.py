"""The race: which configurations need no further seeds for the winner to be known.

After each seed run those that can hardly win any more wait. At the end all of them are looked at
again, and as many go on as it takes for the promise to hold: with all seeds of all configurations
another would win with a probability of the given risk at most, by the model of `outlook`. At a risk
of 0 only those wait that cannot win whatever their seeds come to, as in adaptive capping (Hutter et
al. 2009, https://arxiv.org/abs/1401.3492); that needs no model.
"""

import math
from collections.abc import Iterable

from sclsearch.selection.posterior import Forecast, ScorePosterior, risk_of
from sclsearch.selection.rules import Top

LEAST = 3
"""Seeds that every configuration gets: two that failed to learn would agree that it is bad."""


class Race:
    """What is known of the seeds of each configuration, and which of these wait.

    Args:
        top: How validation scores of the seeds rank a configuration.
        low: The least that a score can be.
        high: The most.
        seeds: Seeds of a configuration, n.
        configs: Configurations in total, where there is a risk.
        risk: Probability, at the most, that another would win with all seeds; None: none waits.
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
        self.waiting: dict[int, Forecast] = {}
        self.expected: dict[int, float] = {}
        self._changed: set[int] = set()
        self._certain = False

    @property
    def certain(self) -> bool:
        """Whether the promise holds by what is known now."""
        return self._certain or not self.waiting

    def open(self) -> None:
        """Takes in a further configuration."""
        self.scores.append([math.nan] * self.seeds)

    def note(self, number: int, seed: int, score: float | None) -> None:
        """Takes in a score of a configuration and a seed, counted from 0; None of a failed one."""
        self.scores[number][seed] = self.low if score is None else score
        self._certain = False
        self._changed.add(number)
        if not self._missing(number):
            # The best that is certain may be better now, and others can be reached no more.
            self._changed |= set(range(len(self.scores))) - self.waiting.keys()

    def odds(self) -> tuple[dict[int, Forecast], float]:
        """Returns the chances of configurations that lack seeds, and that any of these would win.

        One without any seed is not among them, and may come to anything.
        """
        lacking = [number for number in range(len(self.scores)) if self._missing(number)]
        found = self._chances(number for number in lacking if self._missing(number) < self.seeds)
        return found, risk_of(found.get(number) for number in lacking)

    def judge(self) -> None:
        """Lets those wait of which something new is known and that can hardly win."""
        if self.risk is None or not self._changed:
            return
        forecasts = self._chances(
            number for number in self._changed if self.seeds - LEAST >= self._missing(number) > 0
        )
        for number in self._changed:
            self.waiting.pop(number, None)
        self._changed.clear()
        self.expected |= {number: forecast.expected for number, forecast in forecasts.items()}
        spent = risk_of(self.waiting.values())
        for number, forecast in sorted(
            forecasts.items(), key=lambda item: (item[1].better, item[0])
        ):
            spent += forecast.better
            # What the first ones leave of their share, later ones may use.
            if spent > self.risk * len(self.scores) / self.configs:
                break
            self.waiting[number] = forecast

    def certify(self) -> None:
        """Looks at all that wait again by what is known now, and lets the likeliest go on."""
        if self.certain or self.risk is None:
            return
        self.waiting = self._chances(self.waiting)
        while risk_of(self.waiting.values()) > self.risk:
            del self.waiting[max(self.waiting, key=lambda number: self.waiting[number].better)]
        self._certain = True

    def order(self, number: int, seed: int) -> tuple[bool, float]:
        """Returns what sorts seed runs: the first seeds of all, then those of the best so far."""
        if self.risk is None:
            return False, 0.0
        return seed >= LEAST, -self.expected.get(number, -math.inf)

    def _missing(self, number: int) -> int:
        return sum(map(math.isnan, self.scores[number]))

    def _chances(self, numbers: Iterable[int]) -> dict[int, Forecast]:
        wanted = list(numbers)
        if not wanted:
            return {}
        outlook = ScorePosterior(self.top, self.scores, self.low, self.high)
        return {number: outlook.forecast(number) for number in wanted}
