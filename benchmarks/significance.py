"""Coverage of the intervals and false positives of `sclsearch compare`.

    python -m benchmarks.significance [--repeats 1000]

Nothing is trained: the scores are random draws, and their true means are known.
"""

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit
from scipy.stats import bootstrap

from benchmarks.machine import header, markdown
from sclsearch.randomness import stream
from sclsearch.selection.rules import Top
from sclsearch.selection.significance import (
    Comparison,
    SearchScores,
    compare,
    search_interval,
)

Numbers = npt.NDArray[np.float64]
Ends = tuple[Numbers, Numbers]

RESAMPLES = 1000
PAIRS = (5, 6, 10)
SLOW = 5
SEED_STD = {"replicate": 0.5, "shared by validation and test": 0.8, "own": 0.6}
"""Parts of a score's standard deviation over seeds; the last two are 1 together."""


def compared(differences: Numbers) -> list[Comparison]:
    """Return the comparison of each row of differences with zeros."""
    return [compare(row.tolist(), [0.0] * len(row)) for row in differences]


def ours(samples: Numbers) -> Ends:
    """Return the intervals of `compare`."""
    ends = [one.interval or (math.nan, math.nan) for one in compared(samples)]
    low, high = np.array(ends).T
    return low, high


def student(samples: Numbers) -> Ends:
    """Return Student's t intervals."""
    n = samples.shape[1]
    half = stdtrit(n - 1, 0.975) * samples.std(axis=1, ddof=1) / math.sqrt(n)
    mean = samples.mean(axis=1)
    return mean - half, mean + half


def expanded(samples: Numbers) -> Ends:
    """Return expanded percentile bootstrap intervals (Hesterberg, 2015)."""
    n = samples.shape[1]
    drawn = stream(n, "expanded").integers(n, size=(RESAMPLES, n))
    level = ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975))
    means = samples[:, drawn].mean(axis=2)
    return np.quantile(means, level, axis=1), np.quantile(means, 1 - level, axis=1)


def bca(samples: Numbers) -> Ends:
    """Return bias-corrected and accelerated bootstrap intervals (scipy)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal differences have no such interval
        found = bootstrap(
            (samples,),
            np.mean,
            axis=-1,
            n_resamples=RESAMPLES,
            method="BCa",
            rng=stream(0, "bca"),
        ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


METHODS: Mapping[str, Callable[[Numbers], Ends]] = {
    "`compare`": ours,
    "Student's t": student,
    "expanded percentile": expanded,
    "BCa": bca,
}


def synthetic(draw: np.random.Generator, repeats: int, n: int) -> Iterator[tuple[str, Numbers]]:
    """Yield samples `[repeats, n]` of distributions with mean 0, by name."""
    yield "normal", draw.standard_normal((repeats, n))
    yield "lognormal", draw.lognormal(size=(repeats, n)) - math.exp(0.5)
    failing = draw.random((repeats, n)) < 0.2
    noise = 0.02 * draw.standard_normal((repeats, n))
    yield "one in five fails by 25 points", noise - 0.25 * failing + 0.05


def coverage(repeats: int) -> Iterator[list[str]]:
    """Yield the coverage of each interval by distribution and number of pairs."""
    for n in PAIRS:
        for name, samples in synthetic(stream(n, "coverage"), repeats, n):
            covered = []
            for interval in METHODS.values():
                low, high = interval(samples)
                covered.append(f"{np.mean((low <= 0) & (high >= 0)):.1%}")
            yield [name, str(n), *covered]


def searched(draw: np.random.Generator, ratio: float, configs: int, noise: Numbers) -> SearchScores:
    """Return a search whose configuration means have standard deviation `ratio` around 0.

    Args:
        draw: Random numbers.
        ratio: Standard deviation of configuration means, in that of a score over seeds.
        configs: Number of configurations.
        noise: Effect of each replicate, which both searches share.
    """
    shape = configs, len(noise)
    means = noise + ratio * draw.standard_normal((configs, 1))
    means = means + SEED_STD["shared by validation and test"] * draw.standard_normal(shape)
    validation, test = (means + SEED_STD["own"] * draw.standard_normal(shape) for _ in range(2))
    return SearchScores(validation, test, np.ones(shape, bool), Top())


def same_method(repeats: int, n: int = 10) -> Iterator[list[str]]:
    """Yield how often two searches of one method differ.

    The interval, which takes longer, is made for a share of the repeats.
    """
    for ratio in (0.25, 0.5, 1.0, 2.0):
        for configs in (5, 20, 60):
            draw = stream(configs, f"same method {ratio}")
            p_values, outside = [], []
            for repeat in range(repeats):
                noise = SEED_STD["replicate"] * draw.standard_normal(n)
                one, other = (searched(draw, ratio, configs, noise) for _ in range(2))
                tests = [s.test[s.validation.mean(axis=1).argmax()].tolist() for s in (one, other)]
                found = compare(*tests)
                p_values.append(found.p)
                if repeat % SLOW:
                    continue
                low, high = search_interval(found, one, other, range(n)) or (math.nan, math.nan)
                outside.append(not low <= 0 <= high)
            significant = np.mean(np.array(p_values) <= 0.05)
            yield [f"{ratio:g}", str(configs), f"{significant:.1%}", f"{np.mean(outside):.1%}"]


def optimism(repeats: int, n: int = 10) -> Iterator[list[str]]:
    """Yield how far a winner's test mean is above its true mean, in seed standard deviations."""
    for ratio in (0.25, 0.5, 1.0, 2.0):
        row = [f"{ratio:g}"]
        for configs in (5, 20, 60):
            draw = stream(configs, f"optimism {ratio}")
            shape = repeats, configs, n
            means = ratio * draw.standard_normal((repeats, configs))
            shared = SEED_STD["shared by validation and test"] * draw.standard_normal(shape)
            own = SEED_STD["own"] * draw.standard_normal(shape)
            best = (means[:, :, None] + shared + own).mean(axis=2).argmax(axis=1)
            row.append(f"{shared.mean(axis=2)[np.arange(repeats), best].mean():+.2f}")
        yield row


def _table(title: str, columns: Sequence[str], rows: Iterator[list[str]]) -> None:
    print(f"\n## {title}\n")
    for line in markdown(columns, rows):
        print(line, flush=True)


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000, help="Samples per row.")
    repeats = parser.parse_args().repeats
    print(f"# How often a comparison is right\n\n{header('scipy')}\n{repeats} samples per row.")
    _table(
        "Share of 95 % intervals that include the true mean difference",
        ("differences", "pairs", *METHODS),
        coverage(repeats),
    )
    _table(
        "Two searches of one method, 10 seeds: share that differs",
        ("std of configuration means / of seeds", "configurations each", "p ≤ 0.05",
         "0 outside 95 %, search"),
        same_method(repeats),
    )  # fmt: skip
    _table(
        "Winner's test mean above its true mean, in standard deviations of seeds, 10 seeds",
        ("std of configuration means / of seeds", *(f"{n} configurations" for n in (5, 20, 60))),
        optimism(repeats),
    )


if __name__ == "__main__":
    main()
