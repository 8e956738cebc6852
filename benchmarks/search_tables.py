"""Record tables of seed runs of the practical spaces, for the replays of search.py.

    python -m benchmarks.search_tables --record DATA FOLDER sst2/100/scl …
    python -m benchmarks.search_tables --pack FOLDER

The first command trains the folds of some configurations of each case, on one thread each, and
writes every seed run to FOLDER; run it again to resume. DATA has `glue/SST-2`, `dbpedia_14`,
`trec`, `banking77`, `customer_reviews`, `amazon_polarity_derived` and `yelp_polarity`. The second
command packs them into `tables/`.
"""

import argparse
import csv
import json
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sclsearch.spaces.space import Choice, Parameter, Space
from sclsearch.tasks.custom import CustomTask

TABLES = Path(__file__).parent / "tables"
TICKETS = Path(__file__).parents[1] / "docs/tutorials/tickets.csv"
WORDS, TEST_ROWS, FOLDS, POINTS, REFITS, THIRDS = 12, 300, 5, 16, 3, 3
"""Words to which texts are cut, most test rows, folds, most configurations, seeds of the start on
all rows, and on those that a third for a test and a fifth of the others for validation leave."""
TAUS = {"supcl-seq": (0.05, 0.3)}
"""Values of τ of the starts of a method; that of the others is in the practical space."""
ZHANG = {
    "dbpedia": ("dbpedia_14", "dev"),
    "amazon": ("amazon_polarity_derived", "test"),
    "yelp": ("yelp_polarity", "test"),
}
"""Folder of a data set, and its file of test rows."""


def data_set(data: Path, name: str) -> Sequence[pd.DataFrame]:
    """Return the training and the test rows of a data set, with the columns text and label."""

    def table(path: str | Path, **options: Any) -> pd.DataFrame:
        frame = pd.read_csv(data / path, dtype=str, keep_default_na=False, **options)
        if "header" in options:  # the class first, the text last
            frame = frame.set_axis(["label", *frame.columns[1:-1], "text"], axis=1)
        frame = frame.rename(columns={"sentence": "text", "team": "label"})
        cut = frame["text"].str.split().str[:WORDS].str.join(" ")
        found: pd.DataFrame = frame.assign(text=cut).drop_duplicates("text")
        return found[["text", "label"]]

    if name == "tickets":
        mixed = table(TICKETS).sample(frac=1, random_state=0)
        return mixed.iloc[:40], mixed.iloc[40:]
    if name == "sst2":
        files = (f"glue/SST-2/{part}.tsv" for part in ("train", "dev"))
        return [table(file, sep="\t", quoting=csv.QUOTE_NONE) for file in files]
    if name == "banking77-10":
        rows = data_set(data, "banking77")
        classes = sorted({*rows[0]["label"]})[::8]
        return [one[one["label"].isin(classes)] for one in rows]
    if name in {"trec", "customer_reviews", "banking77"}:
        return [table(f"{name}/{part}.csv") for part in ("train", "test")]
    folder, test = ZHANG[name]
    return [table(f"{folder}/{part}.csv", header=None) for part in ("train", test)]


def sample(rows: pd.DataFrame, most: int, name: str) -> pd.DataFrame:
    """Return at most so many random rows."""
    order = list(range(len(rows)))
    random.Random(name).shuffle(order)
    return rows.iloc[order[:most]]


def task(data: Path, folder: Path, name: str, size: int) -> CustomTask:
    """Return a data set of `size` labeled rows, whose test rows are the same for all sizes."""
    paths = folder / f"{name}-{size}.csv", folder / f"{name}-test.csv"
    if not all(path.exists() for path in paths):
        train, test = data_set(data, name)
        test = sample(test, TEST_ROWS, name)
        test.to_csv(paths[1], index=False)
        others = train[~train["text"].isin(test["text"])]
        sample(others, size, name).to_csv(paths[0], index=False)
    return CustomTask(paths[0], "text", "label", test=paths[1])


def without_third(one: CustomTask, seed: int) -> CustomTask:
    """Return the task without a third of each class, and with a fifth of the others to validate."""
    path = Path(str(one.path))
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    rows = rows.groupby("label").sample(frac=2 / 3, random_state=seed)
    validation = rows.groupby("label").sample(frac=1 / 5, random_state=seed)
    train, held = (path.with_stem(f"{path.stem}-{seed}-{part}") for part in ("train", "validation"))
    rows.drop(validation.index).to_csv(train, index=False)
    validation.to_csv(held, index=False)
    return replace(one, path=train, validation=held)


def configurations(space: Space) -> list[dict[str, Any]]:
    """Return the start of a space, with each τ of `TAUS`, then points of a Sobol sequence."""
    from scipy.stats import qmc

    start = dict(space.published[0])
    found = [{**start, "tau": tau} for tau in TAUS.get(space.method, ())] or [start]
    points = qmc.Sobol(len(space.parameters), seed=0).random(POINTS)[: POINTS - len(found)]
    for point in points:
        pairs = zip(space.parameters.items(), point.tolist(), strict=True)
        found.append({name: at(parameter, u) for (name, parameter), u in pairs})
    return found


def at(parameter: Parameter, share: float) -> Any:
    """Return the value at a share of a parameter's range, from 0 to 1."""
    if isinstance(parameter, Choice):
        return parameter.values[int(share * len(parameter.values))]
    if parameter.type == "log":
        return parameter.low * (parameter.high / parameter.low) ** share
    return parameter.low + share * (parameter.high - parameter.low)


def share(parameter: Parameter, value: Any) -> float:
    """Return the place of a value in a parameter's range, from 0 to 1."""
    if isinstance(parameter, Choice):
        return parameter.values.index(value) / max(len(parameter.values) - 1, 1)
    low, high = parameter.low, parameter.high
    logarithmic = parameter.type == "log"
    return float(
        np.log(value / low) / np.log(high / low) if logarithmic else (value - low) / (high - low)
    )


def trained(data: Path, folder: Path, case: str, number: int, fold: int) -> str:
    """Train a seed run and write its probabilities.

    After the folds come the seeds of `REFITS`, which train on all rows, then those of `THIRDS`.
    """
    import torch

    from sclsearch.protocols.base import Rows
    from sclsearch.study.resolve import resolve
    from sclsearch.study.spec import RunOptions, StudySpec
    from sclsearch.training.engine import train

    torch.set_num_threads(1)
    name, size, method = case.split("/")
    whole = task(data, folder, name, int(size))
    third = fold >= FOLDS + REFITS
    spec = StudySpec(
        task=without_third(whole, fold) if third else whole,
        model="minilm",
        method=method,
        space="practical",
    )
    values = configurations(resolve(spec, RunOptions()).space)[number]
    spec = replace(spec, settings=values, searched=False)
    study = resolve(spec, RunOptions())
    splits = study.splits(fold)
    if FOLDS <= fold < FOLDS + REFITS:
        every = np.arange(study.data.splits["train"].labeled)
        splits = replace(splits, train=Rows("train", every), validation=Rows("train", every[:0]))
    tokens = study.tokenized([splits])[study.lengths()[-1]]
    last = train(study.seed_run_spec({}, fold, splits), tokens)
    arrays = {kind: np.log(p.clip(1e-7)) for kind, p in last.probabilities.items()}
    y, test_y = (study.data.splits[split].y for split in ("train", "test"))
    place = folder / case.replace("/", "-") / f"{number}-{fold}.npz"
    place.parent.mkdir(exist_ok=True)
    np.savez(
        place.with_suffix(".part.npz"),
        allow_pickle=False,
        values=np.array(json.dumps(values)),
        labels=y,
        test_labels=test_y[splits.test.index],
        rows=splits.validation.index,
        **{kind: array.astype(np.float16) for kind, array in arrays.items()},
    )
    place.with_suffix(".part.npz").rename(place)
    return f"{case} {number} {fold}: {last.seconds:.1f} s"


def record(data: Path, folder: Path, cases: Sequence[str], workers: int, points: int) -> None:
    """Train the seed runs that the folder lacks, fold by fold."""
    folder.mkdir(exist_ok=True)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = []
        for case in cases:
            task(data, folder, case.split("/")[0], int(case.split("/")[1]))
            runs = [(number, fold) for fold in range(FOLDS) for number in range(points)]
            for number, fold in [*runs, *((0, FOLDS + n) for n in range(REFITS + THIRDS))]:
                if not (folder / case.replace("/", "-") / f"{number}-{fold}.npz").exists():
                    jobs.append(pool.submit(trained, data, folder, case, number, fold))
        for job in as_completed(jobs):
            print(job.result(), flush=True)


def pack(folder: Path) -> None:
    """Write the seed runs of each case as one table: configurations x folds x rows x classes.

    What the folder lacks stays as the table has it.
    """
    TABLES.mkdir(exist_ok=True)
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        path = TABLES / f"{place.name}.npz"
        runs = {tuple(map(int, f.stem.split("-"))): np.load(f) for f in place.glob("*[0-9].npz")}
        numbers = sorted({n for n, _ in runs if all((n, f) in runs for f in range(FOLDS))})
        table = {**np.load(path)} if path.exists() else {}
        last = FOLDS + REFITS
        for kind, seeds in (("refit", range(FOLDS, last)), ("third", range(last, last + THIRDS))):
            if own := [runs[0, seed]["test"] for seed in seeds if (0, seed) in runs]:
                table[kind] = np.array(own)
        if numbers:
            table |= of_folds(runs, numbers)
        if table:
            np.savez_compressed(path, allow_pickle=False, **table)


def of_folds(runs: Mapping[tuple[int, ...], Any], numbers: Sequence[int]) -> dict[str, Any]:
    """Return the folds of some configurations as arrays."""
    first = runs[numbers[0], 0]
    shape = len(numbers), len(first["labels"]), first["test"].shape[1]
    validation = np.full(shape, np.nan, np.float16)
    for position, number in enumerate(numbers):
        for fold in range(FOLDS):
            run = runs[number, fold]
            validation[position, run["rows"]] = run["validation"]
    known = ~np.isnan(validation).any((0, 2))  # a text of two rows is validated once
    return {
        "values": np.array([str(runs[number, 0]["values"]) for number in numbers]),
        "validation": validation[:, known],
        "labels": first["labels"][known],
        "test_labels": first["test_labels"],
        "test": np.array([[runs[n, f]["test"] for f in range(FOLDS)] for n in numbers]),
    }


def main() -> None:
    """Record or pack."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, nargs=2, metavar=("DATA", "FOLDER"))
    parser.add_argument("--pack", type=Path, metavar="FOLDER")
    parser.add_argument("--workers", type=int, default=2, help="seed runs at a time")
    parser.add_argument("--points", type=int, default=8, help="configurations of each case")
    parser.add_argument("cases", nargs="*", metavar="DATA_SET/ROWS/METHOD")
    options = parser.parse_args()
    if options.record:
        data, folder = options.record
        record(data, folder, options.cases, options.workers, options.points)
    if options.pack:
        pack(options.pack)


if __name__ == "__main__":
    main()
