"""Test scores of the start of each practical space, per encoder and small data set.

    python -m benchmarks.starting_points record DATA minilm FOLDER … > log
    python -m benchmarks.starting_points > benchmarks/starting_points.md

The first command trains a grid around the start for each encoder, on one thread, and adds each
seed run to `starting_points.csv`; run it again to go on. DATA has `glue/SST-2`, `dbpedia_14` and
`fewclue/eprstmt`. The second command makes the page from that file.
"""

import argparse
import csv
import json
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

from benchmarks.machine import markdown
from sclsearch.encoders.models import encoder_traits, model_folder
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.study import Study
from sclsearch.tasks.custom import CustomTask

RECORDS = Path(__file__).with_suffix(".csv")
TICKETS = Path(__file__).parents[1] / "docs/tutorials/tickets.csv"
METHODS = ("ce", "scl", "lacon", "supcl-seq")
FACTORS = (1.0, 0.5, 2.0, 0.25, 4.0)
"""Learning rates of the grid, as multiples of the start; the start comes first."""
HEADS: Mapping[str, tuple[str, Sequence[float]]] = {
    "ce": ("head_lr_mult", (10.0, 1.0)),
    "scl": ("head_lr_mult", (10.0, 1.0)),
    "lacon": ("label_lr_mult", (1.0, 10.0)),
    "supcl-seq": ("tau", (0.05, 0.3)),
}
"""The other hyperparameter of the grid and its values, that of the start first."""
LENGTHS = (0.5, 2.0)
"""Further training lengths of the start, as multiples of its epochs."""
FEW = ("tickets", "sst2 25", "eprstmt 40")
"""Data sets of few rows, where the length is the 100 updates of the practical space."""
SEEDS = 2
SIZES: Mapping[str, tuple[str, int]] = {
    "sst2 25": ("sst2", 25),
    "sst2 125": ("sst2", 125),
    "dbpedia 125": ("dbpedia", 125),
    "eprstmt 40": ("eprstmt", 40),
}
TEST_ROWS = 300
WORDS, CHARACTERS = 12, 24
"""Texts of DBpedia are cut to so many words and those of eprstmt to so many characters."""
LOGISTIC = "logistic regression"
KEY = ["encoder", "method", "data"]
POINT = ["factor", "other", "length", "seed"]
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


def texts(data: Path) -> Iterator[tuple[str, list[tuple[str, str]], list[tuple[str, str]]]]:
    """Yield name, training rows and test rows of each data set, shuffled."""

    def lines(path: str) -> list[str]:
        return [line for line in (data / path).read_text(encoding="utf-8").split("\n") if line]

    def table(path: str) -> list[tuple[str, str]]:
        with (data / path).open(encoding="utf-8", newline="") as file:
            return [(" ".join(row[2].split()[:WORDS]), row[0]) for row in csv.reader(file)]

    def tsv(path: str) -> list[tuple[str, str]]:
        rows = (line.rsplit("\t", 1) for line in lines(path)[1:])
        return [(text, label) for text, label in rows]

    def objects(path: str) -> list[tuple[str, str]]:
        rows = map(json.loads, lines(path))
        return [(row["sentence"][:CHARACTERS], row["label"]) for row in rows]

    yield "sst2", tsv("glue/SST-2/train.tsv"), tsv("glue/SST-2/dev.tsv")
    yield "dbpedia", table("dbpedia_14/train.csv"), table("dbpedia_14/dev.csv")
    few = "fewclue/eprstmt/{}.json"
    yield "eprstmt", objects(few.format("train_few_all")), objects(few.format("test_public"))


def tasks(data: Path, folder: Path) -> dict[str, CustomTask]:
    """Write each data set as a user's own files; return the tasks by name."""
    found = {"tickets": CustomTask(TICKETS, "text", "team")}
    for name, train, test in texts(data):
        draw = random.Random(name)
        for rows in (train, test):
            draw.shuffle(rows)
        for title, (source, size) in SIZES.items():
            if source == name:
                paths = [folder / f"{title.replace(' ', '-')}{part}.csv" for part in ("", "-test")]
                for path, rows in zip(paths, (train[:size], test[:TEST_ROWS]), strict=True):
                    pd.DataFrame(rows, columns=["text", "label"]).to_csv(path, index=False)
                found[title] = CustomTask(paths[0], "text", "label", test=paths[1])
    return found


def seed_run(study: Study, seed: int) -> dict[str, Any]:
    """Train one seed; return its scores, the kept update and the seconds."""
    from sclsearch.tasks.metrics import value
    from sclsearch.training.engine import train

    splits = study.splits(seed)
    spec = study.seed_run_spec({}, seed, splits)
    tokens = study.tokenized([splits])[spec.training.max_length]
    began = time.perf_counter()
    result = train(spec, tokens)
    kept: Any = result.evaluations[result.kept]
    last: Any = result.evaluations[-1]
    return {
        "validation": value("accuracy", kept["validation"]),
        "validation_loss": kept["validation"]["log_loss"],
        "test": value("accuracy", result.test),
        "test_loss": result.test["log_loss"],
        "kept": kept["update"],
        "updates": last["update"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def frozen(study: Study, seed: int) -> dict[str, Any]:
    """Return the scores of logistic regression on the frozen encoder."""
    from sclsearch.encoders.load import load_encoder
    from sclsearch.tasks.metrics import value
    from sclsearch.training.evaluation import LOGISTIC as NAME
    from sclsearch.training.evaluation import baselines

    splits = study.splits(seed)
    tokens = study.tokenized([splits])[study.lengths()[-1]]
    encoder = load_encoder(study.model, study.model_name)
    found = baselines(study.data, tokens, {seed: splits}, encoder)[seed][NAME]
    return {split: value("accuracy", evaluation) for split, evaluation in found.items()}


def record(
    data: Path, models: Sequence[str], factors: int, seeds: int, workers: int, gpu: bool
) -> None:
    """Add the seed runs of a grid to the file, the start of each space first."""
    done = set()
    if RECORDS.exists():
        stored = pd.read_csv(RECORDS)
        columns = [*KEY, *POINT]
        done = {tuple(map(str, row)) for row in stored[columns].itertuples(index=False)}
    every = [(LOGISTIC, 1.0, 0.0, 1.0)]
    points = product(range(2), FACTORS[:factors])
    every += [(m, f, HEADS[m][1][n], 1.0) for n, f in points for m in METHODS]
    every += [(m, 1.0, HEADS[m][1][0], length) for length in LENGTHS for m in METHODS]
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(workers, get_context("spawn")) as pool,
    ):
        named = tasks(data, Path(folder))
        waiting = []
        for (method, factor, other, length), model, name in product(every, models, named):
            if length != 1 and name not in FEW:
                continue
            for seed in range(seeds):
                key = (Path(model).name, method, name, factor, other, length, seed)
                if tuple(map(str, key)) not in done:
                    waiting.append(pool.submit(trained, named[name], model, key, gpu))
        for job in as_completed(waiting):
            _add(job.result())
            print(job.result(), flush=True)


def trained(task: CustomTask, model: str, key: tuple[Any, ...], gpu: bool) -> dict[str, Any]:
    """Return the row of a seed run, trained on one thread."""
    import torch

    torch.set_num_threads(1)
    _, method, _, factor, other, length, seed = key
    study = _study(task, model, method, factor, other, length, RunOptions(gpus_per_trial=int(gpu)))
    scores = frozen(study, seed) if method == LOGISTIC else seed_run(study, seed)
    return dict(zip([*KEY, *POINT], key, strict=True)) | {"numerics": study.numerics} | scores


def _study(
    task: CustomTask,
    model: str,
    method: str,
    factor: float,
    other: float,
    length: float,
    options: RunOptions,
) -> Study:
    settings: dict[str, float] = {}
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
    study = resolve(spec, options)
    if length == 1:
        return study
    epochs = round(length * int(str(study.defaults["epochs"].value)))
    spec = replace(spec, settings={**settings, "epochs": epochs})
    return resolve(spec, options)


def _add(row: Mapping[str, Any]) -> None:
    new = not RECORDS.exists()
    columns = [*KEY, *POINT, "numerics", "validation", "validation_loss", "test"]
    columns += ["test_loss", "kept", "updates", "seconds"]
    with RECORDS.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def regrets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return start, picked, best and frozen accuracy of each encoder, method and data set."""
    grid = frame[(frame["method"] != LOGISTIC) & (frame["length"] == 1)]
    means = grid.groupby([*KEY, "factor", "other"]).agg(
        test=("test", "mean"),
        validation=("validation", "mean"),
        loss=("validation_loss", "mean"),
        seeds=("seed", "count"),
    )
    baseline = frame[frame["method"] == LOGISTIC].groupby(["encoder", "data"])["test"].mean()
    rows = []
    for key, points in means.reset_index().groupby(KEY):
        encoder, method, data = map(str, key)
        start = points[(points["factor"] == 1) & (points["other"] == HEADS[method][1][0])]
        picked = points.sort_values(["validation", "loss"], ascending=[False, True]).iloc[0]
        rows.append(
            {
                **dict(zip(KEY, (encoder, method, data), strict=True)),
                "start": start["test"].iloc[0],
                "picked": picked["test"],
                "best": points["test"].max(),
                "frozen": baseline[encoder, data],
                "configurations": len(points),
                "seeds": int(points["seeds"].min()),
            }
        )
    return pd.DataFrame(rows)


def lengths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mean test accuracy of the start with each training length, where all have one."""
    rates = frame[(frame["method"] != LOGISTIC) & (frame["factor"] == 1)]
    start = rates[[HEADS[row["method"]][1][0] == row["other"] for _, row in rates.iterrows()]]
    every = start.pivot_table(index=KEY, columns="length", values="test")
    every = every.reindex(columns=sorted([1.0, *LENGTHS])).dropna()
    grouped = every.groupby(["encoder", "method"])
    return grouped.mean()[grouped.size() == len(FEW)]


def page(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the page."""
    found = regrets(frame)
    names = ("start", "picked", "best", "frozen")
    yield INTRODUCTION
    yield "## Mean over the data sets, in points below the best\n"
    columns = ("encoder", "method", "data sets", "start", "picked", "frozen")
    below = {name: found["best"] - found[name] for name in columns[3:]}
    grouped = found.assign(**below).groupby(["encoder", "method"])
    rows = [
        [str(key[0]), f"`{key[1]}`", str(len(one)), *(_percent(one[n].mean()) for n in below)]
        for key, one in grouped
    ]
    yield from markdown(columns, rows)
    trained = lengths(frame).reset_index()
    if len(trained):
        yield "\n## Length of training\n"
        yield f"Mean test accuracy of the start on {', '.join(FEW)}, by number of updates.\n"
        yield from markdown(
            ("encoder", "method", "50", "100", "200"),
            (
                (row["encoder"], f"`{row['method']}`", *(_percent(row[n]) for n in (0.5, 1.0, 2.0)))
                for _, row in trained.iterrows()
            ),
        )
    yield "\n## Accuracy\n"
    yield from markdown(
        ("encoder", "method", "data", "recorded", *names),
        (
            (
                *(row["encoder"], f"`{row['method']}`", row["data"]),
                *(f"{row['configurations']} x {row['seeds']}", *(_percent(row[n]) for n in names)),
            )
            for _, row in found.iterrows()
        ),
    )


def _percent(share: Any) -> str:
    return f"{100 * share:.1f}"


def main() -> None:
    """Record seed runs, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command")
    recording = commands.add_parser("record", help="train the grids")
    recording.add_argument("data", type=Path)
    recording.add_argument("models", nargs="+", help="encoders: minilm or folders")
    recording.add_argument("--factors", type=int, default=len(FACTORS), help="learning rates")
    recording.add_argument("--seeds", type=int, default=SEEDS)
    recording.add_argument("--workers", type=int, default=1, help="seed runs at a time")
    recording.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    if options.command == "record":
        given = (options.factors, options.seeds, options.workers, options.gpu)
        record(options.data, options.models, *given)
    else:
        print("\n".join(page(pd.read_csv(RECORDS))))


if __name__ == "__main__":
    main()
