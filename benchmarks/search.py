"""Replays of searches with few labels on recorded seed runs, in `tables/` and `scores/`.

python -m benchmarks.search > benchmarks/search.md
"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.machine import header, markdown, percent
from benchmarks.search_tables import FOLDS, TABLES, TEST_ROWS, WORDS, share
from sclsearch.reports.estimate import corrected_estimate
from sclsearch.search.proposals import ObservedConfiguration, Proposals
from sclsearch.search.scheduler import scores_needed
from sclsearch.spaces.load import load_space

SCORES = Path(__file__).parent / "scores"
SEARCHES = ("ce-demo-160", "lacon-dbpedia-70", "scl-sst2-100", "supcl-seq-sst2-200")
REPLAYS, SIZES, FIRST_SEEDS, SEEDS, WORKERS = 10, (5, 10, 20), 2, 5, 2
"""Searches of each table, their sizes, seeds that a sampler and a choice read, and processes."""
Scores = npt.NDArray[np.float64]
INTRODUCTION = f"""\
# What a search finds with few labels

MiniLM, in bfloat16 or float32. A case is a data set, its number of labeled rows and a method.
Texts are cut to {WORDS} words. Each seed run trains on four of {FOLDS} folds, validates on the
other, and keeps its last weights. Test accuracy is of {TEST_ROWS} other rows, the mean over the
folds; ± is the standard error over test rows. The configurations are the start of the practical
space and points of a Sobol sequence in it; `supcl-seq` has two starts, τ = 0.05 and 0.3, of which
the first counts as start. sst2, trec, dbpedia and tickets decide what the defaults are.
"""
CHOICES = ("accuracy", "log loss", "two errors", "all, averaged", "other half", "lead", "others")
CHOSEN = """
Points of test accuracy above the start. The columns choose by validation accuracy (the log loss
decides between equals); by log loss; by accuracy if it is above the start by two standard errors
(the default rule, with errors over rows); or average the probabilities of all models. *other half*
chooses by one half of the test rows and is scored on the other: what a search could find. *lead* is
that of the best on the folds, *others* the mean of the other configurations on the test rows.
"""
KEPT = """
Accuracy of the same trainings with the weights of the best validation score and with the last ones.
The best of several evaluations on 20 rows raises the validation score, not the test.
"""
BATCHES = """
Test accuracy of `scl` with random batches of 16, and with two rows of each of eight classes
(`rows_per_class=2`; eight rows of each of two classes). Seeds 0 to 4 train on folds, the others on
all rows. The practical space balances the batches of dbpedia and banking77, where 33 and 20 % of
the rows of a random batch are alone in their class; of trec they are 5 %.
"""
TRAINED = (
    *("a third held out", "four fifths", "averaged", "all rows", "three averaged"),
    *("gain of the average", "gain of all rows"),
)
LABELS = """
Test accuracy of the start. *a third held out*: a third of the rows is a test, a fifth of the others
validates and chooses the weights. *four fifths*: the models of the folds. *averaged*: their mean
probabilities. *all rows*: a model of all rows with the same epochs, mean of three seeds, which
`export --refit all` and `Classifier` give; *three averaged*: the mean probabilities of the three.
The gains are over a third held out.
"""
ESTIMATES = """
In points, over 200 draws. The test rows stand for all texts: 100 of them, drawn with replacement,
choose a configuration. *uncorrected* and *corrected* are the mean errors of its score on these rows
and of the [estimate](../docs/explanation/search.md), whose standard deviation is *its error*; the
next column has that of a test on 40 further rows. *covered*: how often the 95 % interval has the
true accuracy.
"""
SAMPLED = f"""
Mean regret in points over {len(SEARCHES)} tables of 60 configurations x 10 seeds (`scores/`) and
{REPLAYS} searches of each: how far the best configuration that a search has tried, and the one that
{SEEDS} seeds choose, are below the best of the table. A search of 5, 10 or 20 configurations begins
with the start, learns from {FIRST_SEEDS} seeds and takes the untried row nearest to each proposal.
"""


def hits(table: Mapping[str, Any], kind: str) -> Scores:
    """Return whether each row is predicted correctly, `[configurations, …, rows]`."""
    labels = table["labels" if kind == "validation" else "test_labels"]
    return np.asarray(table[kind].argmax(-1) == labels, np.float64)


def averaged(table: Mapping[str, Any], logs: npt.NDArray[Any]) -> Scores:
    """Return whether the mean probabilities of some models, `[…, rows, classes]`, are right."""
    mean = np.exp(logs.astype(float)).mean(tuple(range(logs.ndim - 2)))
    return np.asarray(mean.argmax(-1) == table["test_labels"], np.float64)


def choices(table: Mapping[str, Any]) -> dict[str, Scores]:
    """Return, per way to choose, the accuracy of each row minus that of the start, `[rows]`."""
    right, tested = hits(table, "validation"), hits(table, "test").mean(1)
    classes = np.arange(len(table["labels"])), table["labels"]
    loss = -table["validation"].astype(float)[:, *classes].mean(1)
    gain, score = tested - tested[0], right.mean(1)
    best = int(np.lexsort((loss, -score))[0])
    error = (right[best] - right[0]).std(ddof=1) / np.sqrt(right.shape[1])
    halves = np.arange(tested.shape[1]) % 2 == 0
    crossed = np.where(
        halves, gain[tested[:, ~halves].mean(1).argmax()], gain[tested[:, halves].mean(1).argmax()]
    )
    return {
        "accuracy": gain[best],
        "log loss": gain[loss.argmin()],
        "two errors": gain[best if score[best] - score[0] > 2 * error else 0],
        "all, averaged": averaged(table, table["test"]) - tested[0],
        "other half": crossed,
        "lead": right[best] - right[0],
        "others": gain[1:].mean(0),
    }


def estimates(table: Mapping[str, Any], draws: int = 200) -> list[float]:
    """Return biases and standard deviations of estimates of the winner's accuracy, in points."""
    right, rng = hits(table, "test"), np.random.default_rng(0)
    found = []
    for _ in range(draws):
        rows, fold = rng.integers(0, right.shape[2], 100), rng.integers(0, FOLDS, 100)
        sample = right[:, fold, rows]
        chosen = int(sample.mean(1).argmax())
        estimate = corrected_estimate(lambda drawn: sample[:, drawn].mean(1), 100, chosen)  # noqa: B023
        winner = right[chosen].mean(0)
        true, apart = winner.mean(), winner[rng.integers(0, len(winner), 40)].mean()
        inside = estimate.low <= true <= estimate.high
        found.append((sample[chosen].mean() - true, estimate.score - true, apart - true, inside))
    errors = np.array(found)
    spreads = errors[:, 1:3].std(0)
    return [*100 * errors[:, :2].mean(0), *100 * spreads, 100 * errors[:, 3].mean()]


def regrets(name: str, sampler: str, replay: int) -> tuple[list[float], list[float]]:
    """Return how far what a search tries, and chooses, is below the best of a table, by size."""
    space = load_space(SCORES / f"{name.rpartition('-')[0]}.yaml", None)
    frame = pd.read_csv(SCORES / f"{name}.csv")
    scores = frame.filter(like="seed ").to_numpy()
    columns = {
        n: [tuple(json.loads(v)) if isinstance(v, str) else v for v in frame[n].tolist()]
        for n in space.parameters
    }
    unit = [[share(p, v) for v in columns[n]] for n, p in space.parameters.items()]
    places = np.array(unit).T
    drawn = scores[:, np.random.default_rng(replay).permutation(scores.shape[1])]
    known, rows = list[ObservedConfiguration](), list[int]()
    proposals = Proposals(replace(space, published=()), sampler, replay)
    while len(known) < max(SIZES):
        for number, one in enumerate(known[: scores_needed(len(known))]):
            one.score = float(drawn[rows[number], :FIRST_SEEDS].mean())
        proposal = proposals.next(known) if known else None
        if proposal is None:
            row = 0  # the start
        else:
            point = [share(p, proposal[0][n]) for n, p in space.parameters.items()]
            distance = ((places - point) ** 2).sum(1)
            distance[rows] = np.inf
            row = int(distance.argmin())
        rows.append(row)
        values = {n: column[row] for n, column in columns.items()}
        known.append(ObservedConfiguration(values))
    true, chosen = 100 * scores.mean(1), drawn[:, :SEEDS].mean(1)
    picked = [rows[int(chosen[rows[:size]].argmax())] for size in SIZES]
    tried = [true.max() - true[rows[:size]].max() for size in SIZES]
    return tried, [true.max() - true[one] for one in picked]


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    tables = {path.stem: dict(np.load(path)) for path in sorted(TABLES.glob("*.npz"))}
    searched = {name: one for name, one in tables.items() if len(one["test"]) > 1}
    found = {name: choices(one) for name, one in searched.items()}
    yield INTRODUCTION
    yield header("optuna")
    yield "## What validation finds\n"
    yield from markdown(
        ("case", "configurations", "start", *CHOICES),
        (
            (
                *(name, str(len(one["test"])), percent(hits(one, "test")[0].mean())),
                *map(signed, found[name].values()),
            )
            for name, one in searched.items()
        ),
    )
    yield CHOSEN
    yield "## The last weights, or those of the best evaluation\n"
    yield from pairs("kept.csv", "last test", "best test")
    yield KEPT
    yield "## Balanced batches\n"
    yield from pairs("batches.csv", "balanced", "random")
    yield BATCHES
    yield "## Labels for the test, or for training\n"
    rows = []
    for name, one in tables.items():
        if "third" in one:
            third, refit = (hits(one, kind).mean(0) for kind in ("third", "refit"))
            four, mean = hits(one, "test")[0].mean(), averaged(one, one["test"][0])
            three = averaged(one, one["refit"])
            shown = (third.mean(), four, mean.mean(), refit.mean(), three.mean())
            rows.append((name, *map(percent, shown), signed(mean - third), signed(refit - third)))
    yield from markdown(("case", *TRAINED), rows)
    yield LABELS
    yield "## The estimate\n"
    yield from markdown(
        ("case", "uncorrected", "corrected", "its error", "error of 40 test rows", "covered, %"),
        ((name, *(f"{x:.1f}" for x in estimates(one))) for name, one in searched.items()),
    )
    yield ESTIMATES
    yield "## Samplers\n"
    yield from markdown(
        ("sampler", *(f"{kind} of {n}" for kind in ("tried", "chosen") for n in SIZES)),
        ((sampler, *of_sampler(sampler)) for sampler in ("random", "tpe", "gp")),
    )
    yield SAMPLED


def pairs(file: str, better: str, than: str) -> Iterator[str]:
    """Yield the mean scores of seed runs in two ways, by case, and the gain of one of them."""
    frame, rows = pd.read_csv(TABLES / file), []
    columns = [*frame.columns[2:]]
    for name, runs in frame.groupby("case"):
        gain = signed(np.array(runs[better] - runs[than]))
        rows.append((str(name), str(len(runs)), *map(percent, runs[columns].mean()), gain))
    yield from markdown(("case", "seed runs", *columns, "gain"), rows)


def of_sampler(sampler: str) -> list[str]:
    """Return the mean regrets of a sampler over all tables, with standard errors."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        jobs = [[pool.submit(regrets, n, sampler, r) for r in range(REPLAYS)] for n in SEARCHES]
        found = np.array([[job.result() for job in row] for row in jobs])
    errors = np.sqrt((found.var(1, ddof=1) / REPLAYS).sum(0)) / len(found)
    pairs = zip(found.mean((0, 1)).ravel(), errors.ravel(), strict=True)
    return [f"{mean:.2f} ± {error:.2f}" for mean, error in pairs]


def signed(gain: Scores) -> str:
    """Return the mean gain over rows or seed runs in points, with its standard error."""
    error = 100 * gain.std(ddof=1) / np.sqrt(len(gain))
    return f"{100 * gain.mean():+.1f} ± {error:.1f}"


if __name__ == "__main__":
    print("\n".join(page()))
