"""How fast S replicates train as one batched program, beside one after the other, in one run.

    python -m benchmarks.lockstep [--rounds 3] [--updates 20] [--quick]

Random weights in the shapes of MiniLM and BERT-base, `scl` with its usual fields, batches of 16
texts of one length. Each round goes through all sizes, so that what else the machine does meets
all of them; a figure is the best of its rounds. S = 1 is the usual path, not a batched program of
one. On a GPU the table has the share of its measured matrix-product peak, and the memory.
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.machine import GIGA, header, markdown
from sclsearch.methods.base import Training
from sclsearch.methods.scl import SCL
from sclsearch.protocols.base import Parts, Rows
from sclsearch.protocols.replicates import all_seeds, seated
from sclsearch.tasks.base import Task
from sclsearch.training.job import Job, Work
from sclsearch.training.learner import Learner
from sclsearch.training.lockstep import program_of
from sclsearch.training.tokens import TokenisedTask, Tokens

Shape = Mapping[str, int]

BATCH, ROWS, VOCABULARY = 16, 64, 30522
SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "MiniLM": {"num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1536},
        "BERT-base": {"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072},
    }
)
TINY: Shape = MappingProxyType({"num_hidden_layers": 2, "hidden_size": 48, "intermediate_size": 96})
HEADS = 12
TERA = 1e12
COLUMNS = ("shape", "tokens", "S", "steps/s", "seed-run steps/s", "× S = 1", "% of peak", "GB")


@dataclass(frozen=True, slots=True)
class Pace:
    """What one size takes.

    Attributes:
        updates: Updates of a seed run in a second, of all S together.
        memory: Bytes at most, 0 on a CPU.
    """

    updates: float
    memory: int


def folder_of(shape: Shape, where: Path) -> Path:
    """Returns the folder of an encoder of a shape, with random weights and no tokenizer."""
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "num_attention_heads": HEADS, **shape}
    config = transformers.BertConfig(**sizes)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(where)
    return where


def works_of(model: Path, length: int, size: int) -> list[Work]:
    """Returns a seed run for each of S replicates, on random texts of one length."""
    rng = np.random.default_rng(0)
    shape = ROWS * length
    tokens = Tokens(
        ids=rng.integers(1000, VOCABULARY, shape).astype(np.int32),
        types=np.zeros(shape, dtype=np.int8),
        content=np.ones(shape, dtype=np.bool_),
        starts=np.arange(ROWS + 1, dtype=np.int64) * length,
        y=rng.integers(0, 2, ROWS),
    )
    rows = Rows("train", np.arange(ROWS))
    job = Job(
        task=Task("random", "random tokens", ("no", "yes"), "accuracy"),
        data_digest="",
        parts=Parts(rows, rows, rows),
        metric="accuracy",
        evaluate="end",
        keep="last",
        method_name="scl",
        method=SCL(),
        training=Training(batch_size=BATCH, epochs=1000),
        replicate=all_seeds(0),
        model_name="random",
        model=model,
        model_digest="",
        numerics="cuda-bf16" if torch.cuda.is_available() else "cpu-fp32",
    )
    task = TokenisedTask({"train": tokens}, 2, 0)
    return [
        Work(replace(job, replicate=seated(all_seeds, number, size)), task)
        for number in range(size)
    ]


def pace(model: Path, length: int, size: int, updates: int) -> Pace:
    """Returns how fast S replicates train together."""
    gc.collect()
    torch.cuda.empty_cache()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    works = works_of(model, length, size)
    learners = [Learner(work, works[0].occurring) for work in works]
    (turn,) = works[0].job.turns
    for learner in learners:
        learner.enter(turn)
    program = program_of(learners, works)
    orders = zip(*(work.order(turn) for work in works), strict=True)
    for _ in range(3):
        program.update(next(orders), turn.stage.rates_at(0), 1.0)
    started = now()
    for _ in range(updates):
        program.update(next(orders), turn.stage.rates_at(0), 1.0)
    seconds = now() - started
    memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return Pace(size * updates / seconds, memory)


def now() -> float:
    """Returns the time at which the device has done all that it was asked for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def operations(shape: Shape, length: int) -> float:
    """Returns the floating-point operations of an update, of matrix products alone."""
    layers, width, inner = (
        shape[name] for name in ("num_hidden_layers", "hidden_size", "intermediate_size")
    )
    weights = layers * (4 * width * width + 2 * width * inner)
    attention = layers * 2 * length * width
    forward = 2 * BATCH * length * (weights + attention)
    return 3.0 * forward


@cache
def peak() -> float:
    """Returns the most operations a second that a large matrix product reaches on a GPU."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    times = []
    for _ in range(20):
        started = now()
        a @ a
        times.append(now() - started)
    return float(2 * len(a) ** 3 / min(times))


def rows(
    shapes: Mapping[str, Shape], lengths: list[int], sizes: list[int], rounds: int, updates: int
) -> Iterator[list[str]]:
    """Yields the rows of the table."""
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory(prefix="lockstep-") as where:
            model = folder_of(shape, Path(where))
            for length in lengths:
                found: dict[int, list[Pace]] = {size: [] for size in sizes}
                for _ in range(rounds):
                    for size in sizes:
                        found[size].append(pace(model, length, size, updates))
                best = {s: max(paces, key=lambda one: one.updates) for s, paces in found.items()}
                for size, one in best.items():
                    ratio = one.updates / best[sizes[0]].updates
                    own = (one.updates / size, one.updates, ratio)
                    figures = [f"{figure:.2f}" for figure in own]
                    yield [name, str(length), str(size), *figures, *_gpu(one, shape, length)]


def _gpu(one: Pace, shape: Shape, length: int) -> tuple[str, str]:
    if not one.memory:
        return "–", "–"
    share = one.updates * operations(shape, length) / peak()
    return f"{100 * share:.1f}", f"{one.memory / GIGA:.1f}"


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 5, 10, 16])
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 32, 128])
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="a tiny shape, to see that it runs")
    given = parser.parse_args()
    shapes: Mapping[str, Shape] = {name: SHAPES[name] for name in given.shapes}
    if given.quick:
        shapes, given.sizes, given.lengths = {"tiny": TINY}, [1, 2, 4], [16]
        given.rounds, given.updates = 2, 5
    found = rows(shapes, given.lengths, given.sizes, given.rounds, given.updates)
    for line in markdown(COLUMNS, found):
        print(line, flush=True)
    if torch.cuda.is_available():
        print(f"\nThe peak is {peak() / TERA:.0f} TFLOP/s, in products of bfloat16 matrices.")
    print(f"\n{header()}")


if __name__ == "__main__":
    main()
