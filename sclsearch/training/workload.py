"""Number of updates, tokens and rows that a seed run feeds to the encoder, without training."""

from dataclasses import astuple, dataclass

from sclsearch.methods.base import Stage
from sclsearch.protocols.base import Rows, by_split
from sclsearch.training.batches import batches_in_order
from sclsearch.training.schedule import evaluation_points, updates_of, updates_per_epoch
from sclsearch.training.spec import TrainingData
from sclsearch.training.tokens import TokenizedTask


@dataclass(frozen=True, slots=True)
class Workload:
    """Number of updates, tokens and rows that an encoder processes, without padding.

    Attributes:
        updates: Updates of the encoder.
        trained: Tokens of forward and backward passes.
        read: Tokens of passes that are forward only.
        rows: Rows that these tokens belong to; a row counts each time that it is read.
    """

    updates: int = 0
    trained: int = 0
    read: int = 0
    rows: int = 0

    def __add__(self, other: "Workload") -> "Workload":
        """Return the sum of two workloads."""
        return Workload(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def workload(work: TrainingData) -> Workload:
    """Return the encoder workload of `train`, computed from the lengths of the rows only."""
    found = Workload()
    stages = work.spec.stages
    for position, stage in enumerate(stages):
        remaining = len(stages) - 1 - position
        if stage.cached:
            splits = work.spec.splits
            own = work.rows_of(stage)
            rows = (own, splits.validation, splits.test) if remaining == 0 else (own,)
            found += _reading(work.tokens, *rows)
        else:
            found += _training(work, stage, remaining)
            found += _evaluating(work, stage) if remaining == 0 else Workload()
    return found


def _training(work: TrainingData, stage: Stage, remaining: int) -> Workload:
    spec = work.spec
    rows = work.rows_of(stage)
    labeled = work.tokens.splits[rows.split]
    copies, lengths = 1, labeled.lengths_of(rows.index)
    if stage.reads == "paraphrases":
        both, index = work.tokens.paraphrases_of(rows.index)
        copies, lengths = 2, both.lengths_of(index).reshape(2, -1).sum(0)
    updates, seen, tokens = 0, 0, 0
    y, order = labeled.y[rows.index], spec.replicate.order
    for positions in batches_in_order(y, stage.training, remaining, order, spec.max_updates):
        views = len(stage.rates_at(updates))
        updates, seen = updates + 1, seen + copies * views * len(positions)
        tokens += views * int(lengths[positions].sum())
    if stage.frozen_pooling is not None:
        return Workload(read=tokens, rows=seen)
    return Workload(updates, trained=tokens, rows=seen)


def _evaluating(work: TrainingData, stage: Stage) -> Workload:
    spec, rows = work.spec, len(work.rows_of(stage).index)
    total = updates_of(rows, stage.training, spec.max_updates)
    points = evaluation_points(spec.evaluate, updates_per_epoch(rows, stage.training), total)
    validation = _reading(work.tokens, spec.splits.validation)
    return sum([validation] * len(points), _reading(work.tokens, spec.splits.test))


def _reading(task: TokenizedTask, *splits: Rows) -> Workload:
    """Return the workload of one forward pass over each distinct row of some splits."""
    rows = sum(len(index) for index in by_split(splits).values())
    tokens = sum(int(task.splits[n].lengths_of(i).sum()) for n, i in by_split(splits).items())
    return Workload(read=tokens, rows=rows)
