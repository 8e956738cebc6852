"""Measured speed of an encoder on this machine, in training and in inference."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from timeit import repeat
from types import MappingProxyType

import torch

from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.ce import CE
from sclsearch.training.optimizer import adamw
from sclsearch.training.precision import autocast, device_for
from sclsearch.training.spec import Numerics
from sclsearch.training.workload import Workload

Step = Callable[[Batch], float]

CLASSES = 2
TIMES = 3
TOKENS: Mapping[str, int] = MappingProxyType({"cpu": 256, "cuda": 16384})
"""Tokens of the larger batch, by device; too few tokens leave a GPU idle."""
OCCURRING = 5_000
"""Distinct tokens in the texts of a small task; the engine leaves out the other embeddings."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time that an encoder needs, in seconds.

    Attributes:
        update: Seconds per update, without the time of its tokens.
        trained: Seconds per token, forward and backward.
        read: Seconds per token, forward only.
    """

    update: float
    trained: float
    read: float

    def seconds(self, load: Workload) -> float:
        """Return the duration of a workload, in seconds."""
        return self.update * load.updates + self.trained * load.trained + self.read * load.read


@cache
def measured_pace(folder: Path, name: str, numerics: Numerics, threads: int, length: int) -> Pace:
    """Return the measured pace of an encoder in cross-entropy training.

    A batch of one row gives the fixed time of an update, mainly that of the optimizer.

    Args:
        folder: Folder of the encoder.
        name: Name of the encoder, for errors.
        numerics: Device and precision.
        threads: Number of torch threads.
        length: Tokens per row.

    Raises:
        SclsearchError: The encoder cannot be loaded, or the device does not exist.
    """
    device = device_for(numerics)
    update, read = _steps(folder, name, device)
    # On a CPU this thread takes part in every computation. Its clock excludes other processes.
    clock = time.thread_time if device.type == "cpu" else time.perf_counter
    rows = max(TOKENS[device.type] // length, 2)
    one, many = (_batch(count, length, device) for count in (1, rows))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        least, most, reading = (
            # The first repetition is the slowest.
            min(repeat(partial(step, batch), number=1, repeat=TIMES, timer=clock))
            for step, batch in ((update, one), (update, many), (read, many))
        )
    finally:
        torch.set_num_threads(before)
    token = max(most - least, 0.0) / (length * (rows - 1))
    return Pace(max(least - token * length, 0.0), token, reading / (length * rows))


def _steps(folder: Path, name: str, device: torch.device) -> tuple[Step, Step]:
    """Return two functions, one update and one forward pass; both wait for the device."""
    encoder = load_encoder(folder, name).to(device)
    encoder.cut(torch.arange(min(len(encoder.embeddings), OCCURRING), device=device))
    # Mean pooling needs the whole last layer; poolings that read one state are a little faster.
    (stage,) = CE(pooling="mean").stages(Training())
    model = Model(encoder, stage.new_modules(encoder, CLASSES)).to(device)
    optimizer = adamw(model, stage)

    def update(batch: Batch) -> float:
        model.train()
        with autocast(device):
            loss = stage.loss(stage.terms(model, batch))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item()

    @torch.inference_mode()
    def read(batch: Batch) -> float:
        model.eval()
        with autocast(device):
            return model.hidden(batch).sum().item()

    return update, read


def _batch(rows: int, length: int, device: torch.device) -> Batch:
    """Return a batch without padding; its content does not affect the time."""
    ids = torch.ones(rows, length, dtype=torch.int64, device=device)
    return Batch(ids, ids > 0, ids * 0, ids > 0, ids[:, 0] * 0, (Training().dropout,))
