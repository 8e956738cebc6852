"""Eight and sixteen texts per class: methods at their starts, logistic regression and SetFit.

    python -m benchmarks.few --record DATA FOLDER
    python -m benchmarks.few > benchmarks/few.md

The first command adds the missing lines of `few.jsonl`, on one thread, and resumes; FOLDER gets the
rows as CSV files. DATA is that of search_tables.py. `pip install --no-deps setfit==1.2.0 evaluate
accelerate` installs SetFit beside sclsearch.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.comparison import packed
from benchmarks.machine import header, markdown
from benchmarks.search import pairs
from benchmarks.search_tables import TEST_ROWS, WORDS, configurations, data_set, sample

RECORDS = Path(__file__).with_suffix(".jsonl")
DRAWS = 4
CELLS = [
    *product(("sst2", "trec", "dbpedia", "customer_reviews", "banking77-10"), (8, 16)),
    ("banking77", 8),
]
TF_IDF, FROZEN, SETFIT = "TF-IDF", "frozen encoder", "SetFit library"
METHODS = (TF_IDF, FROZEN, "ce", "scl", "setfit", "lacon", "supcl-seq", SETFIT)
LENGTH = 32  # tokens at which SetFit cuts texts
INTRODUCTION = f"""\
# Eight and sixteen texts per class

MiniLM. Each draw has so many random training texts of each class, cut to {WORDS} words.
Methods of sclsearch train on all of them at the start of their practical space, without validation.
*{TF_IDF}* and *{FROZEN}* are logistic regressions, on words and pairs of words, and on MiniLM's
mean over tokens. *{SETFIT}* is setfit 1.2.0 with 20 iterations, the recipe of Tunstall et al.
(2022). The test has up to {TEST_ROWS} other texts. customer_reviews and banking77 decide nothing.
"""
DIFFERENCE = """
Points of test accuracy above it in the same draws. ± is the standard error over draws; in the last
line, over cells.
"""


NAMES = """
Accuracy of `scl` (`rows_per_class=2`) with 2 or 8 labels of each class, without and with a training
row for each class that names it: "This text is about NAME." A seed is a draw of the rows.
"""


def rows_of(data: Path, folder: Path, name: str, shots: int, draw: int) -> tuple[Path, Path]:
    """Return the CSV files of the training and the test rows of a draw, which it writes once."""
    paths = folder / f"{name}-{shots}-{draw}.csv", folder / f"{name}-test.csv"
    if not all(path.exists() for path in paths):
        train, test = data_set(data, name)
        test = sample(test, TEST_ROWS, name)
        others = train[~train["text"].isin(test["text"])]
        drawn = others.groupby("label").sample(shots, random_state=draw)
        drawn.sample(frac=1, random_state=draw).to_csv(paths[0], index=False)
        test.to_csv(paths[1], index=False)
    return paths


def predicted(paths: tuple[Path, Path], method: str, draw: int) -> Sequence[str]:
    """Return the classes that a method predicts for the test rows."""
    train, test = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths)
    if method == TF_IDF:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        model = make_pipeline(words, LogisticRegression(C=10.0, max_iter=1000))
        found: list[str] = model.fit(train["text"], train["label"]).predict(test["text"]).tolist()
        return found
    if method == SETFIT:
        from benchmarks.rivals import contrasted
        from sclsearch.encoders.models import model_folder

        names = sorted({*train["label"]})
        y = train["label"].map(names.index).tolist()
        encoder = str(model_folder("minilm")), LENGTH
        texts = train["text"].tolist(), y, test["text"].tolist()
        return [names[int(one)] for one in contrasted(encoder, *texts, 2e-5, 20, draw)[0]]
    return by_sclsearch(paths, method, draw)


def by_sclsearch(paths: tuple[Path, Path], method: str, draw: int) -> Sequence[str]:
    """Train on all rows; or return the predictions of the report's logistic regression."""
    from sclsearch.encoders.load import load_encoder
    from sclsearch.protocols.base import Rows
    from sclsearch.study.resolve import resolve
    from sclsearch.study.spec import RunOptions, StudySpec
    from sclsearch.tasks.custom import CustomTask
    from sclsearch.training.baselines import LOGISTIC, baselines
    from sclsearch.training.engine import train

    frozen = method == FROZEN
    task = CustomTask(paths[0], "text", "label", test=paths[1])
    known = "ce" if frozen else method
    spec = StudySpec(task=task, model="minilm", method=known, space="practical")
    values = configurations(resolve(spec, RunOptions()).space)[0]
    study = resolve(replace(spec, settings=values, searched=False), RunOptions())
    splits = study.splits(draw)
    every = np.arange(study.data.splits["train"].labeled)
    validation = Rows("train", every[: len(every) * frozen])
    splits = replace(splits, train=Rows("train", every), validation=validation)
    tokens = study.tokenized([splits])[study.lengths()[-1]]
    if frozen:
        encoder = load_encoder(study.model, "minilm")
        found = baselines(study.data, tokens, {0: splits}, encoder, "accuracy", gpu=False)
        numbers = found[0][LOGISTIC]["predictions"]["test"]
    else:
        numbers = train(study.seed_run_spec({}, draw, splits), tokens).predictions["test"]
    return [study.data.task.labels[int(number)] for number in numbers]


def read() -> pd.DataFrame:
    """Return the records."""
    return pd.read_json(RECORDS, lines=True) if RECORDS.exists() else pd.DataFrame()


def record(data: Path, folder: Path) -> None:
    """Train what the records lack, draw by draw."""
    import torch

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["data", "shots", "draw", "method"]
    done = {*read().reindex(columns=columns).itertuples(index=False, name=None)}
    for draw, method, (name, shots) in product(range(DRAWS), METHODS, CELLS):
        if (name, shots, draw, method) in done:
            continue
        paths, began = rows_of(data, folder, name, shots, draw), time.perf_counter()
        found = predicted(paths, method, draw)
        seconds = time.perf_counter() - began
        right = pd.read_csv(paths[1], dtype=str)["label"].to_numpy() == np.array(found)
        line = dict(zip(columns, (name, shots, draw, method), strict=True))
        line |= {"accuracy": right.mean(), "seconds": round(seconds, 1)}
        with RECORDS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | {"correct": packed(right[None])}) + "\n")
        print(*line.values(), flush=True)


def lines(table: pd.DataFrame, draws: "pd.Series[int]") -> Iterator[str]:
    """Yield a table of texts by cell and method."""
    table = table.replace({"nan": "–", "+nan": "–"})
    rows = (
        (str(data), str(shots), str(draws[data, shots]), *row)
        for (data, shots), row in zip(table.index, table.to_numpy(), strict=True)
    )
    yield from markdown(("data", "per class", "draws", *table.columns), rows)


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    place = ["data", "shots"]
    table = read().pivot_table("accuracy", [*place, "draw"], "method").reindex(columns=METHODS)
    scores = 100 * table.dropna(axis=1, how="all")
    base = SETFIT if scores[SETFIT].notna().all() else "ce"
    gains = scores.sub(scores[base], axis=0).groupby(place)
    draws, means = gains.size(), gains.mean()
    error = gains.std().div(np.sqrt(draws), axis=0).map(" ± {:.1f}".format)
    error = error.where(draws > 1, "")  # one draw has no error
    yield INTRODUCTION
    yield header("scikit-learn")
    yield "## Accuracy\n"
    yield from lines(scores.groupby(place).mean().map("{:.1f}".format), draws)
    yield "\nTest accuracy, %, the mean over draws.\n"
    yield f"## Above {base}\n"
    yield from lines(means.map("{:+.1f}".format) + error, draws)
    over = (means[name].dropna() for name in means)
    ends = [f"{own.mean():+.1f} ± {own.std() / np.sqrt(len(own)):.1f}" for own in over]
    yield f"| mean | | | {' | '.join(ends)} |"
    yield DIFFERENCE
    yield "## Names of the classes\n"
    yield from pairs("names.csv", "with names", "without")
    yield NAMES


def main() -> None:
    """Record, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, nargs=2, metavar=("DATA", "FOLDER"))
    options = parser.parse_args()
    record(*options.record) if options.record else print("\n".join(page()))


if __name__ == "__main__":
    main()
