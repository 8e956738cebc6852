"""Cost of a seed run, in rows."""

from sclsearch.training.optimizer import evaluation_points, updates_of, updates_per_epoch
from sclsearch.training.spec import SeedRunSpec

FORWARD = 1 / 3
"""Time of a forward pass, as a share of the time of a forward and a backward pass."""


def row_costs(spec: SeedRunSpec) -> tuple[float, float]:
    """Return what a seed run costs before its test, and what its test adds.

    The unit is the forward and backward pass of one row. The test adds nothing after a stage with a
    frozen encoder, which computes the embeddings of all rows at once.
    """
    splits, evaluations, trained, read = spec.splits, 1, 0.0, 0
    test = len(splits.test.index)
    for stage in (stages := spec.stages):
        count = len(splits.train.index) * (1 + spec.joined)
        if splits.unlabeled is not None and not stage.labeled:
            count = len(splits.unlabeled.index)
        if stage.frozen_pooling is not None:
            read += count
            continue
        updates = updates_of(count, stage.training, spec.max_updates)
        trained += updates * min(stage.training.batch_size, count) * stage.views
        if stage is stages[-1]:
            per_epoch = updates_per_epoch(count, stage.training)
            evaluations = len(evaluation_points(spec.evaluate, per_epoch, updates))
    if stages[-1].frozen_pooling is not None:
        read, test = read + test, 0
    return trained + FORWARD * (read + evaluations * len(splits.validation.index)), FORWARD * test
