"""Contrastive methods against cross-entropy, with equal tuning: benchmarks/comparison.md.

    SCLSEARCH_DATA=DATA python -m benchmarks.comparison --train STORAGE minilm bert-4x256
    python -m benchmarks.comparison

The first command tunes each side, trains its winner with new seeds, and adds its line to
`comparison.jsonl`. It skips recorded sides, so it resumes on any machine; `--only sst2/20` or
`--only sst2/20/scl` trains a part. Encoders are folders, aliases or names on the hub. The second
command makes the tables in comparison.md, README.md and choosing.md, where these have a place for
them, such as `<!-- differences -->` and `<!-- end -->`. `rivals.py` records the rivals.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import product
from math import comb
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

import sclsearch
from benchmarks.machine import markdown, percent
from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.selection.significance import ALPHA, Comparison, Ends, compare

RECORDS = Path(__file__).with_suffix(".jsonl")
PAGES = ("benchmarks/comparison.md", "README.md", "docs/explanation/choosing.md")
BASE, METHODS = "ce", ("scl", "lacon", "supcl-seq")
SIDES = (BASE, "scl", "supcl-seq", "lacon")
"""In the order of training."""
LOGISTIC, SETFIT = "logistic regression", "SetFit"
ALL = (LOGISTIC, SETFIT, BASE, *METHODS)
LENGTH = 32  # tokens at which texts are cut
CONDITIONS = tuple(product(("sst2", "dbpedia", "amazon2"), (20, 100)))
ENCODERS = ("minilm", "bert-4x256")  # those of the tables; a further one widens all intervals
CASES = [(name, *pair) for name, pair in product(ENCODERS, CONDITIONS)]
PLANNED = len(METHODS) * len(CASES)
PAIRS = comb(len(ALL), 2) * len(CASES)
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # learning rates, by the start of the practical space
SEEDS, FRESH = 5, 30  # of each configuration of a search, and new ones of its winner
SAME = ("data", "digest", "engine", "device", "precision")
"""Fields that are equal in both records of a difference."""
RESAMPLES, EDGE = 4_000, "†"
Correct = npt.NDArray[np.bool_]
Record = dict[str, Any]
Key = tuple[str, str, int, str]  # encoder, task, examples and method
Records = Mapping[Key, Record]


def packed(correct: Correct) -> str:
    """Return which rows are right, `[seeds, rows]`, as text."""
    bits = zlib.compress(np.packbits(correct).tobytes(), 9)
    return f"{len(correct)}x{correct.shape[1]} {base64.b85encode(bits).decode()}"


def unpacked(text: str) -> Correct:
    """Return the rows of `packed`."""
    shape, _, bits = text.partition(" ")
    seeds, rows = map(int, shape.split("x"))
    found = np.frombuffer(zlib.decompress(base64.b85decode(bits)), np.uint8)
    return np.unpackbits(found, count=seeds * rows).reshape(seeds, rows).astype(bool)


def read() -> dict[Key, Record]:
    """Return the records."""
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    found = map(json.loads, lines)
    return {(one["encoder"], one["task"], one["examples"], one["method"]): one for one in found}


def write(key: Key, record: Record) -> None:
    """Store a record in the place of an earlier one of the same key."""
    named = dict(zip(("encoder", "task", "examples", "method"), key, strict=True))
    text = "".join(f"{json.dumps(one)}\n" for one in {**read(), key: named | record}.values())
    RECORDS.with_suffix(".new").write_text(text, encoding="utf-8")
    RECORDS.with_suffix(".new").replace(RECORDS)


def fields_of(encoder: str, task: str, examples: int) -> Record:
    """Return what all studies of a condition share; all of SST-2's validation file is its test."""
    folder = Path(os.environ["SCLSEARCH_DATA"]) / "SST-2"
    own = sclsearch.CustomTask(folder / "train.tsv", "sentence", "label", test=folder / "dev.tsv")
    fields = {"train_size": examples, "model": encoder, "protocol": "gunel-fewshot"}
    return {"task": own if task == "sst2" else task, **fields}


def space_of(encoder: str, method: str) -> Record:
    """Return learning rates around the start of the method's practical space, the rest fixed."""
    from sclsearch.encoders.models import encoder_traits, model_folder

    file = Path(__file__).parents[1] / "search_spaces" / method / "practical.yaml"
    space = yaml.safe_load(file.read_text(encoding="utf-8"))
    start = encoder_traits(model_folder(encoder)).learning_rate
    rates = [float(f"{start * factor:.1e}") for factor in FACTORS]
    fixed = {**space.get("fixed", {}), **space["published"][0], "max_length": LENGTH}
    if method == "scl":
        fixed["rows_per_class"] = 1  # as recorded; the practical space now balances many classes
    searched = {"learning_rate": {"type": "choice", "values": rates}}
    return {"method": method, "source": "equal tuning", "fixed": fixed, "space": searched}


def train(storage: Path, encoder: str, key: Key, at_once: int) -> Record:
    """Tune a side, train its winner with new seeds, and return its record."""
    import torch

    name, task, examples, method = key
    study, space = f"{method}-{task}-{examples}-{name}", space_of(encoder, method)
    file, rates = storage / "spaces" / f"{study}.yaml", space["space"]["learning_rate"]["values"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(space), encoding="utf-8")
    gpus = 1 / at_once if torch.cuda.is_available() else 0
    run: Record = {"storage": str(storage), "concurrency": at_once, "gpus_per_trial": gpus}
    run["tracking"] = "none"
    search: Record = {"sampler": "grid", "configs": len(rates), "seeds": SEEDS, "rule": "mean"}
    search |= {"race": "off", "test_scores": "winner", "study": study, "space": file}
    fields = fields_of(encoder, task, examples)
    chosen = sclsearch.tune(method=method, progress=False, **fields, **search, **run)
    fresh = sclsearch.confirm(study, FRESH, progress=False, **run)
    winner, runs, shared = chosen.winner, fresh.seed_runs, fresh.record.training
    if winner is None or any(seed.test is None for seed in runs):
        raise SclsearchError(f"{fresh.study}: a seed run failed. `sclsearch show` has the reason.")
    rows = fresh.predictions().query("split == 'test'").sort_values(["replicate", "row"])
    correct = (rows["label"] == rows["predicted"]).to_numpy().reshape(len(runs), -1)
    rate, (device, precision) = winner.values["learning_rate"], shared["numerics"].split("-")
    if device == "cuda":
        device = torch.cuda.get_device_name()
    return {
        **{"learning_rate": rate, "edge": rate in (rates[0], rates[-1])},
        **{"searched": len(chosen.seed_runs), "validation": winner.score},
        **{"accuracy": correct.mean(), "seconds": round(fresh.seconds / len(runs), 1)},
        **{"data": digest_of(fresh.rows), "digest": shared["weights"][:12]},
        **{"engine": shared["engine"], "device": device, "precision": precision},
        "versions": {one: version(one) for one in ("torch", "transformers", "ray")},
        "correct": packed(correct),
    }


def digest_of(rows: Iterable[Mapping[str, str]]) -> str:
    """Return the SHA-256 of the training and test rows of all seeds, 12 characters."""
    text = "".join(one["train"] + one["test"] for one in rows)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def train_missing(storage: Path, encoders: Iterable[str], only: list[str], at_once: int) -> None:
    """Record the sides that are not recorded with this engine."""
    import torch

    from sclsearch.training.spec import ENGINE_VERSION, GPU_ENGINE_VERSION

    engine = GPU_ENGINE_VERSION if torch.cuda.is_available() else ENGINE_VERSION
    for encoder, (task, examples), method in product(encoders, CONDITIONS, SIDES):
        side, key = f"{task}/{examples}/{method}/", (Path(encoder).name, task, examples, method)
        chosen = not only or any(side.startswith(f"{one}/") for one in only)
        if chosen and read().get(key, {}).get("engine") != engine:
            print(encoder, side, flush=True)
            write(key, train(storage, encoder, key, at_once))


@dataclass(frozen=True, slots=True)
class Difference:
    """Accuracy of a method minus that of `ce`."""

    own: Record
    base: Record
    comparison: Comparison  # its interval holds together with those of all other differences

    @property
    def interval(self) -> Ends:
        return self.comparison.interval or (self.comparison.difference,) * 2

    @property
    def sign(self) -> int:
        """Return 1 or -1 if the interval is above or below zero, else 0."""
        return int(self.interval[0] > 0) - int(self.interval[1] < 0)


@cache
def paired(a: str, b: str, alpha: float) -> Comparison:
    """Return the sign-flip test of the seeds' accuracies, of which `packed` has the rows."""
    scores = (unpacked(one).mean(axis=1).tolist() for one in (a, b))
    return compare(*scores, largest=1.0, alpha=alpha)


def resampled(a: Correct, b: Correct, alpha: float) -> Ends:
    """Return the interval of the mean difference over seeds and test rows, by bootstrap errors."""
    draw, difference = stream(0, "seeds and rows"), a.astype(float) - b
    seeds, rows = (draw.multinomial(n, np.full(n, 1 / n), RESAMPLES) / n for n in a.shape)
    means = ((seeds @ difference) * rows).sum(axis=1)
    half = NormalDist().inv_cdf(1 - alpha / 2) * float(means.std())
    return difference.mean() - half, difference.mean() + half


def measured(records: Records) -> dict[Key, Difference]:
    """Return the differences whose sides have the same rows, device and engine."""
    found = {}
    for place, method in product(CASES, METHODS):
        own, base = records.get((*place, method)), records.get((*place, BASE))
        if own and base and all(own[name] == base[name] for name in SAME):
            test = paired(own["correct"], base["correct"], ALPHA / PLANNED)
            found[(*place, method)] = Difference(own, base, test)
    return found


def shown(interval: Iterable[float]) -> str:
    """Return an interval in points."""
    return " … ".join(f"{100 * end:+.1f}" for end in interval)


def table(records: Records, cell: Callable[[Difference], str]) -> str:
    """Return a table with a cell for each difference; a cell is empty if it was not measured."""
    found, rows = measured(records), []
    for place in dict.fromkeys(key[:3] for key in found):
        cells = [cell(found[key]) if (key := (*place, m)) in found else "" for m in METHODS]
        rows.append([place[0], f"{place[1]}, {place[2]}", *cells])
    return "\n".join(markdown(("encoder", "examples", *(f"`{m}`" for m in METHODS)), rows))


def differences(records: Records) -> str:
    """Return the differences in points with simultaneous intervals, bold without zero."""

    def cell(one: Difference) -> str:
        bold = "**" * abs(one.sign)
        edge = EDGE if one.own["edge"] or one.base["edge"] else ""
        return f"{bold}{shown((one.comparison.difference,))}{bold}{edge} ({shown(one.interval)})"

    return table(records, cell)


def details(records: Records) -> str:
    """Return p, intervals over seeds and rows, and the learning rates of both sides."""

    def rate(one: Record) -> str:
        return f"{one['learning_rate']:.1e}{EDGE if one['edge'] else ''}"

    def cell(one: Difference) -> str:
        p = "< 0.001" if one.comparison.p < 0.001 else f"{one.comparison.p:.3f}"
        pair = unpacked(one.own["correct"]), unpacked(one.base["correct"])
        rows = shown(resampled(*pair, ALPHA / PLANNED))
        return f"{p}; {rows}; {rate(one.own)}, {rate(one.base)}"

    return table(records, cell)


def highest(found: Mapping[str, Record]) -> tuple[str, list[str]]:
    """Return the method of the highest accuracy, and those that are not reliably below it."""
    best = max(found, key=lambda name: found[name]["accuracy"])
    correct = found[best]["correct"]
    tests = {name: paired(correct, one["correct"], ALPHA) for name, one in found.items()}
    return best, [n for n, test in tests.items() if n != best and test.p > ALPHA / PAIRS]


def scores(records: Records) -> str:
    """Return accuracy in percent and seconds per model; the highest is bold."""
    rows = []
    for place in CASES:
        found = {name: one for name in ALL if (one := records.get((*place, name)))}
        if BASE not in found:
            continue
        best, equal = highest(found)
        cells = dict.fromkeys(ALL, "")
        for name, one in found.items():
            bold, edge, seconds = "**" * (name == best), EDGE * one["edge"], one["seconds"]
            cells[name] = f"{bold}{percent(one['accuracy'])}{bold}{edge} ({seconds:.2g} s)"
        rows.append(
            [place[0], f"{place[1]}, {place[2]}", *cells.values(), ", ".join(equal) or "none"]
        )
    columns = ("encoder", "examples", *ALL, "not reliably below the highest")
    return "\n".join(markdown(columns, rows))


def sentences(records: Records) -> str:
    """Return what differences and rivals say."""
    found = measured(records)
    signs = [one.sign for one in found.values()]
    gains = {key[:3] for key, one in found.items() if one.sign == 1}
    text = (
        f"{len(signs)} comparisons with `{BASE}` in {len({key[:3] for key in found})} cases: "
        f"{signs.count(1)} with a gain, in {len(gains)} cases; {signs.count(-1)} with a loss; "
        f"{signs.count(0)} inconclusive. {PLANNED - len(signs)} more were planned and not measured."
    )
    wide = [one.interval[1] - one.interval[0] for one in found.values() if one.sign == 0]
    if wide:
        half = f"±{50 * median(wide):.1f} points"
        text += f"\nThe median inconclusive interval is {half}: smaller differences stay hidden."
    full = [place for place in CASES if all((*place, name) in records for name in ALL)]
    best = [highest({name: records[(*place, name)] for name in ALL}) for place in full]
    parts = []
    for name, count in Counter(name for name, _ in best).most_common():
        sure = sum(one == name and not equal for one, equal in best)
        where = f"reliably above all others in {sure}" if sure else "within noise of others"
        parts.append(f"{name} in {count}, {where}")
    won = f" The highest score of {len(full)} cases: {'; '.join(parts)}." if full else ""
    return text + won


def filled(text: str, records: Records) -> str:
    """Return a page with its tables made from the records."""
    for make in (sentences, differences, details, scores):
        between = rf"(<!-- {make.__name__} -->\n).*?(<!-- end -->)"
        made = f"\n{make(records) if records else 'Nothing is recorded yet.'}\n\n"
        text = re.sub(between, rf"\g<1>{made}\g<2>", text, flags=re.DOTALL)
    return text


def main() -> None:
    """Train sides, or make the tables of the pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", nargs="+", metavar=("STORAGE", "ENCODER"))
    parser.add_argument("--only", nargs="+", default=[], metavar="TASK/EXAMPLES/METHOD")
    parser.add_argument("--at-once", type=int, default=2, help="seed runs at a time")
    given = parser.parse_args()
    if given.train:
        storage, *names = given.train
        train_missing(Path(storage), names, given.only, given.at_once)
        return
    for page in map(Path, PAGES):
        text = filled(page.read_text(encoding="utf-8"), read())
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
