"""Seed runs of a race, and how often its winner differs from that of all seeds.

    python -m benchmarks.race [--searches 40] > benchmarks/race.md

Searches with known scores are raced in random orders of configurations and seeds: trained ones
(`scores/`) and synthetic ones. The hold-out kinds were not used to choose the rule.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

from benchmarks.machine import cores, header, markdown
from sclsearch.selection.race import Band, Race
from sclsearch.selection.rules import Top

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rule = Callable[[Numbers, Top], Flags]
"""Function from scores `[C, n]` and a selection rule to the scores that a search would train."""

SCORES = Path(__file__).with_name("scores")
CONFIGS, SEEDS, ROWS = 60, 10, 500
SIZES = ((24, 8), (20, 5), (12, 5), (6, 10), (6, 5), (6, 3))
"""Configurations and seeds of the smaller searches."""
KINDS = yaml.safe_load((SCORES / "synthetic.yaml").read_text(encoding="utf-8"))
TRAINED = sorted(path.stem for path in SCORES.glob("*.csv"))
GROUPS = {"trained": TRAINED, **{name: [*kinds] for name, kinds in KINDS.items()}}
INTRODUCTION = """\
# What a race costs, and how often it errs

`--race BAND`: after 2, 4, 8, … seeds (3, 6, … under top-k), the search goes on with the best third
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


def raced(scores: Numbers, top: Top, band: Band) -> Flags:
    """Return the scores that a search with one worker trains."""
    race = Race(top, 1.0, scores.shape[1], band)
    for _ in scores:
        race.add_configuration()
    while (place := race.next((), all_open=True)) is not None:
        race.add_score(*place, scores[place])
    return ~np.isnan(race.scores)


def three_seeds_then_ten(scores: Numbers, top: Top) -> Flags:
    """Return what common practice reads: 3 seeds of all, all seeds of the best 10."""
    race = Race(top, 1.0, scores.shape[1])
    race.scores = scores
    read = np.zeros(scores.shape, bool)
    read[:, :3] = True
    read[np.argsort(-race.values(3), kind="stable")[:10]] = True
    return read


RULES: Mapping[str, tuple[Top, Mapping[str, Rule]]] = {
    rule: (
        top,
        {
            f"`--race {band}`": partial(raced, band=band),
            "`--race exact`": partial(raced, band="exact"),
            "3 seeds, then the best 10": three_seeds_then_ten,
        },
    )
    for rule, top, band in (("mean", Top(), 2.5), ("top-3", Top(3), 3.5))
}


def search(
    number: int, table: str, rule: str, decide: str, size: tuple[int, int]
) -> tuple[str, float, float]:
    """Return the table of a search in a random part of it, its cost and its winner's regret."""
    draw = np.random.default_rng(number)
    for kinds in KINDS.values():
        if table in kinds:
            scores = synthetic(number, **kinds[table])
    if table in TRAINED:
        scores = pd.read_csv(SCORES / f"{table}.csv").filter(regex="^seed ").to_numpy(float)
    scores = scores[draw.permutation(len(scores))[: size[0]]]
    scores = scores[:, draw.permutation(scores.shape[1])[: size[1]]]
    top, rules = RULES[rule]
    read = rules[decide](scores, top)
    finals = np.array([top.value(row) for row in scores.tolist()])
    return table, float(read.mean()), float(finals.max() - finals[read.all(1)].max())


def row(found: Sequence[tuple[str, float, float]]) -> list[str]:
    """Return share of seed runs, other winners, regret and the worst table of some searches."""
    frame = pd.DataFrame(found, columns=["table", "cost", "regret"])
    wrong = frame["regret"] > 0
    worst = wrong.groupby(frame["table"]).mean().max()
    cost, share, most = (f"{100 * x:.1f} %" for x in (frame["cost"].mean(), wrong.mean(), worst))
    return [cost, share, f"{100 * frame['regret'].mean():.3f}", most]


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--searches", type=int, default=40)
    given = parser.parse_args()
    every = [table for tables in GROUPS.values() for table in tables]
    columns = ("tables", "seed runs", "other winner", "regret", "worst")
    print(INTRODUCTION)
    with ProcessPoolExecutor(cores()) as executor:

        def cells(tables: Sequence[str], *case: Any) -> list[str]:
            jobs = [(n, table, *case) for table in tables for n in range(given.searches)]
            return row(list(executor.map(search, *zip(*jobs, strict=True), chunksize=8)))

        for rule, (_, rules) in RULES.items():
            rows = [
                [decide, group, *cells(tables, rule, decide, (CONFIGS, SEEDS))]
                for decide in rules
                for group, tables in GROUPS.items()
            ]
            print(f"## Rule {rule}, {CONFIGS} configurations (or 30), {SEEDS} seeds\n")
            print(*markdown(("search", *columns), rows), "", sep="\n")
        rows = [
            [f"{size[0]} x {size[1]}", rule, *cells(every, rule, next(iter(rules)), size)]
            for size in SIZES
            for rule, (_, rules) in RULES.items()
            if size[1] > 3 or rule == "mean"
        ]
    print("## Smaller searches, all tables\n")
    print(*markdown(("configurations x seeds", "rule", *columns[1:]), rows), "", sep="\n")
    print(header())


if __name__ == "__main__":
    main()
