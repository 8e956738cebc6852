"""Seed runs of a race, and how often its winner differs from that of all seeds.

    python -m benchmarks.race [--searches 40] [--processes 2]

`sclsearch simulate` races searches with known scores in random orders: trained ones (`scores/`) and
synthetic ones. Rules of other programs (`race_peers.py`) decide on the same tables.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.machine import cores, header, markdown
from benchmarks.race_peers import PEERS, Peer
from sclsearch.search.simulate import ScoreTable, Simulation, read_table, simulate
from sclsearch.selection.rules import Top, parse_rule

Numbers = npt.NDArray[np.float64]

SCORES = Path(__file__).with_name("scores")
CONFIGS, SEEDS, ROWS = 60, 10, 500
OPTIONS = (("mean", 0.0, 2), ("mean", 0.05, 2), ("mean", 0.05, 8), ("top-3", 0.05, 8))
"""Rule, risk and number of workers of each row."""

SYNTHETIC: dict[str, dict[str, float]] = {
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
"""Arguments of `synthetic` for each kind of table."""


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


def kinds(searches: int) -> Iterator[list[ScoreTable]]:
    """Yield the tables of each kind: a trained one, or a synthetic one per search."""
    for path in sorted(SCORES.glob("*.csv")):
        table = read_table(path)
        name = f"{table.name}, {len(table.scores)}"
        yield [ScoreTable(name, table.scores, table.seconds, table.values, table.low)]
    for name, arguments in SYNTHETIC.items():
        given: dict[str, Any] = arguments
        yield [
            ScoreTable(f"{name}, {CONFIGS}", scores, np.ones_like(scores), ({},) * CONFIGS)
            for scores in (synthetic(number, **given) for number in range(searches))
        ]


def race_rows(
    tables: Sequence[ScoreTable], searches: int, executor: Executor
) -> Iterator[list[str]]:
    """Yield a row for each rule, risk and number of workers."""
    for rule, race, slots in OPTIONS:
        found = simulate(
            tables, rule=rule, race=race, slots=slots, searches=searches, executor=executor
        )
        yield list(_cells(found))


def _cells(found: Simulation) -> Iterator[str]:
    low, high = found.interval
    yield from (found.table, found.rule, f"{found.race:g}", str(found.slots))
    yield f"{found.seed_runs:.0%}"
    yield f"{found.time:.0%}"
    yield f"{found.wrong}/{found.searches}"
    yield f"{low:.0%} to {high:.0%}"
    yield f"{found.stated:.1%}"
    yield f"{100 * found.regret:.2f}"


def peer_row(tables: Sequence[ScoreTable], searches: int, executor: Executor) -> Iterator[str]:
    """Yield the name of the tables, and seed runs, errors and regret of each peer."""
    yield tables[0].name
    for peer in PEERS.values():
        found = list(executor.map(partial(_judged, peer, tables), range(searches)))
        wrong = sum(regret > 0 for _, regret in found)
        cost, regret = mean(cost for cost, _ in found), mean(regret for _, regret in found)
        yield f"{cost:.0%}, {wrong}, {100 * regret:.2f}"


def _judged(peer: Peer, tables: Sequence[ScoreTable], number: int) -> tuple[float, float]:
    """Return the share of the seed runs that a peer needs, and its regret."""
    top: Top = parse_rule("mean").score
    draw = np.random.default_rng(number)
    scores = tables[number % len(tables)].scores
    scores = scores[draw.permutation(len(scores))][:, draw.permutation(scores.shape[1])]
    known, winner = peer(scores)
    finals = [top.value(row) for row in scores.tolist()]
    return float(known.mean()), max(finals) - finals[winner]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--searches", type=int, default=40)
    parser.add_argument("--processes", type=int, default=cores())
    given = parser.parse_args()
    peers: list[list[str]] = []
    columns = ("search", "rule", "risk", "slots", "seed runs", "time", "wrong", "95 %")
    print("\n".join(markdown((*columns, "stated", "regret"), [])))
    with ProcessPoolExecutor(given.processes) as executor:
        for tables in kinds(given.searches):
            for row in race_rows(tables, given.searches, executor):
                print(f"| {' | '.join(row)} |", flush=True)
            peers.append(list(peer_row(tables, given.searches, executor)))
    print(f"\nPeers, rule mean: seed runs, wrong of {given.searches}, regret in points\n")
    print("\n".join(markdown(("search", *PEERS), peers)))
    print(f"\n{header()}")


if __name__ == "__main__":
    main()
