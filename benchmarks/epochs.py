"""Halving by epochs beside halving over seeds, on recorded learning curves: benchmarks/epochs.md.

    python -m benchmarks.epochs --record STORAGE STUDY …
    python -m benchmarks.epochs > benchmarks/epochs.md

The first command adds the curves of searches without a race to `curves.csv`. The second replays
them: the learning rate of an update does not depend on when a training ends, so a training that is
stopped early has the same scores until then. Optuna's own pruners decide on trials that report the
recorded scores.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import optuna
import pandas as pd
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, SuccessiveHalvingPruner

import sclsearch
from benchmarks.machine import header, markdown, percent
from benchmarks.race import raced
from sclsearch.selection.rules import Top

CURVES = Path(__file__).with_name("curves.csv")
ORDERS = 20
"""Random orders of the configurations of each search."""
PATIENCE = {f"`patience={k}`, all seeds": k for k in (1, 2, 3)}
Numbers = npt.NDArray[np.float64]
Search = Callable[[Numbers], tuple[int, float]]
"""Function from validation scores, `[C, n, T]`, to the chosen configuration and its cost, the share
of all updates."""
INTRODUCTION = """\
# Halving by epochs and halving over seeds

ASHA of Ray Tune, and successive halving and Hyperband of Optuna, stop trials that are behind after
some epochs. sclsearch gives losing configurations fewer seeds instead. Both are replayed here on
recorded curves of {studies} searches: {runs} seed runs of {configs} configurations, each validated
{evaluations} times. Every search chooses by all seeds but one, whose score then counts.

- **updates**: share of those that all seed runs take.
- **difference**: score of the chosen configuration on the left-out seed minus that of the choice by
  all seed runs, in points, with its standard error over searches. With `patience`, the left-out
  seed run ends early, too.
- **same**: share of the choices that equal the choice by all seed runs.

A *trial* is one seed run, as in most sweeps, or one configuration that trains all its seeds at once
and reports their mean.
"""


def record(storage: str, studies: list[str]) -> None:
    """Add the curves of some searches."""
    frames = [pd.read_csv(CURVES)] if CURVES.exists() else []
    for study in studies:
        found = sclsearch.select(study, storage=storage)
        curves = found.curves().query(f"name == 'validation.{found.metric}'")
        wide = curves.pivot(index=["configuration", "replicate"], columns="step", values="value")
        wide.columns = [f"evaluation {number + 1}" for number in range(wide.shape[1])]
        frames.append(wide.reset_index().assign(study=study))
    pd.concat(frames).round(6).to_csv(CURVES, index=False)


def read() -> dict[str, Numbers]:
    """Return the scores of each search, `[C, n, T]`."""
    found = {}
    for study, rows in pd.read_csv(CURVES).groupby("study"):
        shape = rows["configuration"].nunique(), rows["replicate"].nunique(), -1
        ordered = rows.sort_values(["configuration", "replicate"])
        scores = ordered.filter(like="evaluation ").dropna(axis=1).to_numpy(float)
        found[str(study)] = scores.reshape(shape)
    return found


def everything(scores: Numbers, seeds: int | None = None) -> tuple[int, float]:
    """Return the choice by the best scores of all seed runs, or of the first seeds."""
    read = scores[:, :seeds]
    return int(read.max(2).mean(1).argmax()), read.size / scores.size


def stopped(scores: Numbers, patience: int) -> tuple[Numbers, float]:
    """Return scores `[C, n]` and cost of seed runs that end after evaluations without a better."""
    finals, cost = np.zeros(scores.shape[:2]), 0
    for place in np.ndindex(finals.shape):
        best, since = -1.0, 0
        for value in scores[place]:
            best, since = (value, 0) if value > best else (best, since + 1)
            cost += 1
            if since == patience:
                break
        finals[place] = best
    return finals, cost / scores.size


def impatient(scores: Numbers, patience: int) -> tuple[int, float]:
    """Return the choice by the seed runs of `stopped`."""
    finals, cost = stopped(scores, patience)
    return int(finals.mean(1).argmax()), cost


def over_seeds(scores: Numbers) -> tuple[int, float]:
    """Return the choice of `--race`."""
    finals = scores.max(2)
    read = raced(finals, Top(), 2.5)
    means = np.where(read.all(1), finals.mean(1), -1)
    return int(means.argmax()), float(read.mean())


def pruned(
    scores: Numbers, make: Callable[[], BasePruner], *, seeds: int | None
) -> tuple[int, float]:
    """Return the choice of an Optuna study whose trials report means over some seeds."""
    values = scores[:, :seeds].mean(1)  # [C, T]
    study = optuna.create_study(direction="maximize", pruner=make(), study_name="replay")
    best, cost = {}, 0
    for number, curve in enumerate(values):
        trial = study.ask()
        for step, value in enumerate(curve, start=1):
            trial.report(value, step)
            cost += 1
            if trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            best[number] = float(scores[number, :seeds].max(1).mean())
            study.tell(trial, best[number])
    share = scores[:, :seeds].size / scores.size
    return max(best, key=best.__getitem__), share * cost / values.size


def searches(evaluations: int) -> Mapping[str, Search]:
    """Return the searches by name."""
    pruners: dict[str, Callable[[], BasePruner]] = {
        "ASHA": partial(SuccessiveHalvingPruner, min_resource=1, reduction_factor=3),
        "Hyperband": partial(HyperbandPruner, 1, evaluations, 3),
        "median": partial(MedianPruner, n_startup_trials=2),
    }
    return {
        "all seed runs": everything,
        "`--race 2.5`": over_seeds,
        **{name: partial(impatient, patience=k) for name, k in PATIENCE.items()},
        "one seed": partial(everything, seeds=1),
        **{
            f"{n}, a trial is a seed run": partial(pruned, make=p, seeds=1)
            for n, p in pruners.items()
        },
        **{f"{n}, of means": partial(pruned, make=p, seeds=None) for n, p in pruners.items()},
    }


def replayed(study: Numbers, search: Search, patience: int) -> Numbers:
    """Return cost, difference and agreement of a search, over left-out seeds and orders, `[3]`.

    The chosen configuration trains the left-out seed with the patience of its search.
    """
    found, draw = [], np.random.default_rng(0)
    for seed in range(study.shape[1]):
        for _ in range(ORDERS):
            scores = study[draw.permutation(len(study))]
            others = np.delete(scores, seed, axis=1)
            others = others[:, draw.permutation(others.shape[1])]
            (expected, _), (chosen, cost) = everything(others), search(others)
            own, whole = scores[chosen, None, None, seed], scores[expected, seed].max()
            final, _ = stopped(own, patience or scores.shape[2])
            found.append((cost, final.item() - whole, chosen == expected))
    averages: Numbers = np.array(found, float).mean(axis=0)
    return averages


def main() -> None:
    """Record curves, or print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--record", nargs="+", metavar=("STORAGE", "STUDY"))
    given = parser.parse_args()
    if given.record:
        record(given.record[0], given.record[1:])
        return
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    studies, rows = [*read().values()], []
    configs, _, evaluations = studies[0].shape
    for name, search in searches(evaluations).items():
        found = np.array([replayed(scores, search, PATIENCE.get(name, 0)) for scores in studies])
        cost, difference, same = found.mean(0)
        error = found[:, 1].std(ddof=1) / np.sqrt(len(studies)) if len(studies) > 1 else 0.0
        points = f"{100 * difference:+.2f} ± {100 * error:.2f}"
        rows.append([name, f"{percent(cost)} %", points, f"{percent(same)} %"])
    runs = sum(scores.shape[0] * scores.shape[1] for scores in studies)
    shape = {"studies": len(studies), "runs": runs, "configs": configs, "evaluations": evaluations}
    print(INTRODUCTION.format(**shape))
    print(*markdown(("search", "updates", "difference", "same"), rows), "", sep="\n")
    print(header("optuna"))


if __name__ == "__main__":
    main()
