"""Seed runs of a race, and how often its winner differs from that of all seeds.

    python -m benchmarks.race [--searches 40] > benchmarks/race.md

Searches with known scores are raced in random orders: trained ones (`scores/`) and synthetic ones.
Other rules decide on the same tables. The hold-out kinds were not used to choose the rule.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
import pandas as pd

from benchmarks.machine import cores, header, markdown
from sclsearch.selection.rules import Band, Race, Top

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rule = Callable[[Numbers, Top], Flags]
"""Function from scores `[C, n]` and a selection rule to the scores that a search would train."""

SCORES = Path(__file__).with_name("scores")
CONFIGS, SEEDS, ROWS = 60, 10, 500
SIZES = ((60, 10), (24, 8), (20, 5), (12, 5), (6, 10), (6, 5), (6, 3))
"""Configurations and seeds of the searches."""
OPENED, AT_ONCE = 24, 4
"""Configurations of a search with TPE, and how many are open at a time."""
TUNED: Mapping[str, Mapping[str, float]] = {
    "t/s 0.5": {"ratio": 0.5},
    "t/s 1": {"ratio": 1},
    "t/s 2": {"ratio": 2},
    "no seed effects": {"ratio": 1, "effects": 0},
    "strong seed effects": {"ratio": 1, "effects": 1},
    "t3 tails": {"ratio": 1, "tails": 3},
    "unequal spreads": {"ratio": 1, "unequal": 0.8},
    "failing seeds": {"ratio": 1, "failing": 0.25},
    "gambles": {"ratio": 1, "gamble": 0.05},
    "drift": {"ratio": 1, "drift": 3},
    "plateau": {"ratio": 0.5, "plateau": 0.4},
}
"""Arguments of `synthetic` for each kind of table; the rule was chosen on these."""
HELD_OUT: Mapping[str, Mapping[str, float]] = {
    "t/s 0.7": {"ratio": 0.7},
    "t/s 1.5, little noise": {"ratio": 1.5, "noise": 0.01},
    "strong noise": {"ratio": 0.8, "noise": 0.06},
    "t4 tails, failing seeds": {"ratio": 1, "tails": 4, "failing": 0.1},
    "strong effects, unequal": {"ratio": 1, "effects": 1.5, "unequal": 0.5},
    "plateau, drift": {"ratio": 1, "plateau": 0.6, "drift": -2},
}
INTRODUCTION = """\
# What a race costs, and how often it errs

`--race BAND`: after 2, 4 and 8 seeds (3 and 6 under top-k), the search goes on with the best third
of the configurations, at least 3, and with every configuration within BAND standard errors of the
leader; the last ones get all seeds.

- **seed runs**: share of those that all seeds of all configurations take.
- **other winner**: share of the searches whose winner is not one that all seeds give.
- **regret**: mean distance of the winner's score to that of the best, in points.
- **worst**: the highest share of other winners among the tables.
"""


def synthetic(
    number: int,
    *,
    ratio: float,
    effects: float = 0.5,
    noise: float = 0.03,
    tails: int = 0,
    unequal: float = 0.3,
    failing: float = 0.0,
    drift: float = 0.0,
    plateau: float = 0.0,
    gamble: float = 0.0,
) -> Numbers:
    """Return random accuracies on 500 rows, `[60, 10]`.

    Args:
        number: Number of the table.
        ratio: t/s, standard deviation of configuration means over that of seeds.
        effects: Standard deviation of effects that a seed has on all, over that of seeds.
        noise: s, standard deviation of seeds.
        tails: Degrees of freedom of Student's t for the noise; 0 is normal.
        unequal: Standard deviation of the logarithm of a configuration's noise.
        failing: Share of seeds that end at chance, in a third of the configurations.
        drift: Standard deviations by which the last configurations are better than the first.
        plateau: Share of configurations that stay at chance.
        gamble: Gain of a fifth of the configurations, of whose seeds half end at chance.
    """
    draw = np.random.default_rng(number)
    order = np.arange(CONFIGS)[:, None] / CONFIGS - 0.5
    normal = draw.standard_normal((CONFIGS, 1))
    means = 0.8 + ratio * noise * (normal + drift * order)
    at_chance = draw.random((CONFIGS, 1)) < plateau
    means = np.where(at_chance, 0.51 + 0.005 * abs(normal), means)
    errors = draw.standard_normal((CONFIGS, SEEDS))
    if tails:
        errors = draw.standard_t(tails, (CONFIGS, SEEDS)) * np.sqrt((tails - 2) / tails)
    spread = noise * np.exp(unequal * draw.standard_normal((CONFIGS, 1)))
    shared = effects * noise * draw.standard_normal((1, SEEDS))
    scores = means + np.where(at_chance, 0.004 * errors, shared + spread * errors)
    gambles = (order < -0.3) & bool(gamble)
    lost = np.where(draw.random((CONFIGS, 1)) < 1 / 3, failing, failing / 10)
    lost = np.where(gambles, 0.5, lost)
    scores = np.where(draw.random((CONFIGS, SEEDS)) < lost, 0.5, scores + gamble * gambles)
    return np.asarray((scores.clip(0, 1) * ROWS).round() / ROWS)


def read_table(path: Path) -> tuple[Numbers, list[dict[str, Any]]]:
    """Return the scores `[C, n]` and the hyperparameters of a trained search."""
    table = pd.read_csv(path)
    seeds = [name for name in table if str(name).startswith("seed ")]
    values = table.drop(columns=seeds).map(
        lambda one: json.loads(one) if isinstance(one, str) and one.startswith("[") else one
    )
    rows: list[dict[str, Any]] = values.to_dict("records")  # type: ignore[assignment]
    return np.asarray(table[seeds], float), rows


def raced(scores: Numbers, top: Top, band: Band) -> Flags:
    """Return the scores that a search with one worker trains."""
    race = Race(top, 1.0, scores.shape[1], band)
    for _ in scores:
        race.add_configuration()
    while (place := race.next((), all_open=True)) is not None:
        race.scores[place] = scores[place]
    return ~np.isnan(race.scores)


def wilcoxon_pruner(scores: Numbers, _top: Top) -> Flags:
    """Return what Optuna's WilcoxonPruner reads: p < 0.1 against the best, guarded by the mean."""
    from scipy.stats import wilcoxon

    read, best = np.zeros(scores.shape, bool), -1
    for number, row in enumerate(scores):
        for seed in range(len(row)):
            read[number, seed] = True
            own, count = row[: seed + 1], seed + 1
            if best < 0 or count < 2 or own.mean() >= scores[best].mean():
                continue
            differences = own - scores[best, :count]
            if not differences.any():
                continue
            found = wilcoxon(differences, alternative="less", zero_method="zsplit")
            if found.pvalue < 0.1:
                break
        if read[number].all() and (best < 0 or row.mean() > scores[best].mean()):
            best = number
    return read


def plain_halving(scores: Numbers, top: Top) -> Flags:
    """Return what halving reads: 2, 4, 8 seeds (3, 6 under top-k), the better half each time."""
    race = Race(top, 1.0, scores.shape[1], 1.0)
    race.scores = scores
    read, alive = np.zeros(scores.shape, bool), np.arange(len(scores))
    for stage in race.stages:
        read[alive, :stage] = True
        order = np.argsort(-race.values(stage)[alive], kind="stable")
        alive = alive[order[: max(-(-len(alive) // 2), 3)]]
    return read


def three_seeds_then_ten(scores: Numbers, top: Top) -> Flags:
    """Return what common practice reads: 3 seeds of all, all seeds of the best 10."""
    race = Race(top, 1.0, scores.shape[1])
    race.scores = scores
    read = np.zeros(scores.shape, bool)
    read[:, :3] = True
    read[np.argsort(-race.values(3), kind="stable")[:10]] = True
    return read


RULES: Mapping[str, Mapping[str, Rule]] = {
    rule: {
        **{f"`--race {band}`": partial(raced, band=band) for band in (*bands, "exact")},
        **pruner,
        "halving, better half": plain_halving,
        "3 seeds, then the best 10": three_seeds_then_ten,
    }
    for rule, bands, pruner in (
        ("mean", (2.0, 2.5, 3.0), {"WilcoxonPruner (Optuna)": wilcoxon_pruner}),
        ("top-3", (2.5, 3.5), {}),  # Optuna's pruner compares means
    )
}
TOPS = {"mean": Top(), "top-3": Top(3)}


@dataclass(frozen=True, slots=True)
class Search:
    """One search of a table: what it cost, and how far its winner is from the best."""

    table: str
    cost: float
    regret: float


def search(table: str, number: int, rule: str, decide: str, size: tuple[int, int]) -> Search:
    """Return the search of that number in a random part of a table."""
    draw, kinds = np.random.default_rng(number), {**TUNED, **HELD_OUT}
    if table in kinds:
        arguments: dict[str, Any] = dict(kinds[table])
        scores = synthetic(number, **arguments)
    else:
        scores, _ = read_table(SCORES / f"{table}.csv")
    configs, seeds = size
    scores = scores[draw.permutation(len(scores))[:configs]]
    scores = scores[:, draw.permutation(scores.shape[1])[:seeds]]
    read = RULES[rule][decide](scores, TOPS[rule])
    finals = np.array([TOPS[rule].value(row) for row in scores.tolist()])
    return Search(table, float(read.mean()), float(finals.max() - finals[read.all(1)].max()))


def row(found: Sequence[Search]) -> list[str]:
    """Return share of seed runs, other winners, regret and the worst table of some searches."""
    frame = pd.DataFrame(found)
    wrong = frame["regret"] > 0
    worst = wrong.groupby(frame["table"]).mean().max()
    cells = (frame["cost"].mean(), wrong.mean(), worst)
    cost, share, most = (f"{100 * cell:.1f} %" for cell in cells)
    return [cost, share, f"{100 * frame['regret'].mean():.3f}", most]


def with_tpe(table: str, number: int, first: int) -> tuple[float, float, float]:
    """Return the regret of the best opened configuration, that after the race, and its cost.

    TPE proposes values after the mean of the first seeds; the search takes the nearest row.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    scores, values = read_table(SCORES / f"{table}.csv")
    draw = np.random.default_rng(number)
    scores = scores[:, draw.permutation(scores.shape[1])]
    known = pd.DataFrame(values).map(lambda one: str(one) if isinstance(one, list) else one)
    searched = [str(name) for name in known if known[name].nunique() > 1]
    space = {name: _distribution(known[name]) for name in searched}
    rows: list[dict[str, Any]] = known.to_dict("records")  # type: ignore[assignment]
    sampler = optuna.samplers.TPESampler(seed=number, multivariate=True, constant_liar=True)
    study, opened = optuna.create_study(direction="maximize", sampler=sampler), list[int]()
    waiting: list[tuple[optuna.Trial, int]] = []
    left = draw.permutation(len(scores)).tolist()
    while len(opened) < OPENED:
        trial = study.ask(space)
        chosen = min(left, key=lambda n: _distance(space, trial.params, rows[n]))
        left.remove(chosen)
        opened.append(chosen)
        waiting.append((trial, chosen))
        if len(waiting) == AT_ONCE:
            done, place = waiting.pop(0)
            study.tell(done, float(scores[place, :first].mean()))
    finals = scores.mean(1)
    part = scores[opened]
    read = raced(part, Top(), 2.5)
    best = finals.max()
    after = best - part.mean(1)[read.all(1)].max()
    return float(best - finals[opened].max()), float(after), float(read.mean())


def _distribution(values: pd.Series) -> optuna.distributions.BaseDistribution:
    distinct = sorted(set(values.tolist()))
    if len(distinct) <= 8 or isinstance(distinct[0], str):
        return optuna.distributions.CategoricalDistribution(distinct)
    low, high = float(distinct[0]), float(distinct[-1])
    return optuna.distributions.FloatDistribution(low, high, log=low > 0 and high > 20 * low)


def _distance(space: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    total = 0.0
    for name, kind in space.items():
        if isinstance(kind, optuna.distributions.CategoricalDistribution):
            total += one[name] != other[name]
        else:
            scale = math.log if kind.log else float
            total += abs(scale(one[name]) - scale(other[name])) / (
                scale(kind.high) - scale(kind.low)
            )
    return total


def tpe_rows(tables: Sequence[str], searches: int) -> Iterator[list[str]]:
    """Yield the mean over tables and searches, for TPE with scores of 2 seeds and of all."""
    for first in (2, SEEDS):
        found = [with_tpe(table, n, first) for table in tables for n in range(searches)]
        opened, after, cost = (float(np.mean(part)) for part in zip(*found, strict=True))
        yield [str(first), f"{100 * opened:.2f}", f"{100 * after:.2f}", f"{100 * cost:.0f} %"]


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--searches", type=int, default=40)
    parser.add_argument("--processes", type=int, default=cores())
    given = parser.parse_args()
    trained = sorted(path.stem for path in SCORES.glob("*.csv"))
    groups = {"trained": trained, "synthetic": [*TUNED], "hold-out": [*HELD_OUT]}
    print(INTRODUCTION)
    columns = ("tables", "seed runs", "other winner", "regret", "worst")
    with ProcessPoolExecutor(given.processes) as executor:

        def cells(names: Sequence[str], rule: str, decide: str, size: tuple[int, int]) -> list[str]:
            tasks = [(name, n, rule, decide, size) for name in names for n in range(given.searches)]
            return row(list(executor.map(search, *zip(*tasks, strict=True), chunksize=8)))

        for rule, rules in RULES.items():
            print(f"## Rule {rule}, {CONFIGS} configurations (or 30), {SEEDS} seeds\n")
            print("\n".join(markdown(("search", *columns), [])))
            for decide in rules:
                for group, names in groups.items():
                    found = cells(names, rule, decide, (CONFIGS, SEEDS))
                    print(f"| {' | '.join([decide, group, *found])} |", flush=True)
            print()
        print("## Smaller searches, all tables\n")
        print("\n".join(markdown(("configurations x seeds", "rule", *columns[1:]), [])))
        for size in SIZES[1:]:
            for rule, decide in (("mean", "`--race 2.5`"), ("top-3", "`--race 3.5`")):
                if size[1] > 3 or rule == "mean":
                    found = cells([*trained, *TUNED, *HELD_OUT], rule, decide, size)
                    print(f"| {size[0]} x {size[1]} | {' | '.join([rule, *found])} |", flush=True)
    print(
        f"\n## With TPE\n\n{OPENED} of 60 configurations, {AT_ONCE} open at a time. TPE "
        "learns from the mean of the first seeds; regret of the "
        "best opened one, and of the winner after `--race 2.5`, in points.\n"
    )
    known = [name for name in trained if read_table(SCORES / f"{name}.csv")[1][0]]
    headings = ("seeds per score", "best opened", "winner", "seed runs")
    print("\n".join(markdown(headings, tpe_rows(known, given.searches))))
    print(f"\n{header()}")


if __name__ == "__main__":
    main()
