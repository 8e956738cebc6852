"""Allocation of seeds to configurations that may still win, until another winner is unlikely.

Every configuration gets its first seeds. Then the leader, the configuration with the highest
expected score, gets all its seeds, and after it the configuration that is the likeliest to be
better gets one seed at a time. The race ends when the win probabilities of all configurations that
lack seeds add up to at most the accepted risk. By the model of `ScorePosterior`, a search that
trains all configurations on all seeds has another winner with at most that probability.

With a risk of 0 the race ends when no other configuration can win, whatever its missing scores are.
That rule needs no model and is adaptive capping (Hutter et al. 2009,
https://arxiv.org/abs/1401.3492); the model only decides the order.

To check the model, an audit gives one in 25 configurations, whose numbers are drawn before anything
is trained, all its seeds. Their scores are compared with what the model predicts from their first
seeds. If they differ by more than the model allows, its standard deviations are multiplied by the
ratio, and the race goes on until the risk is small enough again.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from sclsearch.randomness import seed_for
from sclsearch.selection.posterior import Forecast, ScorePosterior
from sclsearch.selection.rules import Top

USUAL_RISK = 0.05
"""Accepted risk of `--race` without a number, and of a search with `--seed-runs`."""
FIRST = 2
"""Seeds that every configuration gets."""
AUDITED = 25
"""One in so many configurations is audited."""
USUAL_SHARES = {True: 0.45, False: 0.8}
"""Share of the seeds that a race usually needs, with a risk and at a risk of 0."""
SIGNIFICANCE = 0.05
"""p-value below which an audit contradicts the model."""

Place = tuple[int, int]
"""Number of a configuration and number of a seed, both counted from 0."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Comparison of audited configurations with their predictions.

    Attributes:
        configurations: Number of audited configurations.
        widening: Factor on the model's standard deviations; 1 if the audit is consistent.
    """

    configurations: int
    widening: float = 1.0

    @property
    def consistent(self) -> bool:
        """True if the audited scores do not contradict the model."""
        return self.widening == 1.0


class Race:
    """Seed scores of all configurations, and the decision which seed to train next.

    The decisions depend on the scores and on what is running, but not on the order of arrival.

    Args:
        top: Rule that combines the validation scores of the seeds into a configuration's score.
        low: Lowest possible score.
        high: Highest possible score.
        seeds: Seeds per configuration, n.
        risk: Highest accepted probability that another configuration would win with all seeds.
            None turns racing off.
        audit: Text that draws the audited configurations, for example the study's name.
    """

    def __init__(
        self,
        top: Top,
        low: float,
        high: float,
        seeds: int,
        risk: float | None = None,
        audit: str = "",
    ) -> None:
        self.top, self.low, self.high = top, low, high
        self.seeds, self.risk = seeds, risk
        self.scores: list[list[float]] = []
        self._remainder = seed_for(0, f"audit/{audit}") % AUDITED
        self._fit: tuple[ScorePosterior, Audit] | None = None
        self._begun = 0

    def add_configuration(self) -> None:
        """Add a configuration without any scores."""
        self.scores.append([math.nan] * self.seeds)
        self._fit = None

    def record_score(self, number: int, seed: int, score: float | None) -> None:
        """Record the score of a configuration (`number`) and seed, both counted from 0.

        A score of None means that the seed run failed; it counts as the lowest possible score.
        """
        self.scores[number][seed] = self.low if score is None else score
        self._fit = None

    @property
    def posterior(self) -> ScorePosterior:
        """Posterior of all final scores, with the widening that the audit asks for."""
        return self._fitted()[0]

    @property
    def audit(self) -> Audit:
        """Comparison of the audited configurations that have all their seeds."""
        return self._fitted()[1]

    def _fitted(self) -> tuple[ScorePosterior, Audit]:
        if self._fit is None:
            plain = ScorePosterior(self.top, self.scores, self.low, self.high)
            audit = self._audited(plain)
            widened = ScorePosterior(self.top, self.scores, self.low, self.high, audit.widening)
            self._fit = plain if audit.consistent else widened, audit
        return self._fit

    @property
    def certain(self) -> bool:
        """True if the race may end: the risk is small enough and the audit is complete."""
        if self.risk is None:
            return True
        if not self.scores or self._lacking_first():
            return False
        posterior = self.posterior
        small = posterior.complete.any() and posterior.better.sum() <= self.risk
        return bool(small) and not any(map(self.missing, self._to_audit()))

    def missing(self, number: int, seeds: int | None = None) -> int:
        """Return how many of the first seeds (of all by default) a configuration lacks."""
        return sum(map(math.isnan, self.scores[number][:seeds]))

    def forecasts(self) -> tuple[dict[int, Forecast], float]:
        """Return forecasts of all incomplete configurations, and the risk that any of them wins.

        Configurations that lack first seeds have no forecast; each counts as probability 1 in the
        risk.
        """
        lacking = [number for number in range(len(self.scores)) if self.missing(number)]
        known = [number for number in lacking if not self.missing(number, FIRST)]
        if not known:
            return {}, float(bool(lacking))
        found = {number: self.posterior.forecast(number) for number in known}
        risk = sum(forecast.better for forecast in found.values()) + len(lacking) - len(known)
        return found, min(risk, 1.0)

    def expected(self, numbers: Collection[int]) -> dict[int, float]:
        """Return expected final scores of configurations, from their own scores alone."""
        rows = [self.scores[number] for number in numbers]
        if not rows:
            return {}
        posterior = ScorePosterior(self.top, rows, self.low, self.high)
        return dict(zip(numbers, map(float, posterior.expected), strict=True))

    def next(self, running: Collection[Place], *, all_open: bool) -> Place | None:
        """Return the configuration and the seed to train next; in order if racing is off.

        Args:
            running: What is training now.
            all_open: False if the search still waits for first seeds to add configurations.

        Returns:
            None if nothing is needed, or not before something that is running has ended.
        """
        if self.risk is None:
            return self._free(range(len(self.scores)), running)
        first = self._free(self._lacking_first(), running, FIRST)
        if first or not all_open or self.certain or not self.posterior.seen.any():
            return first
        leader = self.posterior.leader
        return (
            self._free([leader], running)
            or self._rival(leader, running)
            or self._free(self._to_audit(), running)
        )

    def _rival(self, leader: int, running: Collection[Place]) -> Place | None:
        """Return a seed of the configuration that is the likeliest to be better than the leader.

        A configuration gets one seed at a time. If the win probabilities of those of which nothing
        is running are small enough, what is running may well end the race.
        """
        better = self.posterior.better.copy()
        better[[number for number, _ in running] + [leader]] = 0.0
        likeliest = int(np.argmax(better))
        if better.sum() <= (self.risk or 0.0) or not better[likeliest]:
            return None
        return self._free([likeliest], running)

    @property
    def usual_share(self) -> float:
        """Share of all seeds that a race usually needs, see `benchmarks/race.md`."""
        return USUAL_SHARES[bool(self.risk)]

    def needed(self) -> tuple[int, int, int]:
        """Return the least, the likely and the highest number of seeds that the race still needs.

        The leader needs all its seeds. Others need seeds until the rest is unlikely enough; most
        are decided after half of their missing seeds.
        """
        lacking = [self.missing(number) for number in range(len(self.scores))]
        if self.risk is None or not self.scores or self.certain:
            return (sum(lacking),) * 3 if self.risk is None else (0, 0, 0)
        first = sum(self.missing(number, FIRST) for number in range(len(self.scores)))
        if first > len(self.scores):  # too little is known
            least = first + self.seeds - FIRST
            return least, max(least, round(self.usual_share * sum(lacking))), sum(lacking)
        better, leader = self.posterior.better, self.posterior.leader
        least = first + sum(
            lacking[number] - self.missing(number, FIRST) for number in {leader, *self._to_audit()}
        )
        rest, likely, most = float(better.sum()), float(least), least
        for number in np.argsort(-better).tolist():
            if rest <= self.risk:
                break
            rest -= better[number]
            if number != leader:
                likely, most = likely + lacking[number] / 2, most + lacking[number]
        return least, min(round(likely), most), most

    def _lacking_first(self) -> range:
        """Return numbers from the first configuration that lacks first seeds to the last one."""
        while self._begun < len(self.scores) and not self.missing(self._begun, FIRST):
            self._begun += 1
        return range(self._begun, len(self.scores))

    def _drawn(self) -> range:
        """Return the numbers of the configurations that are drawn for an audit."""
        if self.seeds <= FIRST:
            return range(0)
        return range(self._remainder, len(self.scores), AUDITED)

    def _to_audit(self) -> range:
        """Return the numbers of the configurations that get all seeds for the audit."""
        return self._drawn() if self.risk else range(0)

    def _audited(self, posterior: ScorePosterior) -> Audit:
        from scipy.special import chdtrc

        audited = [number for number in self._drawn() if posterior.complete[number]]
        if not audited:
            return Audit(0)
        earlier = np.array(self.scores)
        earlier[audited, FIRST:] = math.nan
        before = ScorePosterior(self.top, earlier, self.low, self.high)
        squares = sum(posterior.surprise(before, number) ** 2 for number in audited)
        if float(chdtrc(len(audited), squares)) >= SIGNIFICANCE:
            return Audit(len(audited))
        return Audit(len(audited), math.sqrt(squares / len(audited)))

    def _free(
        self, numbers: Iterable[int], running: Collection[Place], seeds: int | None = None
    ) -> Place | None:
        """Return the first seed that one of the configurations lacks and that is not running."""
        for number in numbers:
            for seed, score in enumerate(self.scores[number][:seeds]):
                if math.isnan(score) and (number, seed) not in running:
                    return number, seed
        return None
