"""Budgets of a search: a number of seed runs, or GPU- or CPU-hours."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.store.runs import SeedRun
from sclsearch.study.seed_runs import SeedRunId

SEED_RUNS, GPU_HOURS, CPU_HOURS = "seed runs", "GPU-hours", "CPU-hours"
_UNITS = MappingProxyType({"gpuh": GPU_HOURS, "cpuh": CPU_HOURS})
_SECONDS = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})
_RECORDED = MappingProxyType({GPU_HOURS: "gpus", CPU_HOURS: "threads"})
"""Entry of a seed run's environment that holds its GPUs or CPU cores."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit on the cost of all seed runs of a search.

    Attributes:
        amount: The limit.
        unit: `seed runs`, `GPU-hours` or `CPU-hours`.
        resources: GPUs or CPU cores of each seed run that this start trains. It holds for stored
            seed runs whose record does not name theirs.
    """

    amount: float
    unit: str = SEED_RUNS
    resources: float = 1.0

    def cost(self, run: SeedRun) -> float:
        """Return the cost of a finished seed run, in `unit`."""
        return 1.0 if self.unit == SEED_RUNS else self.cost_of(run.seconds, run.environment)

    def cost_of(self, seconds: float, environment: Mapping[str, Any] | None = None) -> float:
        """Return the hours of a seed run's training time times its GPUs or CPU cores."""
        resources = (environment or {}).get(_RECORDED[self.unit], self.resources)
        return seconds / 3600 * float(resources)


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Use of a search's budget: the cost of its finished seed runs, in the budget's `unit`."""

    amount: float
    unit: str
    spent: float

    def __str__(self) -> str:
        """Return, for example, `7.91 of 8 GPU-hours`."""
        spent = f"{self.spent:.3g}" if self.spent < 1000 else f"{self.spent:.0f}"
        return f"{spent} of {self.amount:g} {self.unit}"


class Spending:
    """Cost of a search's finished and running seed runs, against its budget (None: no limit).

    A running seed run counts as much as the finished ones of its configuration did on average, or,
    without any, as all finished ones did.

    Attributes:
        spent: Cost of the finished seed runs.
        expected: Expected cost of a seed run; None if nothing is known yet.
    """

    def __init__(self, budget: Budget | None) -> None:
        self.budget, self.spent = budget, 0.0
        self.expected = 1.0 if budget is not None and budget.unit == SEED_RUNS else None
        self._total = 0.0
        self._count = 0
        self._of: dict[int, tuple[float, int]] = {}

    def add(self, configuration: int, run: SeedRun) -> None:
        """Count a finished seed run of a configuration."""
        if self.budget is None:
            return
        cost = self.budget.cost(run)
        self.spent += cost
        if not cost:  # a worker that dies leaves no duration
            return
        total, count = self._of.get(configuration, (0.0, 0))
        self._of[configuration] = total + cost, count + 1
        self._total, self._count = self._total + cost, self._count + 1
        self.expected = self._total / self._count

    def expect(self, seconds: float) -> None:
        """Use the expected training time of a seed run as long as none has finished."""
        if self.budget is not None and self.expected is None:
            self.expected = self.budget.cost_of(seconds)

    def left(self, running: Collection[SeedRunId]) -> float:
        """Return how many further seed runs the budget is expected to suffice for.

        The result is infinite without a budget, or if no seed run has finished yet.
        """
        if self.budget is None or not self.expected:
            return math.inf
        going = sum(self._expected_of(configuration) for configuration, _ in running)
        left = (self.budget.amount - self.spent - going) / self.expected
        return max(math.floor(left + 1e-9), 0)

    def _expected_of(self, configuration: int) -> float:
        total, count = self._of.get(configuration, (self.expected or 0.0, 1))
        return total / count

    @property
    def excess_note(self) -> str:
        """Note if more seed runs are stored than the budget allows; empty if not.

        A budget of hours may be exceeded by the seed runs that were training when it ended.
        """
        if self.budget is None or self.budget.unit != SEED_RUNS or self.spent <= self.budget.amount:
            return ""
        return (
            f"--seed-runs {self.budget.amount:g}: the store has {self.spent:g} seed runs of this "
            "search already, which are all shown"
        )

    @property
    def use(self) -> BudgetUse | None:
        """The use of the budget; None without one."""
        if self.budget is None:
            return None
        return BudgetUse(self.budget.amount, self.budget.unit, self.spent)


def parse_seconds(duration: object) -> object:
    """Convert a text such as `90`, `45m` or `12h` to seconds; return other values unchanged.

    Raises:
        ValueError: The text is not a positive number with an optional unit.
    """
    if not isinstance(duration, str):
        return duration
    unit = duration[-1:] if duration[-1:] in _SECONDS else "s"
    try:
        seconds = float(duration.removesuffix(unit)) * _SECONDS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError("must be a positive number of seconds, or one with m, h or d")
    return seconds


def parse_compute_budget(text: str) -> Budget:
    """Return the budget for a text such as `8gpuh` or `20cpuh`.

    Raises:
        SclsearchError: The text is not a positive number with one of these units.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(gpuh|cpuh)", text)
    if found is None or not 0 < float(found[1]) < math.inf:
        raise SclsearchError(
            "--compute-budget: must be a positive number of GPU- or CPU-hours, as in 8gpuh or "
            f"20cpuh, got {text!r}."
        )
    return Budget(float(found[1]), _UNITS[found[2]])


def budget_of(
    seed_runs: int | None, compute_budget: str | None, *, gpus: float, cpus: int
) -> Budget | None:
    """Return the budget that the options of a search set; None without one.

    Raises:
        SclsearchError: Both are given, or seed runs without a GPU have a budget in GPU-hours.
    """
    if compute_budget is None:
        return None if seed_runs is None else Budget(seed_runs)
    if seed_runs is not None:
        raise SclsearchError(
            f"--compute-budget {compute_budget}: must come without --seed-runs, got {seed_runs}. "
            "Leave one of them out."
        )
    budget = parse_compute_budget(compute_budget)
    if budget.unit == GPU_HOURS and not gpus:
        raise SclsearchError(
            f"--compute-budget {compute_budget}: seed runs of this search use no GPU. Give a "
            "budget in CPU-hours, as in 20cpuh."
        )
    return replace(budget, resources=gpus if budget.unit == GPU_HOURS else float(cpus))
