"""Test scores of the start of each practical space, per encoder and small data set.

    python -m benchmarks.starting_points --record DATA --models minilm FOLDER …
    python -m benchmarks.starting_points > benchmarks/starting_points.md

The first command trains a grid around the start for each encoder, on one thread or the GPU, and
adds each seed run to `starting_points.csv`; run it again to resume. DATA has `glue/SST-2`,
`dbpedia_14` and `fewclue/eprstmt`. The second command prints the page from that file.
"""

import argparse
import csv
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.machine import markdown, percent
from sclsearch.encoders.models import encoder_traits, model_folder
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask

RECORDS = Path(__file__).with_suffix(".csv")
TICKETS = Path(__file__).parents[1] / "docs/tutorials/tickets.csv"
FACTORS = (1.0, 0.5, 2.0, 0.25, 4.0)
"""Learning rates of the grid, as multiples of the start; the start comes first."""
HEADS: Mapping[str, tuple[str, Sequence[float]]] = {
    "ce": ("head_lr_mult", (10.0, 1.0)),
    "scl": ("head_lr_mult", (10.0, 1.0)),
    "lacon": ("label_lr_mult", (1.0, 10.0)),
    "supcl-seq": ("tau", (0.05, 0.3)),
}
"""The other hyperparameter of each method's grid and its values, that of the start first."""
LENGTHS = (0.5, 2.0)
"""Further training lengths of the start, as multiples of its epochs."""
FEW = ("tickets", "sst2 25", "eprstmt 40")
"""Data sets of few rows, where the length is the 100 updates of the practical space."""
SEEDS = 2
TEST_ROWS = 300
WORDS, CHARACTERS = 12, 24
"""Texts of DBpedia are cut to so many words and those of eprstmt to so many characters."""
LOGISTIC = "logistic regression"
KEY = ["encoder", "method", "data"]
POINT = ["factor", "other", "length", "seed"]
SCORES = ["validation", "validation_loss", "test", "test_loss", "kept", "updates", "seconds"]
INTRODUCTION = f"""\
# Starting points of the practical spaces

Test accuracy in percent, the mean of the seeds in the column *recorded* (configurations x seeds). A
fifth of the training rows is for validation, drawn anew by each seed; the test rows are {TEST_ROWS}
others, of the tickets 40. `sst2 25` has 25 rows. Texts of DBpedia are cut to {WORDS} words, and
those of eprstmt to {CHARACTERS} characters. With two seeds, a difference of three points is within
the noise. MiniLM and mpnet are sentence encoders; `tiny` is a BERT of 3 layers and width 192, which
`tiny_bert.py` pretrains on the texts at hand. Recorded on one NVIDIA H200, in bfloat16.

- **start**: the first configuration of the practical space.
- **picked**: the configuration that validation picks from the recorded ones of a grid: learning
  rates of 1, 1/2, 2, 1/4 and 4 times the start, then the same with another value of one more
  hyperparameter.
- **best**: the configuration of the grid with the best test accuracy. It is chosen by test rows, so
  it is optimistic, and the differences from it are pessimistic.
- **frozen**: logistic regression on the frozen encoder.
"""


def texts(data: Path) -> Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Return the texts and labels of the training and the test rows of each data set."""

    def tsv(name: str) -> pd.DataFrame:
        path = data / "glue/SST-2" / name
        frame = pd.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)
        return frame.set_axis(["text", "label"], axis=1)

    def table(name: str) -> pd.DataFrame:
        path, names = data / "dbpedia_14" / name, ["label", "title", "text"]
        frame = pd.read_csv(path, names=names, dtype=str, keep_default_na=False)
        return frame.assign(text=frame["text"].str.split().str[:WORDS].str.join(" "))

    def objects(name: str) -> pd.DataFrame:
        frame = pd.read_json(data / "fewclue/eprstmt" / name, lines=True)
        return frame.assign(text=frame["sentence"].str[:CHARACTERS])

    return {
        "sst2": (tsv("train.tsv"), tsv("dev.tsv")),
        "dbpedia": (table("train.csv"), table("dev.csv")),
        "eprstmt": (objects("train_few_all.json"), objects("test_public.json")),
    }


def tasks(data: Path, folder: Path) -> dict[str, CustomTask]:
    """Return the tasks by name."""
    found = {"tickets": CustomTask(TICKETS, "text", "team")}
    for source, parts in texts(data).items():
        draw = random.Random(source)
        orders = [list(range(len(rows))) for rows in parts]
        for order in orders:
            draw.shuffle(order)
        for size in {"sst2": (25, 125), "dbpedia": (125,), "eprstmt": (40,)}[source]:
            paths = [folder / f"{source}-{size}{part}.csv" for part in ("", "-test")]
            for place, most in enumerate((size, TEST_ROWS)):
                rows = parts[place].iloc[orders[place][:most]]
                rows[["text", "label"]].to_csv(paths[place], index=False)
            found[f"{source} {size}"] = CustomTask(paths[0], "text", "label", test=paths[1])
    return found


def grid() -> Iterator[tuple[str, float, float, float]]:
    """Yield method, factor, other hyperparameter and length, the start of each space first."""
    yield LOGISTIC, 1.0, 0.0, 1.0
    for number, factor, method in product(range(2), FACTORS, HEADS):
        yield method, factor, HEADS[method][1][number], 1.0
    for length, method in product(LENGTHS, HEADS):
        yield method, 1.0, HEADS[method][1][0], length


def record(data: Path, models: Sequence[str], workers: int) -> None:
    """Add the seed runs of the grid that the file lacks."""
    done = set()
    if RECORDS.exists():
        stored = pd.read_csv(RECORDS)[[*KEY, *POINT]]
        done = {tuple(map(str, row)) for row in stored.itertuples(index=False)}
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(workers, get_context("spawn")) as pool,
    ):
        jobs = []
        cases = product(grid(), models, tasks(data, Path(folder)).items(), range(SEEDS))
        for (method, *point), model, (name, task), seed in cases:
            key = (Path(model).name, method, name, *point, seed)
            if tuple(map(str, key)) not in done and (point[2] == 1 or name in FEW):
                jobs.append(pool.submit(trained, task, model, key))
        for job in as_completed(jobs):
            row = pd.DataFrame([job.result()], columns=[*KEY, *POINT, "numerics", *SCORES])
            row.to_csv(RECORDS, mode="a", header=not RECORDS.exists(), index=False)
            print(job.result(), flush=True)


def trained(task: CustomTask, model: str, key: tuple[Any, ...]) -> dict[str, Any]:
    """Return the row of a seed run, trained on one thread or the GPU."""
    import torch

    from sclsearch.encoders.load import load_encoder
    from sclsearch.tasks.metrics import value
    from sclsearch.training.baselines import LOGISTIC as NAME
    from sclsearch.training.baselines import baselines
    from sclsearch.training.engine import train

    torch.set_num_threads(1)
    _, method, _, factor, other, length, seed = key
    settings: dict[str, object] = {}
    if method != LOGISTIC:
        start = encoder_traits(model_folder(model)).learning_rate
        settings = {"learning_rate": start * factor, HEADS[method][0]: other}
    spec = StudySpec(
        task=task,
        model=model,
        method="ce" if method == LOGISTIC else method,
        space="practical",
        settings=settings,
        searched=False,
    )
    study = resolve(spec, RunOptions())
    if length != 1:
        epochs = round(length * int(str(study.defaults["epochs"].value)))
        study = resolve(replace(spec, settings={**settings, "epochs": epochs}), RunOptions())
    row = dict(zip([*KEY, *POINT], key, strict=True)) | {"numerics": study.numerics}
    splits = study.splits(seed)
    tokens = study.tokenized([splits])[study.lengths()[-1]]
    if method == LOGISTIC:
        encoder = load_encoder(study.model, study.model_name)
        found = baselines(study.data, tokens, {seed: splits}, encoder, "accuracy")[seed][NAME]
        return row | {split: value("accuracy", evaluation) for split, evaluation in found.items()}
    began = time.perf_counter()
    result = train(study.seed_run_spec({}, seed, splits), tokens)
    kept: Any = result.evaluations[result.kept]
    last: Any = result.evaluations[-1]
    return row | {
        "validation": value("accuracy", kept["validation"]),
        "validation_loss": kept["validation"]["log_loss"],
        "test": value("accuracy", result.test),
        "test_loss": result.test["log_loss"],
        "kept": kept["update"],
        "updates": last["update"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def of_start(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the learning rate and the other hyperparameter of the start."""
    other = frame["method"].map({method: values[0] for method, (_, values) in HEADS.items()})
    return frame[(frame["factor"] == 1) & (frame["other"] == other)]


def regrets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return start, picked, best and frozen accuracy of each encoder, method and data set."""
    baseline = frame[frame["method"] == LOGISTIC].groupby(["encoder", "data"])["test"].mean()
    points = frame[(frame["method"] != LOGISTIC) & (frame["length"] == 1)]
    means = points.groupby([*KEY, "factor", "other"], as_index=False).agg(
        test=("test", "mean"),
        validation=("validation", "mean"),
        loss=("validation_loss", "mean"),
        seeds=("seed", "count"),
    )
    ranked = means.sort_values(["validation", "loss"], ascending=[False, True])
    found = {
        "start": of_start(means).set_index(KEY)["test"],
        "picked": ranked.groupby(KEY)["test"].first(),
        "best": means.groupby(KEY)["test"].max(),
        "configurations": means.groupby(KEY).size(),
        "seeds": means.groupby(KEY)["seeds"].min(),
    }
    return pd.DataFrame(found).reset_index().join(baseline.rename("frozen"), on=["encoder", "data"])


def lengths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mean test accuracy of the start with each training length, where all have one."""
    every = of_start(frame).pivot_table(index=KEY, columns="length", values="test").dropna()
    grouped = every.groupby(["encoder", "method"])
    return grouped.mean()[grouped.size() == len(FEW)]


def page(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the page."""
    found = regrets(frame)
    names = ["start", "picked", "best", "frozen"]
    yield INTRODUCTION
    yield "## Mean over the data sets, in points below the best\n"
    below = found.assign(**{name: found["best"] - found[name] for name in names})
    grouped = below.groupby(["encoder", "method"])
    means = grouped[["start", "picked", "frozen"]].mean().assign(size=grouped.size())
    yield from markdown(
        ("encoder", "method", "data sets", "start", "picked", "frozen"),
        (
            (encoder, f"`{method}`", str(size), *map(percent, points))
            for encoder, method, *points, size in means.reset_index().itertuples(index=False)
        ),
    )
    yield "\n## Length of training\n"
    yield f"Mean test accuracy of the start on {', '.join(FEW)}, by number of updates.\n"
    yield from markdown(
        ("encoder", "method", "50", "100", "200"),
        (
            (encoder, f"`{method}`", *map(percent, scores))
            for encoder, method, *scores in lengths(frame).reset_index().itertuples(index=False)
        ),
    )
    yield "\n## Accuracy\n"
    yield from markdown(
        ("encoder", "method", "data", "recorded", *names),
        (
            (
                *(row["encoder"], f"`{row['method']}`", row["data"]),
                f"{row['configurations']} x {row['seeds']}",
                *map(percent, row[names]),
            )
            for _, row in found.iterrows()
        ),
    )


def main() -> None:
    """Record seed runs, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, metavar="DATA", help="train the grids")
    parser.add_argument("--models", nargs="+", default=["minilm"], help="minilm or folders")
    parser.add_argument("--workers", type=int, default=1, help="seed runs at a time")
    options = parser.parse_args()
    if options.record:
        record(options.record, options.models, options.workers)
    else:
        print("\n".join(page(pd.read_csv(RECORDS))))


if __name__ == "__main__":
    main()
