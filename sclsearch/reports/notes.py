"""Notes on the scores of a report, and the verdict on its winner."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sclsearch.canonical import counted, one_line, shown
from sclsearch.errors import listed
from sclsearch.reports.commands import search_command, study_command
from sclsearch.reports.differences import AgainstBaseline, Split
from sclsearch.reports.report import ConfigurationLine, Report
from sclsearch.reports.words import seeds_lacking
from sclsearch.selection.significance import in_points
from sclsearch.store.studies import uneven_seeds
from sclsearch.study.state import SearchState
from sclsearch.tasks.metrics import METRICS

FEW_ROWS = 10
"""Minimum validation rows per class; below it one row moves the class's score by over a tenth."""
OTHERS_UNTESTED = (
    "only the winner was tested; `sclsearch tune` with `--test-scores all` tests the others, too"
)
EDGE = 0.05
"""Share of a range, on the log scale, within which a value is at its edge."""
RATE_STEP = 3.0
"""Factor of the next learning rate to try."""
FEW_UPDATES = 100
FEW_TRAINING_ROWS = 50
FEW_ROWS_OF_CLASS = 8
MORE_ROWS = 4
"""Factor of the next training set size to try."""
CUT = "max_length "
"""Start of the stored note on truncated texts."""
WARNING = "warning: "

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


def doubt(text: str) -> Note:
    """Return a warning about the winner."""
    return Note(f"{WARNING}{text}", "doubt")


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
    notes = damage(report)
    if len(state.configurations) < stored:
        notes.append(
            Note(
                f"shown: the first {len(state.configurations)} of {stored} stored configurations; "
                "show, report and export read all of them"
            )
        )
    if lacking := seeds_lacking(report):
        notes.append(Note(lacking, "seeds"))
    winner = report.winner
    if winner is not None:
        notes += _untested(winner, report)
        notes += _few_rows_per_class(_confusions(state, winner), state)
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
    left_out = f"damaged files, left out of the ranking: {len(report.damaged)}"
    return [
        doubt(f"{left_out}; another configuration may be the winner. Run the search again"),
        *(Note(message, "damage") for message in report.damaged),
    ]


def untested_winner(winner: ConfigurationLine, rule: str, fewer: str = "") -> str:
    """Return that seeds have no test score; `fewer` is the option for fewer seeds than stored."""
    return (
        f"{winner.untested} of {len(winner.seeds)} seeds of the winner #{winner.number} have no "
        f"test score. Repeat its `sclsearch tune` with `--rule {rule}{fewer}`, which tests them."
    )


def _untested(winner: ConfigurationLine, report: Report) -> Iterator[Note]:
    if winner.untested:
        yield doubt(untested_winner(winner, report.rule))
    elif any(line.untested for line in report.configurations):
        yield Note(OTHERS_UNTESTED, "doubt")


def _confusions(state: SearchState, winner: ConfigurationLine) -> list[Any]:
    """Return the confusion matrix of each seed on the validation rows, true classes in rows."""
    return [
        np.array(run.validation["confusion"])
        for run in state.runs_of(winner.number).values()
        if run.validation is not None and "confusion" in run.validation
    ]


def _few_rows_per_class(counts: Sequence[Any], state: SearchState) -> Iterator[Note]:
    if not counts:
        return
    labels = state.record.origin.get("labels", ())
    folds = state.record.origin.get("folds")  # which together hold each row once
    seeds = [one.sum(1) for one in counts]
    rows = np.sum(seeds[:folds], 0) if folds else np.min(seeds, 0)
    few = [
        f"{one_line(label)} ({count})"
        for label, count in zip(labels, rows, strict=False)
        if count < FEW_ROWS
    ]
    if few:
        text = f"classes with fewer than {FEW_ROWS} validation rows: {listed(few)}"
        yield Note(f"{WARNING}{text}. Label more rows to rank configurations reliably", "warning")


def _mixed_devices(state: SearchState) -> Iterator[Note]:
    counts = Counter(run.device for run in state.seed_runs.values() if run.failure is None)
    if len({*counts} - {"cpu"}) > 1:  # earlier versions did not store the name of a CPU
        listed = ", ".join(f"{count} on {one_line(name)}" for name, count in counts.most_common())
        yield Note(
            f"seed runs were trained on different devices: {listed}; the score of a seed run can "
            "differ between them"
        )


def verdict(report: Report, state: SearchState) -> Verdict | None:
    """Return the verdict on a study's winner; None if it is fine, or if there is none.

    A winner is useless if it predicts one class in most seeds and the metric reads predicted
    classes, if its score under the rule is not above that of the majority class, or if it is
    reliably below that of a linear model on the frozen encoder.
    """
    winner = report.winner
    if winner is None:
        return None
    ranked = METRICS[report.metric].needs == "probabilities"
    fault = "" if ranked else _collapse(_confusions(state, winner))
    fault = fault or _below(report)
    if not fault:
        return None
    if report.repeats:
        cause = "that of the search which chose this configuration"
        return Verdict(fault, cause, study_command("report", report))
    above = _above_baselines(report)
    unknown: Cause = ("unknown; the page shows learning curves and wrong texts", {})
    cause, changes = next(_causes(report, state, winner), unknown)
    one_seed = "; one seed may also be chance" if report.seeds == 1 else ""
    new_search = search_command(report, changes) if changes or one_seed else ""
    command = new_search or study_command("report", report)
    return Verdict(fault, f"{cause}{one_seed}", command, above)


def _is_useless(one: AgainstBaseline) -> bool:
    """Return whether a winner is not above the majority class, or reliably below a linear model."""
    value, interval = one.lead.difference, one.lead.interval
    if is_linear(one.name):
        return value < 0 and (interval is None or interval[1] < 0)
    return value <= 0


def is_linear(baseline: str) -> bool:
    """Return whether a baseline is a linear model on the frozen encoder, not the majority class."""
    return "encoder" in baseline


def _collapse(counts: Sequence[Any]) -> str:
    collapsed = sum(bool((one.sum(0) > 0).sum() == 1) for one in counts)
    if 2 * collapsed <= len(counts):
        return ""
    return (
        f"in {collapsed} of {counted(len(counts), 'seed')} it predicts one class for every "
        "validation row."
    )


def _below(report: Report) -> str:
    one = next(filter(_is_useless, report.against), None)
    if one is None:
        return ""
    value = one.lead.difference
    level = f"{in_points(-value)} points below" if value else "equal to"
    return f"its {one.split} {report.metric} is {level} that of the baseline {one.name}."


def _above_baselines(report: Report) -> str:
    """Return the best other configuration above all baselines; empty without one."""
    splits: set[Split] = {one.split for one in report.against}
    scores = [_score_of(line, splits) for line in report.baselines]
    highest = max(filter(None, scores), default=None)
    for line in report.configurations:
        own = _score_of(line, splits)
        if line is not report.winner and highest is not None and (own or 0.0) > highest:
            scored = f"{' or '.join(splits)} {report.metric} {own:.4f}"
            not_chosen = f"though the rule {report.rule} did not choose it"
            return f"#{line.number} is above it, {not_chosen}: {scored}."
    return ""


def _score_of(line: ConfigurationLine, splits: Collection[Split]) -> float | None:
    if line.score is None:
        return None
    return line.test_mean if "test" in splits else line.score


def _causes(report: Report, state: SearchState, winner: ConfigurationLine) -> Iterator[Cause]:
    yield from _learning_rate(report, state, winner)
    run = next(run for run in state.runs_of(winner.number).values() if run.failure is None)
    updates = int(run.evaluations[-1]["update"])
    if updates < FEW_UPDATES:
        name = "probe_epochs" if "probe_epochs" in winner.fields else "epochs"
        more = math.ceil(winner.fields[name] * FEW_UPDATES / updates)
        yield f"training has only {counted(updates, 'update')}", {name: more}
    for note in state.record.origin["notes"]:
        if note.startswith(CUT):
            yield note.partition(":")[0], {"max_length": 2 * winner.fields["max_length"]}
    yield from _few_rows(state.record.origin)


def _learning_rate(
    report: Report, state: SearchState, winner: ConfigurationLine
) -> Iterator[Cause]:
    searched = {one["name"]: one for one in state.record.identity["space"]["parameters"]}
    parameter, rate = searched.get("learning_rate"), winner.fields["learning_rate"]
    if parameter is None:
        # `tune` searches the learning rate, unless it is set by hand or fixed by the space.
        free = "learning_rate" in report.settings or not searched
        change = None if free else _rounded(rate * RATE_STEP)
        yield f"the learning rate, {shown(rate)}, was not searched", {"learning_rate": change}
        return
    if parameter["type"] == "choice":
        low, high = min(parameter["values"]), max(parameter["values"])
        place = {low: 0.0, high: 1.0}.get(rate, 0.5)
    else:
        low, high = parameter["low"], parameter["high"]
        place = math.log(rate / low) / math.log(high / low) if low > 0 else rate / high
    if EDGE < place < 1 - EDGE:
        return
    end, factor = ("lower", 1 / RATE_STEP) if place <= EDGE else ("upper", RATE_STEP)
    yield (
        f"the winner's learning rate, {shown(rate)}, is at the {end} end of the searched values, "
        f"{shown(low)} to {shown(high)}",
        {"learning_rate": _rounded(rate * factor)},
    )


def _rounded(rate: float) -> float:
    return float(f"{min(rate, 0.1):.2g}")


def _few_rows(origin: Mapping[str, Any]) -> Iterator[Cause]:
    rows, fewest = origin.get("training_rows") or (FEW_TRAINING_ROWS, None)
    if rows >= FEW_TRAINING_ROWS and (fewest is None or fewest >= FEW_ROWS_OF_CLASS):
        return
    smallest = "" if fewest is None else f", {fewest} of the smallest class"
    sizes = {name: MORE_ROWS * origin[name] for name in ("train_size", "shots") if origin.get(name)}
    label = "" if sizes else "; label more of them first"
    yield f"there are few training rows: {rows}{smallest}{label}", sizes
