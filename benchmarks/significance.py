"""Coverage of the intervals and false positives of `sclsearch compare`.

    python -m benchmarks.significance [--repeats 1000] > benchmarks/significance.md

Nothing is trained: the scores are random draws, and their true means are known.
"""

import argparse
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.machine import header, markdown
from sclsearch.randomness import stream
from sclsearch.reports.differences import ScoredSeed, difference
from sclsearch.selection.rules import MEAN, Top
from sclsearch.selection.significance import SearchScores, compare, search_interval

Numbers = npt.NDArray[np.float64]
COVERAGE = ("differences", "pairs", "`compare`", "BCa")
RATIO = "std of configuration means / of seeds"
SAME_METHOD = (RATIO, "configurations each", "p ≤ 0.05", "0 outside 95 %, search")
NONE = (math.nan, math.nan)
RATIOS = (0.25, 0.5, 1.0, 2.0)
"""Standard deviations of configuration means, in that of a score over seeds."""
CONFIGS = (5, 20, 60)
SEEDS = 10
REPLICATE, SHARED, OWN = 0.5, 0.8, 0.6
"""Standard deviations of a score's parts: of the replicate, shared by validation and test, own."""
ROW, ROW_OF_ONE, SKILL = 2.0, 1.0, 0.15
"""Standard deviations of a row's ease, of its ease for one configuration, and of a seed's skill."""
NEW_ROWS = ("seeds", "rows", "seeds alone", "seeds and rows", "width, alone", "width, both")
SLOW = 5
"""Searches for each one whose interval is made."""


def synthetic(draw: np.random.Generator, repeats: int, n: int) -> Iterator[tuple[str, Numbers]]:
    """Yield differences `[repeats, n]` of distributions with mean 0, by name."""
    yield "normal", draw.standard_normal((repeats, n))
    yield "lognormal", draw.lognormal(size=(repeats, n)) - math.exp(0.5)
    failing = draw.random((repeats, n)) < 0.2
    noise = 0.02 * draw.standard_normal((repeats, n))
    yield "one in five fails by 25 points", noise - 0.25 * failing + 0.05


def coverage(repeats: int) -> Iterator[list[str]]:
    """Yield the coverage of both intervals by distribution and number of pairs."""
    warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # equal differences have no BCa
    for n in (5, 6, 10):
        for name, samples in synthetic(stream(n, "coverage"), repeats, n):
            ours = np.array([compare(row.tolist(), [0.0] * n).interval or NONE for row in samples])
            rng = stream(0, "bca")
            found = stats.bootstrap((samples,), np.mean, axis=-1, n_resamples=1000, rng=rng)
            intervals = (ours.T, found.confidence_interval)
            covered = [np.mean((low <= 0) & (high >= 0)) for low, high in intervals]
            yield [name, str(n), *(f"{share:.1%}" for share in covered)]


def new_rows(repeats: int) -> Iterator[list[str]]:
    """Yield the coverage of intervals for other seeds alone, and for other seeds and rows.

    A row is right if a level plus its ease, its ease for the configuration, the seed's skill and
    noise, all normal, is above 0.
    """
    levels, spread = (1.0, 0.8), math.sqrt(1 + ROW**2 + ROW_OF_ONE**2 + SKILL**2)
    better, worse = (float(stats.norm.cdf(level / spread)) for level in levels)
    true = better - worse
    for seeds in (3, 5, 10):
        for rows in (40, 119, 500):
            draw, found = stream(seeds, f"new rows {rows}"), []
            digests = [{"train": "a", "test": "t"}] * seeds
            for _ in range(repeats):
                ease = ROW * draw.standard_normal(rows)
                lines = [_line(draw, level, ease, seeds) for level in levels]
                alone = [[replace(one, rows=None) for one in line] for line in lines]
                both = [
                    difference(a, b, MEAN, "accuracy", "test", digests) for a, b in (alone, lines)
                ]
                ends = [NONE if one is None else one.interval or NONE for one in both]
                found.append([(low <= true <= high, high - low) for low, high in ends])
            covered, width = np.mean(found, axis=0).T
            yield [
                *(str(seeds), str(rows), *(f"{share:.1%}" for share in covered)),
                *(f"{100 * one:.1f}" for one in width),
            ]


def _line(draw: np.random.Generator, level: float, ease: Numbers, seeds: int) -> list[ScoredSeed]:
    skill = level + SKILL * draw.standard_normal((seeds, 1))
    of_one = ROW_OF_ONE * draw.standard_normal(len(ease))
    wrong = (skill + ease + of_one + draw.standard_normal((seeds, len(ease))) < 0).astype(int)
    y = np.zeros(len(ease), int)
    return [ScoredSeed(0.0, float(1 - one.mean()), (y, one)) for one in wrong]


def search(draw: np.random.Generator, ratio: float, configs: int, noise: Numbers) -> SearchScores:
    """Return a search whose configuration means vary around 0; `noise` is that of replicates."""
    shape = configs, SEEDS
    means = noise + ratio * draw.standard_normal((configs, 1))
    means = means + SHARED * draw.standard_normal(shape)
    validation, test = (means + OWN * draw.standard_normal(shape) for _ in range(2))
    return SearchScores(validation, test, np.ones(shape, bool), Top())


def same_method(repeats: int) -> Iterator[list[str]]:
    """Yield how often two searches of one method differ."""
    for ratio in RATIOS:
        for configs in CONFIGS:
            draw = stream(configs, f"same method {ratio}")
            significant, outside = [], []
            for repeat in range(repeats):
                noise = REPLICATE * draw.standard_normal(SEEDS)
                a, b = (search(draw, ratio, configs, noise) for _ in range(2))
                tests = [s.test[s.validation.mean(axis=1).argmax()].tolist() for s in (a, b)]
                found = compare(*tests)
                significant.append(found.p <= 0.05)
                if repeat % SLOW == 0:
                    low, high = search_interval(found, a, b, range(SEEDS)) or NONE
                    outside.append(not low <= 0 <= high)
            shares = (f"{np.mean(one):.1%}" for one in (significant, outside))
            yield [f"{ratio:g}", str(configs), *shares]


def optimism(repeats: int) -> Iterator[list[str]]:
    """Yield how far a winner's test mean is above its true mean, in seed standard deviations."""
    for ratio in RATIOS:
        row = [f"{ratio:g}"]
        for configs in CONFIGS:
            draw = stream(configs, f"optimism {ratio}")
            shape = repeats, configs, SEEDS
            means = ratio * draw.standard_normal((repeats, configs, 1))
            shared, own = (std * draw.standard_normal(shape) for std in (SHARED, OWN))
            best = (means + shared + own).mean(axis=2).argmax(axis=1)
            row.append(f"{shared.mean(axis=2)[np.arange(repeats), best].mean():+.2f}")
        yield row


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000, help="Samples per row.")
    repeats = parser.parse_args().repeats
    print(f"# How often a comparison is right\n\n{header('scipy')}")
    print(f"{repeats} samples per row, {repeats // SLOW} in the table of seeds and rows.")
    for title, columns, rows in (
        ("Share of 95 % intervals that include the true mean difference", COVERAGE, coverage),
        (
            "Share of 95 % intervals that include the difference on all texts, and width in points",
            NEW_ROWS,
            lambda repeats: new_rows(repeats // SLOW),
        ),
        ("Two searches of one method, 10 seeds: share that differs", SAME_METHOD, same_method),
        (
            "Winner's test mean above its true mean, in standard deviations of seeds, 10 seeds",
            (RATIO, *(f"{n} configurations" for n in CONFIGS)),
            optimism,
        ),
    ):
        print(f"\n## {title}\n", *markdown(columns, rows(repeats)), sep="\n")


if __name__ == "__main__":
    main()
