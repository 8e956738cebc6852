"""Checkpoint of an unfinished seed run: all that its training needs to resume bit for bit."""

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

_DIGEST = 32  # bytes of a SHA-256


class Kept(NamedTuple):
    """Best weights so far, the rank of their evaluation, and the decay of unread tokens."""

    weights: Mapping[str, Tensor] = {}
    rank: tuple[float, float] = (-math.inf, -math.inf)
    decay: float = 1.0


@dataclass(frozen=True)
class TrainingState:
    """State of a seed run after an evaluation, or after a loss record of an earlier stage."""

    position: int  # of the stage
    update: int  # last update of the stage, counted from 1
    model: Mapping[str, Any]  # state dict of the stage's model
    optimizer: Mapping[int, Any]  # state of AdamW by number of the parameter
    random: tuple[Tensor, list[Tensor]]  # states of torch's generators: of the CPU, of each GPU
    best: tuple[Mapping[str, Tensor], tuple[float, float], float]  # fields of `Kept`
    result: Mapping[str, Any]  # fields of `TrainingResult` so far, with tensors for arrays


class Checkpoint:
    """Checkpoint that a training resumes, and writes when it is due; this class writes none."""

    def __init__(self, every: float = math.inf, state: TrainingState | None = None) -> None:
        self.every, self.state = every, state
        self._last = time.perf_counter()
        self._begun = self._last - (state.result["seconds"] if state else 0.0)

    @property
    def seconds(self) -> float:
        """Seconds of training, with those of the resumed state."""
        return time.perf_counter() - self._begun

    @property
    def due(self) -> bool:
        return time.perf_counter() - self._last >= self.every

    def write(self, _state: TrainingState) -> None:
        self._last = time.perf_counter()


def save_state(path: Path, state: TrainingState, owner: Mapping[str, str]) -> None:
    """Write a state and its owner, the seed run, to a file that begins with its SHA-256."""
    with path.open("wb+") as file:
        file.write(bytes(_DIGEST))
        torch.save({**vars(state), "owner": dict(owner)}, file)
        file.seek(_DIGEST)
        digest = hashlib.file_digest(file, "sha256").digest()
        file.seek(0)
        file.write(digest)


def load_state(path: Path, owner: Mapping[str, str]) -> TrainingState:
    """Return a state, with tensors on the CPU; raise ValueError for a damaged or foreign file."""
    with path.open("rb") as file:
        if file.read(_DIGEST) != hashlib.file_digest(file, "sha256").digest():
            raise ValueError("its checksum differs")
        file.seek(_DIGEST)
        # Tensors and plain values alone: a storage must not run code.
        values = torch.load(file, map_location="cpu", weights_only=True)
    if values.pop("owner") != owner:
        raise ValueError("it is of another seed run or of other versions")
    return TrainingState(**values)
