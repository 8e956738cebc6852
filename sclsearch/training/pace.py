"""How fast this machine trains and reads an encoder, timed on a few batches."""

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
"""Tokens of the larger batch; few leave a GPU idle."""
OCCURRING = 5_000
"""Tokens of the vocabulary that the texts of a small task have; the engine leaves out the rest."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that an encoder takes.

    Attributes:
        update: For an update, beside its tokens.
        trained: For a token forward and backward.
        read: For a token forward alone.
    """

    update: float
    trained: float
    read: float

    def seconds(self, load: Workload) -> float:
        """Returns how long a workload takes."""
        return self.update * load.updates + self.trained * load.trained + self.read * load.read


@cache
def measured_pace(folder: Path, name: str, numerics: Numerics, threads: int, length: int) -> Pace:
    """Returns the pace of an encoder under cross-entropy training.

    A batch of one row tells what an update takes beside its tokens, above all the optimizer.

    Args:
        folder: The encoder's.
        name: The encoder's, for errors.
        numerics: Device and precision.
        threads: Torch threads.
        length: Tokens of a row.

    Raises:
        SclsearchError: The encoder cannot be loaded, or there is no such device.
    """
    device = device_for(numerics)
    update, read = _steps(folder, name, device)
    # This thread takes part in all that a CPU computes; what others do meanwhile is not counted.
    clock = time.thread_time if device.type == "cpu" else time.perf_counter
    rows = max(TOKENS[device.type] // length, 2)
    one, many = (_batch(count, length, device) for count in (1, rows))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        least, most, reading = (
            # The first of the times is the longest.
            min(repeat(partial(step, batch), number=1, repeat=TIMES, timer=clock))
            for step, batch in ((update, one), (update, many), (read, many))
        )
    finally:
        torch.set_num_threads(before)
    token = max(most - least, 0.0) / (length * (rows - 1))
    return Pace(max(least - token * length, 0.0), token, reading / (length * rows))


def _steps(folder: Path, name: str, device: torch.device) -> tuple[Step, Step]:
    """Returns what updates an encoder by a batch, and what reads a batch; both wait for the end."""
    encoder = load_encoder(folder, name).to(device)
    encoder.cut(torch.arange(min(len(encoder.embeddings), OCCURRING), device=device))
    # The mean needs all of the last layer; what reads one state of it is a little faster.
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
    """Returns a batch without padding; how long it takes does not depend on what it says."""
    ids = torch.ones(rows, length, dtype=torch.int64, device=device)
    return Batch(ids, ids > 0, ids * 0, ids > 0, ids[:, 0] * 0, (Training().dropout,))
