"""Evidence for and against claims of the papers: benchmarks/evidence.md.

    python -m benchmarks.evidence > benchmarks/evidence.md
    python -m benchmarks.evidence --storage evidence-storage > benchmarks/evidence.md

The first command makes the page from the seed runs in `benchmarks/evidence/`, without Ray.
The second one writes these files from a storage first. `benchmarks/evidence.sh` trains the rows.
"""

import argparse
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.machine import markdown
from sclsearch.canonical import settings
from sclsearch.errors import SclsearchError
from sclsearch.papers.tables import published_tables, select_cells
from sclsearch.reports.comparison import confirmed_score
from sclsearch.reports.comparison_tables import compared, points
from sclsearch.reports.frames import SEED_RUN_COLUMNS
from sclsearch.reports.terminal import duration
from sclsearch.search.simulate import read_table
from sclsearch.selection.rules import mean_std, parse_rule, reported_test
from sclsearch.selection.significance import (
    ALPHA,
    POWER,
    Comparison,
    SearchScores,
    compare,
    detectable,
    holm,
    in_points,
    search_scores,
    with_searches,
)
from sclsearch.spaces.load import load_space
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import study_names
from sclsearch.tasks.metrics import METRICS

if TYPE_CHECKING:
    from sclsearch.reports.report import Report

DEFAULT_STORAGE = Path("evidence-storage")
FOLDER = Path("benchmarks/evidence")
"""Search spaces, and the seed runs of each study."""
SCORES = Path("benchmarks/scores")
"""Validation scores of larger searches, and their spaces."""
NOTES = FOLDER / "notes.json"
"""Notes of the reports on each study's rows."""
MODEL = "minilm"
SEEDS, FRESH = 10, 30
TENS = 10
"""Seeds of the papers' rule: the top 3 of 10."""
EPOCHS = {20: 30, 100: 8, 200: 4, 352: 3}
"""Epochs of fine-tuning by number of examples: 52 to 66 updates of 16 texts, 150 if noisy."""
FEWSHOT, NOISY, IMBALANCED = "gunel-fewshot", "gunel-noisy", "lacon-imbalance:10"
CONDITIONS = {FEWSHOT: "", NOISY: "noisy", IMBALANCED: "1:10"}
"""Label of each protocol's training rows in the tables."""
LOGISTIC = "logistic regression on the frozen encoder"
BASELINES = {
    "majority class": "majority class",
    LOGISTIC: "logistic regression",
    "SetFit": "SetFit",
}
"""Title of each baseline's column."""
NOT_EXPORTED = ("reported", "status")
SHORT = 12
"""Characters of the keys and of the hashes of rows in the files."""
OWN_COLUMNS = frozenset((*SEED_RUN_COLUMNS, "kind", "train_rows", "test_rows"))
NOTE_STARTS = ("test:", "validation:", "scaled:", "paraphrases:", "max_length")
HOLDS, FAILS, INCONCLUSIVE = "holds", "does not hold", "inconclusive"

Frames = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a row: a method on a task.

    Attributes:
        method: The method's name, and that of its space in `benchmarks/evidence/`.
        task: The task's name.
        size: Number of training examples.
        protocol: The protocol's name. `gunel-noisy` adds three paraphrases of each example by EDA;
            `lacon-imbalance:10` takes 32 examples of one class and 320 of the other.
        setting: A field with a value other than that of the space, as `--set` takes it.
    """

    method: str
    task: str
    size: int
    protocol: str = FEWSHOT
    setting: str = ""

    @property
    def name(self) -> str:
        """Return the name of the method with its setting: `lacon heads=1`."""
        return f"{self.method} {self.setting}".rstrip()

    @property
    def condition(self) -> str:
        """Return the task and the label of its training rows: `sst2, noisy`."""
        return f"{self.task}, {CONDITIONS[self.protocol]}".removesuffix(", ")

    def study(self, model: str) -> str:
        """Return the name of the study that searches this side."""
        encoder = "" if model == MODEL else model.rpartition("/")[2]
        parts = (self.name, self.task, str(self.size), CONDITIONS[self.protocol], encoder)
        return "-".join(re.findall(r"[\w.]+", " ".join(parts)))

    def search(self, model: str, storage: Path) -> list[str]:
        """Return the command of the search."""
        noisy = self.protocol == NOISY
        noise = ["--paraphrases", str(self._paraphrases(storage))] if noisy else []
        size = [] if self.protocol == IMBALANCED else ["--train-size", str(self.size)]
        setting = ["--set", self.setting] if self.setting else []
        return [
            *("sclsearch", "tune", "--study", self.study(model), "--method", self.method),
            *("--task", self.task, *size, "--model", model, "--protocol", self.protocol),
            *(*noise, "--space", str(FOLDER / f"{self.method}.yaml")),
            *(*setting, "--epochs", str(EPOCHS[self.size]), "--scale", "laptop"),
            *("--seeds", str(SEEDS)),
            *("--rule", "mean", "--sampler", "grid", "--race", "0.05", "--tracking", "none"),
            *("--storage", str(storage)),
        ]

    def confirmation(self, model: str, storage: Path) -> list[str]:
        """Return the command that trains the winner on fresh seeds."""
        options = ("--tracking", "none", "--storage", str(storage))
        return ["sclsearch", "confirm", self.study(model), "--seeds", str(FRESH), *options]

    def paraphrasing(self, storage: Path) -> list[str]:
        """Return the command that writes the paraphrases; empty without them."""
        if self.protocol != NOISY:
            return []
        return [
            *("sclsearch", "augment", "--backend", "eda", "--protocol", NOISY),
            *("--task", self.task, "--train-size", str(self.size)),
            *("--replicates", str(SEEDS + FRESH), "--out", str(self._paraphrases(storage))),
        ]

    def _paraphrases(self, storage: Path) -> Path:
        return storage / f"{self.task}-{self.size}-noisy.jsonl"


@dataclass(frozen=True, slots=True)
class Row:
    """Claim that the test score of one side is higher than that of the other.

    Attributes:
        paper: The paper that makes the claim for some task.
        better: The side that the claim says is better.
        reference: The other side, with the same task and examples.
        table: Published table with this task and number of examples; empty without one.
        cells: Selectors of the cells of `better` and `reference` in it.
    """

    paper: str
    better: Side
    reference: Side
    table: str = ""
    cells: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """Name on the command line: `scl-ce-sst2-20`."""
        return f"{self.better.method}-{self.reference.study(MODEL)}"

    def studies(self, model: str) -> tuple[str, str]:
        """Return the names of the studies of the reference and of the better side."""
        return self.reference.study(model), self.better.study(model)

    @property
    def published(self) -> float | None:
        """Published difference on the scale of the metric; None without a table."""
        if not self.table:
            return None
        table = published_tables()[self.table]
        cells = [select_cells(table, [selector])[0] for selector in self.cells]
        better, reference = (table.as_metric(cell)[0] for cell in cells)
        return better - reference


PAPERS = {
    "Gunel et al.": "https://arxiv.org/abs/2011.01403",
    "LaCon": "https://arxiv.org/abs/2205.10227",
    "SupCL-Seq": "https://arxiv.org/abs/2109.07424",
    "CMLM": "https://arxiv.org/abs/2106.02327",
}


def _scl(task: str, size: int, protocol: str = FEWSHOT) -> Row:
    scl, ce = (Side(method, task, size, protocol) for method in ("scl", "ce"))
    row = Row("Gunel et al.", scl, ce)
    if task != "sst2" or protocol == NOISY:  # the paper's noisy examples are back-translations
        return row
    cells = (f"N={size},CE + SCL,SST-2", f"N={size},CE,SST-2")
    return replace(row, table="gunel/table-4", cells=cells)


def _row(paper: str, better: str, reference: str, task: str, size: int) -> Row:
    return Row(paper, Side(better, task, size), Side(reference, task, size))


def _setting(paper: str, side: Side, setting: str) -> Row:
    """Return the claim that a side is better than it is with another setting."""
    return Row(paper, side, replace(side, setting=setting))


def _cmlm(better: str, reference: str, task: str) -> Row:
    row = _row("CMLM", better, reference, task, 100)
    if task != "sst2":
        return row
    names = {"ce": "FT", "tapt": "TAPT", "cmlm": "CMLM"}
    cells = (f"N=100,{names[better]},SST-2", f"N=100,{names[reference]},SST-2")
    return replace(row, table="cmlm/table-1", cells=cells)


ROWS = (
    *(_scl(task, n) for task in ("sst2", "dbpedia", "amazon2") for n in (20, 100)),
    *(_row("LaCon", "lacon", "ce", task, 100) for task in ("sst2", "dbpedia", "amazon2")),
    _row("LaCon", "lacon", "scl", "sst2", 100),
    *(_setting("LaCon", Side("lacon", task, 100), "heads=1") for task in ("sst2", "dbpedia")),
    *(_setting("LaCon", Side("lacon", "dbpedia", 100), f"{part}=false") for part in ("icl", "lcl")),
    Row("LaCon", Side("lacon", "sst2", 352, IMBALANCED), Side("ce", "sst2", 352, IMBALANCED)),
    *(
        _row("SupCL-Seq", "supcl-seq", reference, task, size)
        for (task, size), reference in product((("sst2", 100), ("amazon2", 200)), ("ce", "simcse"))
    ),
    _row("SupCL-Seq", "supcl-seq", "dropout-aug", "amazon2", 200),
    _setting(
        "SupCL-Seq",
        Side("supcl-seq", "amazon2", 200, setting="dropouts=[0.0,0.1,0.2,0.3]"),
        "dropouts=[0.0,0.1]",
    ),
    *(
        _cmlm(*sides, task)
        for task in ("sst2", "amazon2")
        for sides in (("tapt", "ce"), ("cmlm", "tapt"), ("cmlm", "ce"))
    ),
    _setting("CMLM", Side("cmlm", "amazon2", 100), "masking=drm"),
    *(_scl(task, n, NOISY) for task in ("sst2", "dbpedia", "amazon2") for n in (20, 100)),
)
"""Rows of the page and of `benchmarks/evidence.sh`, in the order of their training."""


def sides_of(rows: Sequence[Row]) -> list[Side]:
    """Return the sides of rows, each once, in the order of their training."""
    return list(dict.fromkeys(side for row in rows for side in (row.reference, row.better)))


def commands(rows: Sequence[Row], model: str, storage: Path) -> Iterator[list[str]]:
    """Yield the commands that train rows; finished ones train nothing when they run again."""
    for side in sides_of(rows):
        if paraphrasing := side.paraphrasing(storage):
            yield paraphrasing
        yield side.search(model, storage)
        yield side.confirmation(model, storage)


def planned(rows: Sequence[Row], model: str, storage: Path) -> Iterator[list[str]]:
    """Yield the study, missing seed runs of search and confirmation, and hours of each side.

    The confirmation of an unfinished search has all its seeds to train, as long as its seed runs.
    """
    search, fresh, hours = 0, 0, 0.0
    for side in sides_of(rows):
        try:
            own = _planned(side, model, storage)
        except SclsearchError as error:
            yield [side.study(model), "", "", str(error).partition("\n")[0]]
            continue
        search, fresh, hours = search + own[0], fresh + own[1], hours + own[2]
        yield [side.study(model), str(own[0]), str(own[1]), f"{own[2]:.1f}"]
    yield ["all", str(search), str(fresh), f"{hours:.1f}"]


def _planned(side: Side, model: str, storage: Path) -> tuple[int, int, float]:
    search, seconds = _needed(side.search(model, storage))
    if search:
        return search, FRESH, seconds * (1 + FRESH / search) / 3600
    fresh, seconds = _needed(side.confirmation(model, storage))
    return 0, fresh, seconds / 3600


def _needed(command: Sequence[str]) -> tuple[int, float]:
    """Return the likely number of missing seed runs of a command, and their seconds."""
    dry = [*command, "--dry-run", "--json"]
    done = subprocess.run(dry, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SclsearchError(done.stderr.strip())
    plan = json.loads(done.stdout)
    return plan["needed"][1], (plan["time"] or {}).get("seconds") or 0.0


def export(study: str, storage: Path) -> None:
    """Write the seed runs of a study, of its confirmation and of their baselines; its notes too.

    Raises:
        SclsearchError: The search or its confirmation is unfinished.
    """
    import sclsearch

    search = sclsearch.select(study, storage=storage)
    confirmed = confirmed_score(search)
    fresh = None if confirmed is None else sclsearch.select(confirmed.study, storage=storage)
    if fresh is None or not fresh.baselines:
        raise SclsearchError(f"{study}: has no finished confirmation.")
    frames = [exported(search, "search"), exported(fresh, "confirm"), _baselines(fresh)]
    frame = pd.concat(frames, ignore_index=True).convert_dtypes()
    frame.to_csv(FOLDER / f"{study}.csv", index=False, lineterminator="\n")
    notes = stored_notes()
    notes[study] = [note for note in search.notes if note.startswith(NOTE_STARTS)]
    text = json.dumps(notes, indent=1, sort_keys=True, ensure_ascii=False)
    NOTES.write_text(f"{text}\n", encoding="utf-8")


def exported(report: "Report", kind: str) -> pd.DataFrame:
    """Return the seed runs of a study as they are stored in `benchmarks/evidence/`."""
    frame = report.frame()
    names = map(str, frame.columns)
    dropped = [one for one in names if one.startswith(("f1_", "seed_")) or one in NOT_EXPORTED]
    frame = frame.drop(columns=dropped)
    frame.insert(0, "kind", kind)
    frame["key"], frame["seconds"] = frame["key"].str[:SHORT], frame["seconds"].round(1)
    for use in ("train", "test"):
        frame[f"{use}_rows"] = [report.rows[n][use][:SHORT] for n in frame["replicate"]]
    return frame


def _baselines(report: "Report") -> pd.DataFrame:
    rows = [
        ("baseline", report.study, line.origin, seed.replicate, seed.validation, seed.test)
        for line in report.baselines
        for seed in line.seeds
    ]
    columns = ["kind", "study", "origin", "replicate", "validation", "test"]
    return pd.DataFrame(rows, columns=columns)


def export_all(model: str, storage: Path) -> None:
    """Write the files of all finished sides; print which are unfinished."""
    names = study_names(storage_folder(storage, make=False))
    for side in sides_of(ROWS):
        if side.study(model) in names:
            try:
                export(side.study(model), storage)
            except SclsearchError as error:
                print(f"Not recorded: {error}", file=sys.stderr)


def stored_notes() -> dict[str, list[str]]:
    """Return the notes on each study's rows, from the file `NOTES`."""
    found: dict[str, list[str]] = {}
    if NOTES.exists():
        found = json.loads(NOTES.read_text(encoding="utf-8"))
    return found


def stored(study: str) -> pd.DataFrame | None:
    """Return the seed runs of a study in `benchmarks/evidence/`; None if there are none."""
    path = FOLDER / f"{study}.csv"
    if not path.exists():
        return None
    frame = pd.read_csv(path, low_memory=False)
    setfit = FOLDER / f"setfit-{frame['task'][0]}-{frame['size'][0]:.0f}.csv"
    if not setfit.exists():
        return frame
    rows = pd.read_csv(setfit).drop(columns="seconds")
    confirm = of_kind(frame, "confirm")
    if rows["train_rows"].tolist() != confirm["train_rows"].tolist():
        raise SclsearchError(f"{setfit}: must have the training rows of {path}. Train it again.")
    return pd.concat([frame, rows], ignore_index=True)


def of_kind(frame: pd.DataFrame, kind: str, origin: str | None = None) -> pd.DataFrame:
    """Return the rows of a kind by replicate: `search` (the winner's), `confirm`, `baseline`."""
    found = frame[frame["kind"] == kind]
    if kind == "search":
        found = found[found["winner"] == True]  # noqa: E712 - the column has missing values
    if origin is not None:
        found = found[found["origin"] == origin]
    return found.sort_values("replicate")


def scores(frame: pd.DataFrame, split: str = "test") -> list[float | None]:
    """Return the scores of a frame; None for a failed seed run."""
    return [None if math.isnan(one) else one for one in frame[split].tolist()]


def spread(frame: pd.DataFrame, split: str) -> str:
    """Return mean and standard deviation of the scores in percent."""
    mean, std = mean_std([one for one in scores(frame, split) if one is not None])
    return percent(mean) if std is None else f"{percent(mean)} ± {percent(std)}"


def mean_of(frame: pd.DataFrame, split: str = "test") -> float:
    """Return the mean score of the seed runs that did not fail."""
    return mean_std([one for one in scores(frame, split) if one is not None])[0]


def paired(better: pd.DataFrame, reference: pd.DataFrame, kind: str = "confirm") -> Comparison:
    """Return the paired comparison of two winners on their fresh seeds, or on those of the search.

    Raises:
        SclsearchError: The studies have other seeds, training rows or test rows.
    """
    own, its = of_kind(better, kind), of_kind(reference, kind)
    for name in ("replicate", "train_rows", "test_rows"):
        if own[name].tolist() != its[name].tolist():
            raise SclsearchError(
                f"{better['study'][0]} and {reference['study'][0]}: must have the same {name}. "
                "Train both with benchmarks/evidence.sh."
            )
    return compare(scores(own), scores(its), own["train_rows"].tolist())


def against_baseline(frame: pd.DataFrame, origin: str) -> Comparison:
    """Return the paired comparison of a study with a baseline on its fresh seeds."""
    own = of_kind(frame, "confirm")
    baseline = of_kind(frame, "baseline", origin)
    return compare(scores(own), scores(baseline), own["train_rows"].tolist())


def verdict(comparison: Comparison, adjusted: float, published: float | None) -> str:
    """Return the verdict on the claim that a difference is positive.

    - `holds`: the difference is positive and its p-value, adjusted for the page, at most 0.05.
    - `does not hold`: the difference is negative and its adjusted p-value at most 0.05; or the
      adjusted p-value is above 0.05, and the 95 % interval ends below the difference that the
      paper publishes for the same task and number of examples.
    - `inconclusive`: everything else.
    """
    if adjusted <= ALPHA:
        return HOLDS if comparison.difference > 0 else FAILS
    if published is not None and comparison.interval and comparison.interval[1] < published:
        return FAILS
    return INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a row.

    Attributes:
        row: The row.
        comparison: Paired comparison on fresh seeds.
        adjusted: P-value after Holm's correction for all rows of the page.
        detectable: Difference that this test, with the first of Holm's levels, finds in 80 %.
        verdict: The verdict in one word.
    """

    row: Row
    comparison: Comparison
    adjusted: float
    detectable: float
    verdict: str


def results(model: str, frames: Frames) -> list[Result]:
    """Return the results of all rows of which both sides are stored."""
    rows = recorded(model, frames)
    sides = [[frames[study] for study in row.studies(model)] for row in rows]
    found = [paired(better, reference) for reference, better in sides]
    return [
        Result(
            row,
            one,
            adjusted,
            detectable(one.std or 0.0, one.n - one.n_equal, ALPHA / len(rows)),
            verdict(one, adjusted, row.published),
        )
        for row, one, adjusted in zip(rows, found, holm([one.p for one in found]), strict=True)
    ]


def recorded(model: str, frames: Frames) -> list[Row]:
    """Return the rows of which both sides are stored."""
    return [row for row in ROWS if set(row.studies(model)) <= frames.keys()]


def percent(share: float) -> str:
    """Return a score in percent."""
    return f"{100 * share:.1f}"


def answer(found: Sequence[Result], model: str, frames: Frames) -> Iterator[list[str]]:
    """Yield the cells of the first table."""
    for one in found:
        row = one.row
        reference, frame = (frames[study] for study in row.studies(model))
        fresh = [of_kind(side, "confirm") for side in (frame, reference)]
        scored = {name: of_kind(frame, "baseline", name) for name in BASELINES}
        baselines = ["" if one.empty else percent(mean_of(one)) for one in scored.values()]
        difference, interval, pairs, *p_values = compared(one.comparison, one.adjusted)
        published = "" if row.published is None else f"{100 * row.published:+.1f}"
        yield [
            f"[{row.paper}]({PAPERS[row.paper]}): `{row.better.name}` > `{row.reference.name}`",
            row.better.condition,
            str(row.better.size),
            *(percent(mean_of(one)) for one in fresh),
            *baselines,
            difference,
            interval,
            pairs,
            *(p.replace("0.000", "< 0.001") for p in p_values),
            in_points(one.detectable),
            published,
            f"**{one.verdict}**",
        ]


def searched(frame: pd.DataFrame) -> list[str]:
    """Return the names of the hyperparameters in which the configurations of a search differ."""
    search = frame[frame["kind"] == "search"]
    names = [name for name in map(str, frame.columns) if name not in OWN_COLUMNS]
    return [name for name in names if search[name].nunique(dropna=False) > 1]


def side_table(frames: Frames) -> Iterator[list[str]]:
    """Yield the cells of the table of sides: budget, configuration, and the stronger baseline."""
    for study, frame in frames.items():
        search = frame[frame["kind"] == "search"]
        confirm = of_kind(frame, "confirm")
        winner = of_kind(frame, "search").iloc[0]
        difference, interval, *_ = compared(against_baseline(frame, LOGISTIC), 1.0)
        configurations, seeds = search["configuration"].nunique(), search["replicate"].nunique()
        names = searched(frame)
        rates = search["learning_rate"] if "learning_rate" in names else ()
        at_edge = len(rates) > 0 and winner["learning_rate"] in (min(rates), max(rates))
        yield [
            f"`{study}`",
            f"{configurations} × {seeds}",
            str(len(search)),
            duration(search["seconds"].sum()),
            f"{len(confirm)}",
            duration(confirm["seconds"].sum()),
            ", ".join(frame["device"].dropna().unique()),
            settings({name: winner[name] for name in names}) + " ∗" * at_edge,
            f"{difference} ({interval})",
        ]


def top_of_ten(frame: pd.DataFrame) -> list[float]:
    """Return the test score of the top 3 by validation of each ten fresh seeds, in turn."""
    confirm = of_kind(frame, "confirm")
    validation, test = scores(confirm, "validation"), scores(confirm)
    tens = [slice(start, start + TENS) for start in range(0, len(confirm) - TENS + 1, TENS)]
    found = [reported_test(parse_rule("top-3"), validation[ten], test[ten])[1] for ten in tens]
    return [one for one in found if one is not None]


def top_table(frames: Frames) -> Iterator[list[str]]:
    """Yield the cells of the table of the papers' rule beside the mean of all seeds."""
    for study, frame in frames.items():
        tops, mean = top_of_ten(frame), mean_of(of_kind(frame, "confirm"))
        top = mean_std(tops)[0]
        each = ", ".join(map(percent, tops))
        yield [f"`{study}`", percent(mean), percent(top), each, f"{100 * (top - mean):+.1f}"]


def search_table(found: Sequence[Result], model: str, frames: Frames) -> Iterator[list[str]]:
    """Yield the cells of the table of differences on the seeds that chose the winners."""
    for one in found:
        reference, better = (frames[study] for study in one.row.studies(model))
        comparison = paired(better, reference, "search")
        difference, interval, pairs, *_ = compared(comparison, 1.0)
        subsets = of_kind(better, "search")["train_rows"].tolist()
        sides = searched_scores(better), searched_scores(reference)
        search = with_searches(comparison, *sides, subsets)
        yield [f"`{one.row.name}`", difference, interval, points(search), pairs]


def searched_scores(frame: pd.DataFrame) -> SearchScores:
    """Return the scores of all configurations of a search, as `sclsearch compare` reads them."""
    search = frame[frame["kind"] == "search"]
    table = search.pivot_table(("validation", "test"), "configuration", "replicate", dropna=False)
    trained = search.pivot_table("seconds", "configuration", "replicate").notna().to_numpy()
    minimum = METRICS[search["metric"].iloc[0]].minimum
    validation = np.where(trained, table["validation"].fillna(minimum), np.nan)
    return search_scores(validation, table["test"].to_numpy(), trained, parse_rule("mean").score)


def curse_table(frames: Frames) -> Iterator[list[str]]:
    """Yield the cells of the table of winners on the seeds that chose them and on fresh ones."""
    for study, frame in frames.items():
        cells = []
        for split in ("validation", "test"):
            seen, fresh = (of_kind(frame, kind) for kind in ("search", "confirm"))
            change = mean_of(fresh, split) - mean_of(seen, split)
            cells += [spread(seen, split), spread(fresh, split), f"{100 * change:+.1f}"]
        yield [f"`{study}`", *cells]


def importance_table() -> Iterator[list[str]]:
    """Yield the cells of the table of hyperparameter importance, one row for each score table."""
    from sclsearch.search.importance import hyperparameter_importance

    for path in sorted(SCORES.glob("*-*-*.csv")):
        search = path.stem.rpartition("-")[0]
        table = read_table(path)
        space = load_space(path.with_name(f"{search}.yaml"), search.rpartition("-")[0], MODEL)
        means = table.scores.mean(axis=1)
        cells = []
        for least in (means.min(), np.median(means)):
            scored = [one for one in zip(table.values, means, strict=True) if one[1] >= least]
            shares = hyperparameter_importance(space.spec(), scored)
            cells.append(", ".join(f"{name} {100 * one:.0f} %" for name, one in shares.items()))
        yield [f"`{path.stem}`", *cells, f"{percent(np.median(means))} … {percent(means.max())}"]


def row_notes(frames: Frames) -> Iterator[str]:
    """Yield a line for each task: which rows validate and test, and what its studies share."""
    notes = stored_notes()
    of_task: dict[str, list[str]] = {}
    for study, frame in frames.items():
        own = of_task.setdefault(frame["task"][0], [])
        own += [note for note in notes.get(study, ()) if note not in own]
        confirm = of_kind(frame, "confirm")
        if confirm["test_rows"].nunique() == 1 and SAME_TEST not in own:
            own.append(SAME_TEST)
    for task, own in of_task.items():
        yield f"- `{task}`: {'; '.join(own)}."


UNLIKE = (
    "Rows whose sides ran their fresh seeds on different devices, one on CPUs in float32 and the "
    "other on the GPU in bfloat16"
)
SAME_TEST = "all seeds have the same test rows"
MACHINES = {
    MODEL: "On CPUs: AMD EPYC or Intel Xeon, 2 cores, 24 GB; engine 6, Python 3.11.7, torch "
    "2.13.0+cpu, transformers 5.23.0, ray 2.60.0. On the H100: bfloat16, many seed runs at a "
    "time with CUDA MPS, 16 CPU cores; engine 7, Python 3.12.3, torch 2.11.0, transformers 5.17.0, "
    "ray 2.60.0. November 2026. Other work ran beside the training, so times are rough."
}
"""Machine of the recorded seed runs, by model."""


def page(model: str, frames: Frames) -> Iterator[str]:
    """Yield the lines of the page."""
    found = results(model, frames)
    options = "" if model == MODEL else f" --model {model}"
    yield "# Do the claims of the papers hold?\n"
    yield INTRODUCTION
    if found:
        scored = ("left", "right", *BASELINES.values())
        yield from markdown((*CLAIM, *scored, *TESTED), answer(found, model, frames))
    yield ""
    missing = [row.name for row in ROWS if row not in [one.row for one in found]]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        yield f"Not recorded: {listed}. `benchmarks/evidence.sh{options} ROW` records one.\n"
    yield COLUMNS.format(rows=len(found))
    yield "## How it was made\n"
    yield HOW.format(model=model)
    yield from row_notes(frames)
    devices = sorted({str(one) for frame in frames.values() for one in frame["device"].dropna()})
    yield f"\n{MACHINES.get(model, 'Devices: ' + ', '.join(devices) + '.')}\n"
    if unlike := [one.row.name for one in found if len(set(_devices(one, model, frames))) > 1]:
        yield f"{UNLIKE}: {', '.join(f'`{name}`' for name in unlike)}.\n"
    yield from markdown(SIDES, side_table(frames))
    yield f"\n{EDGES}"
    yield "## The top 3 of 10 flatter\n"
    yield TOP
    yield from markdown(TOPS, top_table(frames))
    yield "\n## Winners on the seeds that chose them\n"
    yield CURSE
    yield from markdown(CURSES, curse_table(frames))
    yield f"\n{SEARCHES}"
    yield from markdown(SEARCHED, search_table(found, model, frames))
    if model == MODEL:
        yield f"\n{IMPORTANCE}"
        yield from markdown(IMPORTANCES, importance_table())
    yield "\n## Commands\n"
    yield f"    SCLSEARCH_DATA=glue benchmarks/evidence.sh{options} > benchmarks/evidence.md"
    yield f"    python -m benchmarks.evidence{options} > benchmarks/evidence.md\n"
    yield COMMANDS
    for row in [one.row for one in found][:1]:
        for command in commands([row], model, DEFAULT_STORAGE):
            yield f"    {_wrapped(command)}"
        for study in row.studies(model):
            yield f"    sclsearch select {study} --storage {DEFAULT_STORAGE}"
        studies = " ".join(row.studies(model))
        yield f"    sclsearch compare {studies} --storage {DEFAULT_STORAGE}"


def _devices(result: Result, model: str, frames: Frames) -> Iterator[frozenset[str]]:
    """Yield the devices of each side's fresh seeds."""
    for study in result.row.studies(model):
        yield frozenset(of_kind(frames[study], "confirm")["device"].dropna())


def _wrapped(command: Sequence[str]) -> str:
    """Return a command as text, with line breaks before options."""
    lines = [""]
    for option in shlex.join(command).replace(" --", "\n--").split("\n"):
        if len(lines[-1]) + len(option) > LONGEST_LINE:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {option}".removeprefix(" " * (len(lines) == 1))
    return " \\\n    ".join(lines)


LONGEST_LINE = 85
INTRODUCTION = """\
Each row is a claim: the method on the left has a higher test score than the one on the right. The
scores are accuracies in percent, means of the winners over fresh seeds, which chose nothing.
"""
CLAIM = ("claim", "task", "examples")
TESTED = (
    *("difference", "95 %", "pairs", "p", "adjusted", "detectable", "published", "verdict"),
)  # fmt: skip
COLUMNS = f"""\
- *majority class*, *logistic regression*, *SetFit*: baselines on the same rows, without the
  paraphrases of a noisy task. The second one reads the frozen encoder. The third one is SetFit
  1.2.0 with its default settings, trained by `benchmarks/setfit_baseline.py`; an empty cell is not
  recorded.
- *difference*: mean of left minus right over the fresh seeds, in points, with its 95 % interval.
  Both sides have the same training rows and the same initial weights, seed by seed.
- *p*: Wilcoxon's signed-rank test; *adjusted*: Holm's correction for all rows of this page
  ({{rows}} recorded).
- *detectable*: true difference that this test, after the correction, finds in {100 * POWER:.0f} %
  of cases, in points.
- *published*: the paper's difference on this task with as many examples and a larger encoder.
- *verdict*: **{HOLDS}** if the adjusted p is at most {ALPHA:g} and the difference is positive;
  **{FAILS}** if the adjusted p is at most {ALPHA:g} and the difference is negative, or if the
  adjusted p is larger and the interval ends below the published difference; otherwise
  **{INCONCLUSIVE}**.

A verdict is about these two winners, on this encoder, these rows and this budget. Another search of
the same method may find another winner; [a table below](#winners-on-the-seeds-that-chose-them) has
intervals that include this.
"""
HOW = f"""\
- The encoder is `{{model}}`. `tune` searches each side, and `confirm` trains its winner with
  {FRESH} fresh seeds.
- Both sides of a row search a grid of six configurations: three learning rates and two values of
  one more hyperparameter, with {SEEDS} seeds each and the rule `mean`. The spaces are in
  `benchmarks/evidence/`. If the claim is about that hyperparameter, both sides have the three
  learning rates alone.
- The budget of both sides is equal in configurations and seeds. The race (risk 0.05) skips seed
  runs of losing configurations, so the numbers of trained seed runs differ.
- The protocol is `{FEWSHOT}` (`{NOISY}` where the task says noisy): every seed draws its
  own training rows. The intervals are about training rows and seeds, not about test rows. 1:10 is
  `{IMBALANCED}`: 32 examples of one class and 320 of the other.
- `dbpedia` has 2,212 rows of the original's training split. `amazon2` is not the original: 1,600
  other reviews from Amazon, negative with one or two stars and positive with four or five.
"""
EDGES = """\
∗ The highest or lowest learning rate of the grid: a wider one might have helped this side.
"""
SIDES = (
    *("side", "configurations × seeds", "trained", "time", "fresh seeds", "time"),
    *("device", "winner", "minus logistic regression, 95 %"),
)  # fmt: skip
TOP = f"""\
Gunel et al. report the mean of the 3 seeds of {TENS} with the best validation scores. This table
applies their rule to the first, second and third ten of the fresh seeds. *higher by*: points above
the mean of all {FRESH}.
"""
TOPS = ("side", f"all {FRESH} seeds", f"top 3 of {TENS}", "each ten", "higher by")
CURSE = f"""\
Mean ± standard deviation of each winner over the {SEEDS} seeds that chose it, and over {FRESH}
fresh seeds.
"""
CURSES = (
    *("side", "validation, search", "validation, fresh", "change"),
    *("test, search", "test, fresh", "change"),
)  # fmt: skip
SEARCHES = """\
Differences on the seeds that chose the winners. *95 %, search* includes the choice of both winners,
as `sclsearch compare` prints it.
"""
SEARCHED = ("row", "difference", "95 %", "95 %, search", "pairs")
IMPORTANCE = """\
## Which hyperparameters matter

Share of the variance of the configurations' validation scores that each hyperparameter explains
alone, by functional ANOVA (Hutter et al., 2014). The searches have 60 random configurations with 10
seeds each; their spaces and scores are in `benchmarks/scores/`. In the better half of the
configurations the learning rate is never far off.
"""
IMPORTANCES = ("search", "all configurations", "the better half", "scores of the better half")
COMMANDS = """\
The first command trains what is missing, writes the seed runs to `benchmarks/evidence/` and prints
this page. The second one prints the page from these files alone. `--dry-run` prints seed runs and
hours instead, `--model roberta-base` trains the same rows with another encoder. The folder
`SCLSEARCH_DATA` has `SST-2/`, `dbpedia_csv/` and `amazon_review_polarity_csv/`. The commands of the
first row, and those that print its scores, its baselines and its interval with the search:
"""


def main() -> None:
    """Print the page, or the commands or the plan of its rows."""
    try:
        _run()
    except SclsearchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def _run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to train; default: all")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--storage", type=Path, help="writes the seed runs of this storage first")
    parser.add_argument("--commands", action="store_true", help="print the commands of the rows")
    parser.add_argument("--plan", action="store_true", help="print missing seed runs and hours")
    options = parser.parse_args()
    names = [row.name for row in ROWS]
    if unknown := [name for name in options.rows if name not in names]:
        parser.error(f"ROW: must be one of {', '.join(names)}, got {', '.join(unknown)}.")
    rows = [row for row in ROWS if row.name in (options.rows or names)]
    storage = options.storage or DEFAULT_STORAGE
    if options.commands:
        for command in commands(rows, options.model, storage):
            print(shlex.join(command))
    elif options.plan:
        for line in markdown(PLAN, planned(rows, options.model, storage)):
            print(line, flush=True)
    else:
        if options.storage:
            export_all(options.model, storage)
        print(*page(options.model, stored_frames(options.model)), sep="\n")


PLAN = ("side", "seed runs, search", "seed runs, confirmation", "hours")


def stored_frames(model: str) -> dict[str, pd.DataFrame]:
    """Return the stored seed runs of each side of the rows, by study."""
    found = {side.study(model): stored(side.study(model)) for side in sides_of(ROWS)}
    return {study: frame for study, frame in found.items() if frame is not None}


if __name__ == "__main__":
    main()
