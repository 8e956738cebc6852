"""Verdict on a useless winner: what is wrong, the likely cause, and the next command."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sclsearch.canonical import counted, shown
from sclsearch.reports.commands import report_command, search_command
from sclsearch.reports.lines import ConfigurationLine, paired
from sclsearch.selection.significance import Comparison, in_points
from sclsearch.store.runs import SeedRun
from sclsearch.study.state import SearchState

if TYPE_CHECKING:
    from sclsearch.reports.report import Report

EDGE = 0.05
"""Share of a range, on the log scale, within which a value is at its edge."""
RATE_STEP = 3.0
"""Factor of the next learning rate to try."""
FEW_UPDATES = 100
FEW_ROWS = 50
FEW_ROWS_OF_CLASS = 8
MORE_ROWS = 4
"""Factor of the next training set size to try."""
CUT = "max_length "
"""Start of the note on truncated texts."""

Split = Literal["test", "validation"]
Cause = tuple[str, Mapping[str, Any]]
"""Likely cause, and the hyperparameters and sizes to change; None removes a setting."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a useless winner.

    Attributes:
        sentence: What is wrong with it.
        cause: The likely cause.
        command: The command to run next.
    """

    sentence: str
    cause: str
    command: str

    @property
    def lines(self) -> tuple[str, str, str]:
        """Sentence, likely cause and next command as three lines of text."""
        return self.sentence, f"Likely cause: {self.cause}.", f"Next: `{self.command}`"


def verdict(report: "Report", state: SearchState) -> Verdict | None:
    """Return the verdict on a study's winner; None if it is fine, or if there is none.

    A winner is useless if it predicts one class in most seeds, if its mean score is not above that
    of the majority class, or if it is below that of a linear model on the frozen encoder.
    """
    winner = report.winner
    if winner is None:
        return None
    runs = [run for run in state.runs_of(winner.number).values() if run.failure is None]
    fault = _collapse(runs) or _below(report, winner, state)
    if not fault:
        return None
    if report.repeats:
        cause = "that of the search which chose this configuration"
        return Verdict(fault, cause, report_command(report))
    found = next(_causes(report, state, winner, runs), None)
    if found is None:
        cause = "unknown; the page shows learning curves and wrong texts"
        return Verdict(fault, cause, report_command(report))
    cause, changes = found
    return Verdict(fault, cause, search_command(report, state.record, changes))


def against(
    winner: ConfigurationLine, baseline: ConfigurationLine, state: SearchState
) -> tuple[Comparison, Split] | None:
    """Return the paired comparison of a winner with a baseline, and the rows of the scores.

    These are the test rows, or the validation rows if no seed of the winner has been tested.
    """
    subsets = {one.number: one.rows["train"] for one in state.replicates}
    splits: tuple[Split, ...] = ("test", "validation")
    for split in splits:
        found = paired(winner, baseline, subsets, state.metric, split)
        if found is not None:
            return found, split
    return None


def _is_useless(comparison: Comparison, baseline: ConfigurationLine) -> bool:
    """Return whether a winner is useless by its comparison with a baseline.

    It must be above the majority class, and must not be below a linear model.
    """
    equal = comparison.difference == 0
    return comparison.difference < 0 or (equal and not is_linear(baseline))


def is_linear(baseline: ConfigurationLine) -> bool:
    """Return whether a baseline is a linear model on the frozen encoder, not the majority class."""
    return "encoder" in baseline.origin


def _collapse(runs: Iterable[SeedRun]) -> str:
    counts = [
        np.array(run.validation["confusion"])
        for run in runs
        if run.validation is not None and "confusion" in run.validation
    ]
    collapsed = sum(int((one.sum(0) > 0).sum() == 1) for one in counts)
    if 2 * collapsed <= len(counts):
        return ""
    return (
        f"The winner is useless: in {collapsed} of {counted(len(counts), 'seed')} it predicts one "
        "class for every validation row."
    )


def _below(report: "Report", winner: ConfigurationLine, state: SearchState) -> str:
    for baseline in report.baselines:
        found = against(winner, baseline, state)
        if found is None or not _is_useless(found[0], baseline):
            continue
        difference, split = found[0].difference, found[1]
        level = f"{in_points(-difference)} points below" if difference else "equal to"
        return (
            f"The winner is useless: its mean {split} {report.metric} is {level} that of the "
            f"baseline {baseline.origin}."
        )
    return ""


def _causes(
    report: "Report", state: SearchState, winner: ConfigurationLine, runs: Sequence[SeedRun]
) -> Iterator[Cause]:
    yield from _learning_rate(report, state, winner)
    updates = int(runs[0].evaluations[-1]["update"])
    if updates < FEW_UPDATES:
        name = "probe_epochs" if "probe_epochs" in winner.fields else "epochs"
        more = math.ceil(winner.fields[name] * FEW_UPDATES / updates)
        yield f"the last stage has only {counted(updates, 'update')}", {name: more}
    for note in state.record.origin["notes"]:
        if note.startswith(CUT):
            yield note.partition(":")[0], {"max_length": 2 * winner.fields["max_length"]}
    yield from _few_rows(state.record.origin)


def _learning_rate(
    report: "Report", state: SearchState, winner: ConfigurationLine
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
    rows, fewest = origin.get("training_rows") or (FEW_ROWS, None)
    if rows >= FEW_ROWS and (fewest is None or fewest >= FEW_ROWS_OF_CLASS):
        return
    smallest = "" if fewest is None else f", {fewest} of the smallest class"
    sizes = {name: MORE_ROWS * origin[name] for name in ("train_size", "shots") if origin.get(name)}
    label = "" if sizes else "; label more of them first"
    yield f"there are few training rows: {rows}{smallest}{label}", sizes
