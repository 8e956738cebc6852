"""Simulation: a search whose seed runs are all known races again in random orders.

The decisions are those of a live search (`Race`, `propose`, the number of open configurations);
only training is replaced by a look at the table.
"""

import csv
import heapq
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.search.proposals import ObservedConfiguration, propose
from sclsearch.search.scheduler import LEARNS_NOTHING, open_configurations_for
from sclsearch.selection.race import FIRST, Race
from sclsearch.selection.rules import Top, parse_rule
from sclsearch.spaces.space import Choice, Parameter, Range, Space
from sclsearch.study.spec import Sampler
from sclsearch.tasks.metrics import MAXIMUM, METRICS

if TYPE_CHECKING:
    from sclsearch.reports.report import Report

Numbers = npt.NDArray[np.float64]

SEED = "seed "
"""Beginning of the names of the columns that hold scores, followed by the seed's number."""
CHOICES = 8
"""A numeric hyperparameter with more values than this is a range."""
LOG_RATIO = 20.0
"""A range whose ends differ by more than this factor is searched on a log scale."""


@dataclass(frozen=True)
class ScoreTable:
    """Validation scores of all configurations and seeds of a search.

    Attributes:
        name: Name for people.
        scores: `[C, n]`; a failed seed run has the lowest score.
        seconds: Training time of each, `[C, n]`.
        values: Hyperparameters of each configuration; empty mappings if they are unknown.
        low: Lowest possible score.
    """

    name: str
    scores: Numbers
    seconds: Numbers
    values: tuple[Mapping[str, Any], ...]
    low: float = 0.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """Result of one simulated search.

    Attributes:
        seed_runs: Seed runs trained, as a share of all seed runs of its configurations.
        time: Wall-clock time, as a share of that for all seed runs on as many workers.
        wrong: True if another configuration has a better final score than the winner.
        regret: How much the best score of the whole table is above the winner's.
        stated: Risk that the search states at its end.
    """

    seed_runs: float
    time: float
    wrong: bool
    regret: float
    stated: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """Summary of simulated searches of one table with the same options.

    Attributes:
        table: Name of the table.
        configurations: Configurations of each search.
        rule: Selection rule.
        race: Accepted risk; None trains all seeds.
        sampler: Sampler that chose the configurations and their order.
        slots: Seed runs at a time.
        searches: Number of searches.
        seed_runs: Mean share of the seed runs that were trained.
        time: Mean share of the wall-clock time.
        wrong: Searches that ended with another winner than all their seed runs give.
        interval: 95 % interval of the probability of that, by Clopper and Pearson.
        stated: Mean risk that the searches state.
        regret: Mean distance of the winner's score to the best of the table.
        worst_regret: The largest of these distances.
    """

    table: str
    configurations: int
    rule: str
    race: float | None
    sampler: str
    slots: int
    searches: int
    seed_runs: float
    time: float
    wrong: int
    interval: tuple[float, float]
    stated: float
    regret: float
    worst_regret: float

    @property
    def understated(self) -> bool:
        """True if the searches were wrong more often than their stated risk explains."""
        return self.stated < self.interval[0]


def table_of(report: "Report") -> ScoreTable:
    """Return the table of a study.

    Raises:
        SclsearchError: A configuration lacks seeds, or files of the study are damaged.
    """
    if report.damaged:
        raise SclsearchError("\n".join(report.damaged))
    lacking = sum(len(line.seeds) < report.seeds for line in report.configurations)
    if lacking or not report.configurations:
        raise SclsearchError(
            f"{report.study}: {lacking} of {len(report.configurations)} configurations lack seeds. "
            "A simulation needs all: run the same `sclsearch tune` with --race off."
        )
    lines = sorted(report.configurations, key=lambda line: line.number)
    low = METRICS[report.metric].minimum
    scores = [[low if s.validation is None else s.validation for s in one.seeds] for one in lines]
    seconds = [[max(seed.seconds, 1e-3) for seed in line.seeds] for line in lines]
    values = tuple(line.values for line in lines)
    return ScoreTable(report.study, np.array(scores), np.array(seconds), values, low)


def read_table(path: Path) -> ScoreTable:
    """Return the table in a CSV file.

    It has a row for each configuration: scores in the columns `seed 0`, `seed 1` and so on, and a
    column for each hyperparameter, as JSON or text.

    Raises:
        SclsearchError: The file cannot be read, or lacks columns or scores.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        ragged = [n for n, row in enumerate(rows, 1) if None in row or None in row.values()]
        names = [name for name in (rows[0] if rows else {}) if name and name.startswith(SEED)]
        scores = np.array([[float(row[name]) for name in names] for row in rows])
    except (OSError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise SclsearchError(f"{path}: cannot be read as a table of scores: {error}.") from error
    if ragged:
        raise SclsearchError(f"{path}: row {ragged[0]}: must have as many cells as the header.")
    if len(rows) < 2 or len(names) < 2 or not np.isfinite(scores).all():
        raise SclsearchError(
            f"{path}: must have a header with the columns `seed 0`, `seed 1`, …, and at least two "
            f"rows of numbers below it; got {len(rows)} rows with {len(names)} such columns."
        )
    if np.abs(scores).max() > 1:
        raise SclsearchError(
            f"{path}: scores must be between -1 and 1, got {scores.flat[np.abs(scores).argmax()]}. "
            "Divide percentages by 100."
        )
    values = tuple({n: _parsed(v) for n, v in row.items() if n not in names} for row in rows)
    low = METRICS["mcc"].minimum if scores.min() < 0 else 0.0
    return ScoreTable(path.stem, scores, np.ones_like(scores), values, low)


def write_table(table: ScoreTable, path: Path) -> None:
    """Write a table as a CSV file that `read_table` reads."""
    names = list(dict.fromkeys(name for values in table.values for name in values))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, *(f"{SEED}{seed}" for seed in range(table.scores.shape[1]))])
        for values, scores in zip(table.values, table.scores.tolist(), strict=True):
            known = [canonical(values[name]) if name in values else "" for name in names]
            writer.writerow([*known, *(f"{score:.6g}" for score in scores)])


def simulate(
    tables: Sequence[ScoreTable],
    *,
    rule: str = "mean",
    race: float | None = 0.05,
    sampler: Sampler = "random",
    configs: int | None = None,
    slots: int = 2,
    searches: int = 40,
    executor: Executor | None = None,
) -> Simulation:
    """Return how searches of a table end, each in an order of its own.

    Args:
        tables: Tables of one kind, which the searches take in turn; usually one.
        rule: Selection rule; only its score part matters.
        race: Accepted risk; None trains all seeds.
        sampler: `random` takes configurations in random order; the others propose values, and the
            search takes the configuration of the table that is nearest to them.
        configs: Configurations of a search; None takes all.
        slots: Seed runs at a time.
        searches: Number of searches.
        executor: Runs the searches; None runs them one after the other.

    Raises:
        SclsearchError: The options do not fit the table.
    """
    top = parse_rule(rule).score
    if race is not None and not 0 <= race < 1:
        raise SclsearchError(f"--race: must be off, or from 0 to below 1, got {race}.")
    for name, number in (("slots", slots), ("searches", searches)):
        if number < 1:
            raise SclsearchError(f"--{name}: must be at least 1, got {number}.")
    table = tables[0]
    count, seeds = table.scores.shape
    parse_rule(rule).check(seeds)
    if configs is not None and not 2 <= configs <= count:
        raise SclsearchError(f"--configs: must be between 2 and {count}, got {configs}.")
    if sampler not in LEARNS_NOTHING and not all(table.values):
        raise SclsearchError(
            f"--sampler {sampler}: needs the hyperparameters of each configuration, which "
            f"{table.name} lacks. Use --sampler random."
        )
    if race is not None and seeds <= FIRST:
        raise SclsearchError(f"{table.name}: a race needs more than {FIRST} seeds, got {seeds}.")
    one = partial(_search, tables, top, race, sampler, configs or count, slots)
    found = list((executor.map if executor else map)(one, range(searches)))
    wrong = sum(one.wrong for one in found)
    return Simulation(
        table=table.name,
        configurations=configs or count,
        rule=str(top),
        race=race,
        sampler=sampler,
        slots=slots,
        searches=searches,
        seed_runs=fmean(one.seed_runs for one in found),
        time=fmean(one.time for one in found),
        wrong=wrong,
        interval=_clopper_pearson(wrong, searches),
        stated=fmean(one.stated for one in found),
        regret=fmean(one.regret for one in found),
        worst_regret=max(one.regret for one in found),
    )


def _search(
    tables: Sequence[ScoreTable],
    top: Top,
    risk: float | None,
    sampler: Sampler,
    configs: int,
    slots: int,
    number: int,
) -> Simulated:
    """Return the result of the simulated search of that number."""
    draw, table = stream(number, "simulation"), tables[number % len(tables)]
    shuffled = table.scores[:, draw.permutation(table.scores.shape[1])]
    rows = _Rows(table, sampler, draw.permutation(len(shuffled)).tolist(), number)
    race = Race(top, table.low, MAXIMUM, shuffled.shape[1], risk, audit=str(number))
    clock, total = _train(race, rows, shuffled, table.seconds, configs, slots)
    finals = [top.value(row) for row in shuffled.tolist()]
    opened = rows.opened
    complete = [n for n in range(len(opened)) if not race.missing(n)]
    winner = max(complete, key=lambda n: (finals[opened[n]], -n))
    own = finals[opened[winner]]
    known = sum(shuffled.shape[1] - race.missing(n) for n in range(len(opened)))
    return Simulated(
        seed_runs=known / (len(opened) * shuffled.shape[1]),
        time=clock / total,
        wrong=own < max(finals[row] for row in opened),
        regret=max(finals) - own,
        stated=race.forecasts()[1],
    )


def _train(
    race: Race, rows: "_Rows", scores: Numbers, seconds: Numbers, configs: int, slots: int
) -> tuple[float, float]:
    """Run a search; return its wall-clock time, and that of all its seed runs."""
    seeds = scores.shape[1]
    window = open_configurations_for(slots, seeds, race.risk is not None)
    running: list[tuple[float, int, int]] = []
    clock = 0.0
    while True:
        while len(running) < slots:
            while len(race.scores) < configs and rows.may_open(race, window):
                rows.open(race, window)
            places = {(number, seed) for _, number, seed in running}
            place = race.next(places, all_open=len(race.scores) == configs)
            if place is None:
                break
            ends = clock + float(seconds[rows.opened[place[0]], place[1]])
            heapq.heappush(running, (ends, *place))
        if not running:
            return clock, float(seconds[rows.opened].sum()) / min(slots, len(rows.opened) * seeds)
        clock, number, seed = heapq.heappop(running)
        race.record_score(number, seed, float(scores[rows.opened[number], seed]))


class _Rows:
    """Rows of a table in the order in which a search takes them."""

    def __init__(
        self, table: ScoreTable, sampler: Sampler, order: Sequence[int], search_seed: int
    ) -> None:
        self.table, self.sampler, self.order, self.search_seed = table, sampler, order, search_seed
        self.opened: list[int] = []
        self.space = None if sampler in LEARNS_NOTHING else _space(table.values)

    def may_open(self, race: Race, window: int) -> bool:
        """Return True if the sampler has what it needs for the next configuration."""
        if self.space is None and race.risk is not None:
            return True
        first = FIRST if race.risk is not None else None
        return not any(race.missing(number, first) for number in self._required(window))

    def _required(self, window: int) -> range:
        return range(max(len(self.opened) - window + 1, 0))

    def open(self, race: Race, window: int) -> None:
        """Add the next configuration to the race."""
        left = [row for row in self.order if row not in self.opened]
        if self.space is None:
            row = left[0]
        else:
            scores = race.expected(self._required(window))
            known = [
                ObservedConfiguration(self.table.values[row], scores.get(number))
                for number, row in enumerate(self.opened)
            ]
            proposal = propose(self.space, self.sampler, self.search_seed, known)
            row = left[0] if proposal is None else self._nearest(proposal[0], left)
        self.opened.append(row)
        race.add_configuration()

    def _nearest(self, values: Mapping[str, Any], left: Sequence[int]) -> int:
        assert self.space is not None
        parameters = self.space.parameters

        def distance(row: int) -> float:
            own = self.table.values[row]
            return sum(_distance(p, values.get(n), own.get(n)) for n, p in parameters.items())

        return min(left, key=distance)


def _space(values: Sequence[Mapping[str, Any]]) -> Space:
    """Return the space that the hyperparameters of a table span."""
    names = dict.fromkeys(name for one in values for name in one)
    found = {n: [one[n] for one in values if n in one] for n in names}
    parameters = {n: _parameter(all_) for n, all_ in found.items() if len({*map(str, all_)}) > 1}
    return Space("", "", parameters, published=(), fixed={}, file="")


def _parameter(values: Sequence[Any]) -> Parameter:
    distinct = list({canonical(value): value for value in values}.values())
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in distinct)
    if not numbers or len(distinct) <= CHOICES:
        return Choice(tuple(tuple(v) if isinstance(v, list) else v for v in distinct))
    low, high = float(min(distinct)), float(max(distinct))
    return Range(low, high, "log" if low > 0 and high > LOG_RATIO * low else "float")


def _distance(parameter: Parameter, one: Any, other: Any) -> float:
    if isinstance(parameter, Choice):
        return float(canonical(one) != canonical(other))
    if one is None or other is None:
        return 1.0
    if parameter.type == "log":
        return abs(math.log(one / other)) / math.log(parameter.high / parameter.low)
    return float(abs(one - other)) / (parameter.high - parameter.low)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _clopper_pearson(count: int, total: int) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = float(betaincinv(count, total - count + 1, 0.025)) if count else 0.0
    high = float(betaincinv(count + 1, total - count, 0.975)) if count < total else 1.0
    return low, high
