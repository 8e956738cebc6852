"""Output of commands: plans as text, and any result as JSON."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from sclsearch.canonical import counted, shown
from sclsearch.reports.terminal import duration, grid, race_sentence

if TYPE_CHECKING:
    from sclsearch.reports.report import Report

Plan = Mapping[str, Any]
"""Plan of a search, as `sclsearch.search.plan` returns it."""
LONG = 3600.0
"""Estimated seconds above which a dry run suggests shorter alternatives."""
# Characters left beside the row names of 9 columns. Class names may be long.
WIDTH = 71
ROWS = ("training", "validation", "test", "stages without labels")


def print_json(named: Mapping[str, Any]) -> None:
    """Print a mapping, which may contain dataclasses, as JSON to standard output."""
    sys.stdout.write(json.dumps(named, indent=2, ensure_ascii=False, default=asdict) + "\n")


def report_json(found: "Report") -> dict[str, Any]:
    """Return a report for JSON, with the number of the winner instead of its configuration."""
    return {**asdict(found), "winner": found.winner and found.winner.number}


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """Print a plan: every hyperparameter with its source, and the number of seed runs."""
    if as_json:
        print_json(plan)
    else:
        _show_plan(Console(), plan)


def _show_plan(console: Console, plan: Plan) -> None:
    _show_setup(console, _setup(plan) | {"study": plan["study"]}, plan["notes"])
    rows = [(name, searched_values(spec), "searched") for name, spec in plan["searched"].items()]
    rows += [(name, shown(one.value), one.source) for name, one in plan["fields"].items()]
    console.print()
    console.print(grid(("field", "value", "from"), rows))
    _show_work(console, plan)


def _setup(plan: Plan) -> dict[str, str]:
    """Return the data, the model and the places of a plan, by heading."""
    rows = " / ".join(str(count) for count in plan["rows"])
    kinds = " / ".join(ROWS[: len(plan["rows"])])
    return {
        "space": plan["space"],
        "task": f"{plan['task'][0]} from {plan['task'][1]}",
        **({"classes": _classes(plan["classes"])} if plan["classes"] else {}),
        "model": f"{plan['model'][0]} from {plan['model'][1]}",
        "device": ", ".join(plan["numerics"].split("-")),
        "protocol": f"{plan['protocol']}, rule {plan['rule']}, metric {plan['metric']}",
        "rows": f"{rows} ({kinds})",
        "storage": plan["storage"],
        "mlflow": plan["tracking"] or "none",
    }


def _show_setup(console: Console, setup: Mapping[str, str], notes: Sequence[str]) -> None:
    for what, text in setup.items():
        console.print(f"[bold]{what:<9}[/]{escape(text)}", soft_wrap=True)
    for note in notes:
        console.print(f"{'':<9}{escape(note)}", soft_wrap=True)


def _show_work(console: Console, plan: Plan) -> None:
    """Print what the search will train and test, and how long that takes."""
    console.print(f"\n{_total(plan)}; in the store: {plan['stored']}")
    if plan["race"] is not None:
        console.print(f"race: {race_sentence(plan['stages'], plan['race'])}", soft_wrap=True)
        console.print(f"to train: about {counted(plan['missing'], 'seed run')}")
    if plan["repeated"]:
        why = "its weights" if plan["test_scores"] == "all" else "test scores and weights"
        seed_runs = counted(plan["repeated"], "seed run")
        console.print(f"then to train again: {seed_runs} of the winner, for {why}")
    if plan["time"] is not None and plan["missing"]:
        _show_time(console, plan, plan["time"])


def _total(plan: Plan) -> str:
    """Return the number of seed runs, and how many configurations come first."""
    first = min(len(plan["published"]), plan["configurations"])
    beginning = f"; {first} ({plan['start']}) first" if first else ""
    seeds = counted(plan["seeds"], "seed")
    configurations = counted(plan["configurations"], "configuration")
    return f"{configurations} x {seeds} = {counted(plan['seed_runs'], 'seed run')}{beginning}"


def show_plans(
    console: Console, methods: Sequence[str], plans: Sequence[Plan], warning: str
) -> None:
    """Print a warning, what each method searches, its seed runs and time, and their sums."""
    if warning:
        console.print(f"{warning}\n", markup=False)
    notes = [note for note in plans[0]["notes"] if all(note in one["notes"] for one in plans)]
    shared = _setup(plans[0])
    if any(one["space"] != plans[0]["space"] for one in plans):
        del shared["space"]
    _show_setup(console, shared, notes)
    console.print()
    for method, one in zip(methods, plans, strict=True):
        console.print(f"[bold]{escape(method)}[/]  {escape(one['study'])}", soft_wrap=True)
        if "space" not in shared:
            console.print(f"  space: {one['space']}", markup=False, soft_wrap=True)
        for name, spec in one["searched"].items():
            console.print(f"  {name}: {searched_values(spec)}", markup=False, soft_wrap=True)
        for note in (note for note in one["notes"] if note not in notes):
            console.print(f"  {note}", markup=False, soft_wrap=True)
    rows: list[tuple[str, ...]] = [
        (
            method,
            f"{one['configurations']} x {one['seeds']}",
            str(one["seed_runs"]),
            str(one["stored"]),
            str(one["missing"]),
            _time_of(one),
        )
        for method, one in zip(methods, plans, strict=True)
    ]
    times = [one["time"].seconds for one in plans if one["time"]]
    known = [seconds for seconds in times if seconds is not None]
    missing = sum(one["missing"] for one in plans)
    total = duration(sum(known)) if known or not missing else "unknown"
    counts = (sum(one["seed_runs"] for one in plans), sum(one["stored"] for one in plans), missing)
    rows.append(("together", "", *map(str, counts), total))
    headings = ("method", "configurations\nx seeds", "seed runs", "stored", "missing", "time")
    console.print()
    console.print(grid(headings, rows))


def _time_of(plan: Plan) -> str:
    return duration(plan["time"].seconds if plan["time"] and plan["missing"] else 0.0)


def _show_time(console: Console, plan: Plan, time: Any) -> None:
    detail = f"{counted(time.at_once, 'seed run')} at a time, by {time.basis}"
    why = time.basis if time.seconds is None else detail
    console.print(f"time: {duration(time.seconds)}; {escape(why)}", soft_wrap=True)
    if (time.seconds or 0) > LONG and "laptop" not in plan["protocol"]:
        console.print("  shorter: --scale laptop, or fewer --seeds or --configs")


def _classes(rows: Mapping[str, int]) -> str:
    classes = ", ".join(f"{name} ({count})" for name, count in rows.items())
    return shorten(classes, WIDTH, placeholder=f" … ({len(rows)} in all)")


def searched_values(spec: dict[str, Any]) -> str:
    """Return the values or the range of a searched hyperparameter as text."""
    if spec["type"] == "choice":
        return " | ".join(shown(value) for value in spec["values"])
    scale = " log" if spec["type"] == "log" else ""
    return f"{spec['low']:g} … {spec['high']:g}{scale}"
