"""The page benchmarks/evidence.md: its tables and texts."""

import shlex
from collections.abc import Iterator, Sequence

import pandas as pd

from benchmarks.evidence.records import Frames, of_kind, searched, stored_notes
from benchmarks.evidence.results import (
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    LOGISTIC,
    TENS,
    Result,
    against_baseline,
    mean_of,
    paired,
    results,
    scores,
    searched_scores,
    top_of_ten,
)
from benchmarks.evidence.rows import (
    DEFAULT_STORAGE,
    FEWSHOT,
    FRESH,
    IMBALANCED,
    MODEL,
    NOISY,
    PAPERS,
    ROWS,
    SEEDS,
    commands,
    sides_of,
)
from benchmarks.machine import markdown, percent
from sclsearch.canonical import settings
from sclsearch.reports.comparison_tables import compared, points
from sclsearch.reports.terminal import duration
from sclsearch.selection.rules import mean_std
from sclsearch.selection.significance import (
    ALPHA,
    search_interval,
)

BASELINES = {
    "majority class": "majority class",
    LOGISTIC: "logistic regression",
    "SetFit": "SetFit",
}
"""Title of each baseline's column."""


def spread(frame: pd.DataFrame, split: str) -> str:
    """Return mean and standard deviation of the scores in percent."""
    mean, std = mean_std([one for one in scores(frame, split) if one is not None])
    return percent(mean) if std is None else f"{percent(mean)} ± {percent(std)}"


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
            published,
            f"**{one.verdict}**",
        ]


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
        search = search_interval(comparison, *sides, subsets)
        yield [f"`{one.row.name}`", difference, interval, points(search), pairs]


def curse_table(frames: Frames) -> Iterator[list[str]]:
    """Yield the cells of the table of winners on the seeds that chose them and on fresh ones."""
    for study, frame in frames.items():
        cells = []
        for split in ("validation", "test"):
            seen, fresh = (of_kind(frame, kind) for kind in ("search", "confirm"))
            change = mean_of(fresh, split) - mean_of(seen, split)
            cells += [spread(seen, split), spread(fresh, split), f"{100 * change:+.1f}"]
        yield [f"`{study}`", *cells]


def row_notes(model: str, frames: Frames) -> Iterator[str]:
    """Yield the notes on the rows of each task and size, those with equal notes together."""
    notes = stored_notes()
    of_rows: dict[str, list[str]] = {}
    for side in sides_of(ROWS):
        study = side.study(model)
        if study not in frames:
            continue
        own = of_rows.setdefault(f"{side.condition}, {side.size}", [])
        own += [note for note in notes.get(study, ()) if note not in own]
        confirm = of_kind(frames[study], "confirm")
        if confirm["test_rows"].nunique() == 1 and SAME_TEST not in own:
            own.append(SAME_TEST)
    alike: dict[str, list[str]] = {}
    for rows, own in of_rows.items():
        alike.setdefault("; ".join(own), []).append(rows)
    for shared, conditions in alike.items():
        yield f"- {' and '.join(conditions)}: {shared}."


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
    yield from row_notes(model, frames)
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
    yield "\n## Commands\n"
    yield f"    SCLSEARCH_DATA=glue benchmarks/evidence.sh{options} > benchmarks/evidence.md"
    yield f"    python -m benchmarks.evidence{options} > benchmarks/evidence.md\n"
    yield COMMANDS
    for row in [one.row for one in found][:1]:
        for command in commands([row], model, DEFAULT_STORAGE):
            yield f"    {_wrapped(command)}"
        for study in row.studies(model):
            yield f"    sclsearch show {study} --storage {DEFAULT_STORAGE}"
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
    *("difference", "95 %", "pairs", "p", "adjusted", "Wilcoxon", "published", "verdict"),
)  # fmt: skip
COLUMNS = f"""\
- *examples*: labeled training examples.
- *majority class*, *logistic regression*, *SetFit*: baselines on the same rows, without the
  paraphrases of a noisy task. The second one reads the frozen encoder. The third one is SetFit
  1.2.0 with its default settings, trained by `benchmarks/setfit_baseline.py`; an empty cell is not
  recorded.
- *difference*: mean of left minus right over the fresh seeds, in points, with its 95 % interval.
  Both sides have the same training rows and the same initial weights, seed by seed.
- *pairs*: seeds on which both sides have a score; *equal*: pairs with equal scores.
- *p*: sign-flip permutation test of the mean difference. *adjusted*: Holm's correction for all rows
  of this page ({{rows}} recorded). *Wilcoxon*: p of Wilcoxon's signed-rank test.
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
- The budget of both sides is equal in configurations and seeds. In this recording an earlier race
  skipped seed runs of losing configurations, so the numbers of trained seed runs differ. The
  commands below train all.
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
COMMANDS = """\
The first command trains what is missing, writes the seed runs to `benchmarks/evidence/` and prints
this page. The second one prints the page from these files alone. `--dry-run` prints seed runs and
hours instead, `--model roberta-base` trains the same rows with another encoder. The folder
`SCLSEARCH_DATA` has `SST-2/`, `dbpedia_csv/` and `amazon_review_polarity_csv/`. The commands of the
first row, and those that print its scores, its baselines and its interval with the search:
"""
