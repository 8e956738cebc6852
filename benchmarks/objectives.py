"""Time and peak memory of each objective, its plain formula and pytorch-metric-learning.

    python -m benchmarks.objectives [--rows 64 256 1024 4096 8192] [--seconds 1]

Forward and backward passes on one thread or on the GPU; the candidates take turns, and the fastest
time of each counts. Memory is the peak without the arguments. The values must agree, and the exit
code is 1 if ours is slower than another by more than `--slack`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.comparisons import CASES, CLASSES, Case, LossFunction
from benchmarks.machine import MEGA, header, markdown

LEAST, MOST = 3, 200
"""Minimum and maximum number of measurements."""


@dataclass(slots=True)
class Cost:
    """Cost of a candidate.

    Attributes:
        seconds: The fastest time.
        memory: Peak memory without the arguments, in bytes.
        value: The loss.
    """

    seconds: float = float("inf")
    memory: float = 0.0
    value: float = 0.0


def measured(case: Case, n: int, seconds: float, device: torch.device) -> dict[str, Cost]:
    """Return the costs of an objective and of the losses that it is compared with, by name."""
    torch.manual_seed(n)
    leaves = [torch.randn(shape, device=device).requires_grad_() for shape in case.shapes(n)]
    y = torch.arange(n, device=device) % CLASSES
    candidates = {"ours": case.ours, "plain": case.plain}
    if case.other is not None:
        candidates["pml"] = case.other(n)
    costs = {name: Cost() for name in candidates}
    begun, times = time.perf_counter(), 0
    while times < LEAST or (times < MOST and time.perf_counter() - begun < seconds):
        for name, loss in candidates.items():
            started = _now(device)
            costs[name].value = _once(loss, leaves, y)
            costs[name].seconds = min(costs[name].seconds, _now(device) - started)
        times += 1
    for name, loss in candidates.items():
        costs[name].memory = peak(partial(_once, loss, leaves, y), device)
    return costs


def _once(loss: LossFunction, leaves: Sequence[Tensor], y: Tensor) -> float:
    value = loss(*leaves, y)
    torch.autograd.grad(value, leaves, allow_unused=True)
    return float(value.detach())


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.thread_time()  # does not count other processes


def peak(call: Callable[[], object], device: torch.device) -> float:
    """Return the peak memory of a call in bytes."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        call()
    results: Any = profile.profiler
    events = [e for e in results.kineto_results.events() if e.name() == "[memory]"]
    most = held = 0.0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def lines(found: Mapping[tuple[str, int], Mapping[str, Cost]]) -> Iterator[str]:
    """Yield the table."""
    columns = ("objective", "N", "ours ms", "× plain", "× PML", "ours MB", "× plain", "× PML")
    yield from markdown(columns, [_row(*place, costs) for place, costs in found.items()])


def _row(name: str, n: int, costs: Mapping[str, Cost]) -> list[str]:
    ours, times, sizes = costs["ours"], [], []
    for other in ("plain", "pml"):
        cost = costs.get(other)
        times.append(f"{ours.seconds / cost.seconds:.2f}" if cost else "")
        sizes.append(f"{ours.memory / cost.memory:.2f}" if cost and cost.memory else "")
    seconds, memory = f"{1e3 * ours.seconds:.3g}", f"{ours.memory / MEGA:.3g}"
    return [f"`{name}`", str(n), seconds, *times, memory, *sizes]


def main() -> None:
    """Measure every objective and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2**k for k in range(6, 14)])
    parser.add_argument("--objectives", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seconds", type=float, default=2.0, help="for an objective and an N")
    parser.add_argument("--slack", type=float, default=1.1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = {
        (name, n): measured(CASES[name], n, given.seconds, device)
        for name in given.objectives
        for n in given.rows
    }
    print(header("pytorch-metric-learning"), *lines(found), sep="\n")
    for place, costs in found.items():
        for other in costs.values():
            assert abs(other.value - costs["ours"].value) < 1e-3 * max(1, abs(other.value)), place
    slower = [
        f"`{name}` at {n}"
        for (name, n), costs in found.items()
        if costs["ours"].seconds > given.slack * min(cost.seconds for cost in costs.values())
    ]
    print(f"\nSlower than another by more than {given.slack}: {', '.join(slower) or 'none'}.")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
