"""What a seed run puts through the encoder, counted and not computed."""

from dataclasses import astuple, dataclass

from sclsearch.methods.base import Stage
from sclsearch.protocols.base import Rows, by_split
from sclsearch.training.batches import batches_in_order
from sclsearch.training.job import Work
from sclsearch.training.schedule import evaluation_points, updates_of, updates_per_epoch
from sclsearch.training.tokens import TokenisedTask


@dataclass(frozen=True, slots=True)
class Workload:
    """What goes through the encoder; padding is not counted.

    Attributes:
        updates: Updates of the encoder.
        trained: Tokens that go forward and backward.
        read: Tokens that go forward alone.
        rows: Rows that these tokens are of, each as often as it is seen.
    """

    updates: int = 0
    trained: int = 0
    read: int = 0
    rows: int = 0

    def __add__(self, other: "Workload") -> "Workload":
        """Returns both together."""
        return Workload(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def workload(work: Work) -> Workload:
    """Returns what `train` puts through the encoder; of the tokens it reads the lengths alone."""
    found = Workload()
    stages = work.job.stages
    for position, stage in enumerate(stages):
        remaining = len(stages) - 1 - position
        if stage.cached:
            parts = work.job.parts
            own = work.rows_of(stage)
            rows = (own, parts.validation, parts.test) if remaining == 0 else (own,)
            found += _reading(work.tokens, *rows)
        else:
            found += _training(work, stage, remaining)
            found += _evaluating(work, stage) if remaining == 0 else Workload()
    return found


def _training(work: Work, stage: Stage, remaining: int) -> Workload:
    job = work.job
    rows = work.rows_of(stage)
    labelled = work.tokens.splits[rows.split]
    copies, lengths = 1, labelled.lengths_of(rows.index)
    if stage.reads == "paraphrases":
        both, index = work.tokens.paraphrases_of(rows.index)
        copies, lengths = 2, both.lengths_of(index).reshape(2, -1).sum(0)
    updates, seen, tokens = 0, 0, 0
    y, order = labelled.y[rows.index], job.replicate.order
    for positions in batches_in_order(y, stage.training, remaining, order, job.most_updates):
        views = len(stage.rates_at(updates))
        updates, seen = updates + 1, seen + copies * views * len(positions)
        tokens += views * int(lengths[positions].sum())
    if stage.frozen_pooling is not None:
        return Workload(read=tokens, rows=seen)
    return Workload(updates, trained=tokens, rows=seen)


def _evaluating(work: Work, stage: Stage) -> Workload:
    job, rows = work.job, len(work.rows_of(stage).index)
    total = updates_of(rows, stage.training, job.most_updates)
    points = evaluation_points(job.evaluate, updates_per_epoch(rows, stage.training), total)
    validation = _reading(work.tokens, job.parts.validation)
    return sum([validation] * len(points), _reading(work.tokens, job.parts.test))


def _reading(task: TokenisedTask, *parts: Rows) -> Workload:
    """Returns what reading each row of some parts once takes."""
    rows = sum(len(index) for index in by_split(parts).values())
    tokens = sum(int(task.splits[n].lengths_of(i).sum()) for n, i in by_split(parts).items())
    return Workload(read=tokens, rows=rows)
