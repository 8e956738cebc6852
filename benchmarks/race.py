"""What a race costs and how often it ends with another winner than all seeds would.

    python -m benchmarks.race [--study STUDY --storage FOLDER] [--orders 40]

Searches of which every seed is known race in many orders of their configurations and seeds, two
seed runs at a time: two that were trained (`scores/`), and made-up ones. With `--study` it is a
study of your own, of which all seed runs are stored.
"""

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np
import numpy.typing as npt

from benchmarks.machine import cores, header, markdown
from sclsearch.reports.report import report
from sclsearch.selection.posterior import risk_of
from sclsearch.selection.race import Race
from sclsearch.selection.rules import Top, parse_rule

Numbers = npt.NDArray[np.float64]

RISKS = (0.0, 0.05, 0.2)
RULES = ("mean", "top-3")
SCORES = Path(__file__).with_name("scores")


def replay(top: Top, scores: Numbers, risk: float | None, at_once: int = 2) -> Race:
    """Return a finished race over known scores.

    Args:
        top: How seeds are counted.
        scores: Of each configuration and seed, `[C, n]`.
        risk: As `Race` has it.
        at_once: Seed runs at a time.
    """
    configs, seeds = scores.shape
    race = Race(top, 0.0, 1.0, seeds, configs, risk)
    for number in range(configs):
        race.open()
        _train(race, number, scores[number], at_once)
    while not race.certain:
        race.certify()
        for number in range(configs):
            _train(race, number, scores[number], at_once)
    return race


def _train(race: Race, number: int, row: Numbers, at_once: int) -> None:
    """Give a configuration its seeds until it has all or is paused."""
    missing = [seed for seed, score in enumerate(race.scores[number]) if math.isnan(score)]
    while missing and number not in race.paused:
        for seed in missing[:at_once]:
            race.note(number, seed, float(row[seed]))
        del missing[:at_once]
        race.judge()


def cost(race: Race) -> float:
    """Return the share of the seed runs that were needed."""
    return float(1 - np.isnan(np.array(race.scores)).mean())


def winner(top: Top, scores: Sequence[Sequence[float]]) -> int:
    """Return the best of the configurations that have all seeds."""
    finals = {n: top.value(row) for n, row in enumerate(scores) if not any(map(math.isnan, row))}
    return max(finals, key=lambda number: (finals[number], -number))


def made_up(
    draw: np.random.Generator, configs: int, *, subsets: float, noise: float, gamble: float = 0.0
) -> Numbers:
    """Return scores `[configs, 10]` of 500 validation rows.

    A fifth of the configurations is poor, a third has a share of seeds that end at chance (a
    quarter of them, elsewhere a fiftieth), and how much seeds differ varies from one to another.
    With a gamble, a fifth is so much better, and half of its seeds end at chance.
    """
    gambles = np.arange(configs)[:, None] < configs / 5 * bool(gamble)
    means = 0.8 + 0.05 * draw.standard_normal((configs, 1))
    means -= 0.15 * (draw.random((configs, 1)) < 0.2)
    spread = noise * np.exp(0.3 * draw.standard_normal((configs, 1)))
    scores = means + subsets * draw.standard_normal((1, 10))
    scores += spread * draw.standard_normal((configs, 10))
    scores += gamble * gambles
    failing = np.where(draw.random((configs, 1)) < 1 / 3, 0.25, 0.02)
    failing = np.where(gambles, 0.5, failing)
    scores = np.where(draw.random((configs, 10)) < failing, 0.5, scores)
    return np.asarray((scores.clip(0, 1) * 500).round() / 500)


def searches(given: argparse.Namespace) -> Iterator[tuple[str, list[Numbers]]]:
    """Yield names of searches, and the scores of each in every order in which it races."""
    draw = np.random.default_rng(0)
    trained = [_of_study(given)] if given.study else _recorded()
    for name, scores in trained:
        yield name, [_shuffled(draw, scores) for _ in range(given.orders)]
    if given.study:
        return
    for kind, configs, subsets, noise, gamble in (
        ("full data", 20, 0.003, 0.01, 0.0),
        ("few-shot", 20, 0.018, 0.045, 0.0),
        ("few-shot", 60, 0.018, 0.045, 0.0),
        ("hard subsets", 20, 0.045, 0.03, 0.0),
        ("gambles", 20, 0.018, 0.045, 0.05),
    ):
        draw_scores = partial(made_up, draw, configs, subsets=subsets, noise=noise, gamble=gamble)
        yield (
            f"made up, {kind}, {configs}",
            [_shuffled(draw, draw_scores()) for _ in range(given.orders)],
        )


def _recorded() -> Iterator[tuple[str, Numbers]]:
    for path in sorted(SCORES.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            rows = [[float(score) for score in row] for row in csv.reader(file)]
        yield f"{path.stem}, {len(rows)}", np.array(rows)


def _of_study(given: argparse.Namespace) -> tuple[str, Numbers]:
    found = report(given.storage, given.study)
    lines = sorted(found.configurations, key=lambda line: line.number)
    scores = [
        [seed.validation or 0.0 for seed in line.seeds] for line in lines if line.score is not None
    ]
    return f"{given.study}, {len(scores)}", np.array(scores)


def _shuffled(draw: np.random.Generator, scores: Numbers) -> Numbers:
    return scores[draw.permutation(len(scores))][:, draw.permutation(scores.shape[1])]


def table(given: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the table."""
    with ProcessPoolExecutor(cores()) as workers:
        rows = [
            [name, rule, f"{risk:g}", *_measured(workers, rule, orders, risk)]
            for name, orders in searches(given)
            for rule in RULES
            for risk in RISKS
        ]
    columns = ("search", "rule", "risk", "seed runs", "same winner", "stated risk", "lost at most")
    yield from markdown(columns, rows)


def _measured(
    workers: Executor, rule: str, orders: Sequence[Numbers], risk: float
) -> Iterator[str]:
    top = parse_rule(rule).score
    races = list(workers.map(partial(replay, top, risk=risk), orders))
    lost = []
    for race, scores in zip(races, orders, strict=True):
        won, best = winner(top, race.scores), winner(top, scores.tolist())
        lost.append(top.value(scores[best].tolist()) - top.value(scores[won].tolist()))
    stated = [risk_of(race.paused.values()) for race in races]
    yield f"{mean(map(cost, races)):.0%}"
    yield f"{mean(one == 0 for one in lost):.1%}"
    yield f"{mean(stated):.1%}"
    yield f"{100 * max(lost):.1f} points"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--study", help="a study with all its seeds")
    parser.add_argument("--storage", default="sclsearch-storage")
    parser.add_argument("--orders", type=int, default=40)
    given = parser.parse_args()
    lines = list(table(given))
    print(header())
    print("\n".join(lines))


if __name__ == "__main__":
    main()
