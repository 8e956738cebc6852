"""Notes on the scores of a report, and the verdict on its winner."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sclsearch.canonical import counted, one_line, shown
from sclsearch.errors import listed
from sclsearch.reports.commands import SIZES, search_command, study_command
from sclsearch.reports.report import ConfigurationLine, Report
from sclsearch.reports.words import seeds_lacking
from sclsearch.selection.significance import in_points
from sclsearch.store.studies import uneven_seeds
from sclsearch.study.state import SearchState
from sclsearch.tasks.metrics import METRICS

WARNING = "warning: "
OTHERS_UNTESTED = (
    "only the winner was tested; `sclsearch tune` with `--test-scores all` tests the others, too"
)
FEW_ROWS = 10
"""Minimum validation rows per class; below it one row moves the class's score by over a tenth."""
FEW_UPDATES, FEW_TRAINING_ROWS, FEW_ROWS_OF_CLASS = 100, 50, 8
EDGE = 0.05
"""Share of a range, on the log scale, within which a value is at its edge."""
RATE_STEP, MORE_ROWS = 3.0, 4
"""Factors of the next learning rate and of the next training set size to try."""
CUT = "max_length "
"""Start of the stored note on truncated texts."""
Cause = tuple[str, Mapping[str, Any]]
"""Likely cause, and the hyperparameters and sizes to change; None removes a setting."""
Kind = Literal["fact", "warning", "doubt", "seeds", "damage"]


class Note(str):
    """Remark for readers of the scores: the text as printed, and its kind.

    A `doubt` is about the winner, a `warning` about the data, and both are printed as warnings.
    `seeds` is about configurations that lack seeds. `damage` names a damaged file of this machine.
    Every other remark is a `fact`.
    """

    __slots__ = ("kind",)
    kind: Kind

    def __new__(cls, text: str, kind: Kind = "fact") -> "Note":
        note = super().__new__(cls, text)
        note.kind = kind
        return note

    @property
    def text(self) -> str:
        return self.replace(WARNING, "", 1) if self.kind in {"warning", "doubt"} else self

    def about(self, name: str) -> "Note":
        """Return the note as one about a named study or table cell."""
        return Note(f"{name}: {self}", self.kind)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Fault of a useless winner, its likely cause, and the command to run next."""

    fault: str
    cause: str
    command: str
    above: str = ""
    """Sentence on another configuration that is above the baselines."""

    @property
    def sentence(self) -> str:
        return " ".join(filter(None, (f"The winner is useless: {self.fault}", self.above)))

    @property
    def lines(self) -> tuple[str, str, str]:
        return self.sentence, f"Likely cause: {self.cause}.", f"Next: `{self.command}`"


def report_notes(report: Report, state: SearchState, stored: int) -> tuple[Note, ...]:
    """Return the notes on a ranking, its winner and its data, most important first.

    `stored` is the number of configurations that the study has, damaged ones apart.
    """
    notes, winner = damage(report), report.winner
    if len(state.configurations) < stored:
        text = f"the first {len(state.configurations)} of {stored} stored configurations"
        notes.append(Note(f"shown: {text}; show, report and export read all of them"))
    if lacking := seeds_lacking(report):
        notes.append(Note(lacking, "seeds"))
    if winner is not None:
        notes += _untested(winner, report)
        notes += _few_rows_per_class(state, winner)
    if state.replicates:
        notes += map(Note, [*state.replicates[0].notes, *uneven_seeds(state.replicates)])
    notes += _mixed_devices(state)
    notes += map(Note, state.record.origin["notes"])
    if winner is not None:
        runs = list(state.runs_of(winner.number).values())
        notes += (Note(note) for position in winner.reported for note in runs[position].notes)
    return tuple(dict.fromkeys(notes))


def damage(report: Report) -> list[Note]:
    """Return a warning if files of the study are damaged, and what is wrong with each."""
    if not report.damaged:
        return []
    count = f"{WARNING}damaged files, left out of the ranking: {len(report.damaged)}"
    first = f"{count}; another configuration may be the winner. Run the search again"
    return [Note(first, "doubt"), *(Note(message, "damage") for message in report.damaged)]


def untested_winner(winner: ConfigurationLine, rule: str, fewer: str = "") -> str:
    """Return that seeds have no test score; `fewer` is the option for fewer seeds than stored."""
    return (
        f"{winner.untested} of {len(winner.seeds)} seeds of the winner #{winner.number} have no "
        f"test score. Repeat its `sclsearch tune` with `--rule {rule}{fewer}`, which tests them."
    )


def _untested(winner: ConfigurationLine, report: Report) -> Iterator[Note]:
    if winner.untested:
        yield Note(f"{WARNING}{untested_winner(winner, report.rule)}", "doubt")
    elif any(line.untested for line in report.configurations):
        yield Note(OTHERS_UNTESTED, "doubt")


def _confusions(state: SearchState, winner: ConfigurationLine) -> list[Any]:
    """Return the confusion matrix of each seed on the validation rows, true classes in rows."""
    runs = state.runs_of(winner.number).values()
    found = [(run.validation or {}).get("confusion") for run in runs]
    return [np.array(one) for one in found if one is not None]


def _few_rows_per_class(state: SearchState, winner: ConfigurationLine) -> Iterator[Note]:
    seeds = [one.sum(1) for one in _confusions(state, winner)]
    if not seeds:
        return
    folds = state.record.origin.get("folds")  # which together hold each row once
    rows = np.sum(seeds[:folds], 0) if folds else np.min(seeds, 0)
    counts = zip(state.record.origin.get("labels", ()), rows, strict=False)
    few = [f"{one_line(label)} ({count})" for label, count in counts if count < FEW_ROWS]
    if few:
        text = f"classes with fewer than {FEW_ROWS} validation rows: {listed(few)}"
        yield Note(f"{WARNING}{text}. Label more rows to rank configurations reliably", "warning")


def _mixed_devices(state: SearchState) -> Iterator[Note]:
    counts = Counter(run.device for run in state.seed_runs.values() if run.failure is None)
    if len({*counts} - {"cpu"}) > 1:  # earlier versions did not store the name of a CPU
        each = ", ".join(f"{count} on {one_line(name)}" for name, count in counts.most_common())
        differ = "the score of a seed run can differ between them"
        yield Note(f"seed runs were trained on different devices: {each}; {differ}")


def verdict(report: Report, state: SearchState) -> Verdict | None:
    """Return the verdict on a study's winner; None if it is fine, or if there is none."""
    winner = report.winner
    fault = "" if winner is None else _fault(report, _confusions(state, winner))
    if winner is None or not fault:
        return None
    again = study_command("report", report)
    if report.repeats:
        return Verdict(fault, "that of the search which chose this configuration", again)
    unknown: Cause = ("unknown; the page shows learning curves and wrong texts", {})
    cause, changes = next(_causes(report, state, winner), unknown)
    if report.seeds == 1:
        cause = f"{cause}; one seed may also be chance"
    command = search_command(report, changes) if changes or report.seeds == 1 else again
    return Verdict(fault, cause, command, _above_baselines(report))


def is_linear(baseline: str) -> bool:
    """Return whether a baseline is a linear model on the frozen encoder, not the majority class."""
    return "encoder" in baseline


def _fault(report: Report, counts: Sequence[Any]) -> str:
    """Return why the winner is useless; empty if it is not.

    It predicts one class in most seeds and the metric reads predicted classes, or its score under
    the rule is not above that of the majority class, or reliably below that of a linear model on
    the frozen encoder.
    """
    collapsed = sum(bool(np.count_nonzero(one.sum(0)) == 1) for one in counts)
    if 2 * collapsed > len(counts) and METRICS[report.metric].needs != "probabilities":
        seeds = f"in {collapsed} of {counted(len(counts), 'seed')}"
        return f"{seeds} it predicts one class for every validation row."
    for one in report.against:
        value, interval = one.lead.difference, one.lead.interval
        reliable = interval is None or interval[1] < 0
        if (value < 0 and reliable) or (value <= 0 and not is_linear(one.name)):
            level = f"{in_points(-value)} points below" if value else "equal to"
            return f"its {one.split} {report.metric} is {level} that of the baseline {one.name}."
    return ""


def _above_baselines(report: Report) -> str:
    """Return the best other configuration above all baselines; empty without one."""
    split = report.against[0].split if report.against else "validation"

    def score(line: ConfigurationLine) -> float:
        known = line.test_mean if split != "validation" and line.score is not None else line.score
        return known or 0.0

    highest = max(map(score, report.baselines), default=math.inf)
    for line in report.configurations:
        if line is not report.winner and score(line) > highest:
            return (
                f"#{line.number} is above it, though the rule {report.rule} did not choose it: "
                f"{split} {report.metric} {score(line):.4f}."
            )
    return ""


def _causes(report: Report, state: SearchState, winner: ConfigurationLine) -> Iterator[Cause]:
    """Yield likely causes of a useless winner, the likeliest first."""
    yield from _learning_rate(report, winner, state.record.identity["space"]["parameters"])
    run = next(run for run in state.runs_of(winner.number).values() if run.failure is None)
    updates = int(run.evaluations[-1]["update"])
    if updates < FEW_UPDATES:
        name = "probe_epochs" if "probe_epochs" in winner.fields else "epochs"
        more = math.ceil(winner.fields[name] * FEW_UPDATES / updates)
        yield f"training has only {counted(updates, 'update')}", {name: more}
    origin = state.record.origin
    for note in origin["notes"]:
        if note.startswith(CUT):
            yield note.partition(":")[0], {"max_length": 2 * winner.fields["max_length"]}
    rows, fewest = origin.get("training_rows") or (FEW_TRAINING_ROWS, FEW_ROWS_OF_CLASS)
    if rows < FEW_TRAINING_ROWS or (fewest is not None and fewest < FEW_ROWS_OF_CLASS):
        smallest = "" if fewest is None else f", {fewest} of the smallest class"
        sizes = {name: MORE_ROWS * origin[name] for name in SIZES if origin.get(name)}
        label = "" if sizes else "; label more of them first"
        yield f"there are few training rows: {rows}{smallest}{label}", sizes


def _learning_rate(
    report: Report, winner: ConfigurationLine, searched: Sequence[Mapping[str, Any]]
) -> Iterator[Cause]:
    """Yield that the learning rate was not searched, or is at an end of its range."""
    rate = winner.fields["learning_rate"]
    found = next((one for one in searched if one["name"] == "learning_rate"), None)
    if found is None:
        # `tune` searches the learning rate, unless it is set by hand or fixed by the space.
        free = "learning_rate" in report.settings or not searched
        change = None if free else _rounded(rate * RATE_STEP)
        yield f"the learning rate, {shown(rate)}, was not searched", {"learning_rate": change}
        return
    values = found["values"] if found["type"] == "choice" else (found["low"], found["high"])
    low, high = min(values), max(values)
    margin = (high / low) ** EDGE if low > 0 else 1.0
    if low * margin < rate < high / margin:
        return
    end, factor = ("upper", RATE_STEP) if rate >= high / margin else ("lower", 1 / RATE_STEP)
    yield (
        f"the winner's learning rate, {shown(rate)}, is at the {end} end of the searched values, "
        f"{shown(low)} to {shown(high)}",
        {"learning_rate": _rounded(rate * factor)},
    )


def _rounded(rate: float) -> float:
    return float(f"{min(rate, 0.1):.2g}")
