"""What a stage leaves for the configurations that differ after it alone: it is trained once."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.fields import resolved
from sclsearch.training.job import Job
from sclsearch.training.turn import Turn

Note = dict[str, object]
"""Losses of a stage at one of its updates, as a seed run has them."""


@dataclass(frozen=True, slots=True)
class StageEnd:
    """What a stage leaves. The next one begins with seeds of its own and needs no more.

    Attributes:
        weights: The encoder's, on the CPU.
        notes: The stage's losses.
        seconds: What its training took.
    """

    weights: Mapping[str, Tensor]
    notes: Sequence[Note]
    seconds: float


class Shelf(Protocol):
    """Where ends of stages are kept."""

    def take(self, identity: Mapping[str, object]) -> StageEnd | None:
        """Returns what is kept under an identity, whole, or None."""

    def keep(self, identity: Mapping[str, object], end: StageEnd) -> None:
        """Keeps the end of a stage, or does not; training goes on with the tensors it is given."""


def end_identity(job: Job, turn: Turn) -> dict[str, object] | None:
    """Returns what determines the encoder after a stage.

    None if it is the last one, whose end is the seed run, or if it or one before is not shared.
    """
    read: list[object] = [turn.after]
    for stage in (one.stage for one in job.turns[: turn.before + 1]):
        if turn.last or stage.shared_across is None:
            return None
        fields = resolved(job.method, stage.training)
        read.append([stage.name, {n: fields[n] for n in fields if n not in stage.shared_across}])
    # The rows of evaluation too: they say which embeddings are left out while a stage trains.
    return {**job.identity, "fields": read}


def take_or_train(
    shelf: Shelf | None,
    identity: Mapping[str, object] | None,
    encoder: Encoder,
    notes: list[Note],
    train: Callable[[], None],
) -> float:
    """Gives the encoder the weights that a stage leaves; returns the seconds that were saved.

    Args:
        shelf: Where it may be kept; None trains.
        identity: Of the stage's end; None trains.
        encoder: The encoder, as the stage before left it.
        notes: Gets the stage's losses.
        train: Trains the stage.
    """
    if shelf is None or identity is None:
        train()
        return 0.0
    end = shelf.take(identity)
    if end is not None:
        encoder.load_state_dict(end.weights)
        notes.extend(end.notes)
        return end.seconds
    started, before = time.perf_counter(), len(notes)
    train()
    seconds = time.perf_counter() - started
    weights = {name: tensor.detach().cpu() for name, tensor in encoder.state_dict().items()}
    shelf.keep(identity, StageEnd(weights, notes[before:], seconds))
    return 0.0
