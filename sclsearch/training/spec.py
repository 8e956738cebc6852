"""Specification of a seed run, its key, and its cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sclsearch.canonical import digest
from sclsearch.methods.base import Method, Stage, Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.base import Evaluate, Replicate, Splits
from sclsearch.tasks.base import Task
from sclsearch.training.optimizer import evaluation_points, updates_of, updates_per_epoch

ENGINE_VERSION = 7
"""Version of the engine. Raise it when training results change; a test pins a tiny training."""
GPU_ENGINE_VERSION = 8
"""Version of the engine on GPUs. Raise it with the other one, or when only results there change."""

Numerics = Literal["cpu-fp32", "cpu-bf16", "cuda-fp32", "cuda-tf32", "cuda-bf16"]


@dataclass(frozen=True, slots=True)
class SeedRunSpec:
    """Full specification of a seed run: one configuration and one replicate."""

    task: Task
    data_digest: str  # SHA-256 of the task's rows
    splits: Splits  # training rows as drawn, validation rows and test rows
    metric: str  # picks the best evaluation
    evaluate: Evaluate
    keep: Literal["best", "last"]  # evaluation that gives the reported score
    method_name: str
    method: Method
    training: Training
    replicate: Replicate
    model_name: str  # for errors
    model: Path  # folder of the encoder
    model_digest: str  # SHA-256 of the encoder's files
    numerics: Numerics  # device and precision
    max_updates: int | None = None  # updates after which a stage ends
    last_updates: int | None = None  # the same for the last stage alone; None uses `max_updates`
    method_digest: str = ""  # SHA-256 of the file of a custom method
    joined: int = 0  # paraphrases of each training row that are added to the training rows
    unlabeled_digest: str = ""  # SHA-256 of the task's unlabeled texts, if any

    @property
    def shared_identity(self) -> dict[str, object]:
        """Part of the identity that all seed runs of a study share."""
        given = {
            "max_updates": self.max_updates,
            "last_updates": self.last_updates,
            "method_file": self.method_digest,
            "joined": self.joined,
            "unlabeled_digest": self.unlabeled_digest if self.splits.unlabeled else "",
        }
        return {
            **{name: found for name, found in given.items() if found},
            "engine": GPU_ENGINE_VERSION if self.on_gpu else ENGINE_VERSION,
            "data": self.data_digest,
            "metric": self.metric,
            "evaluate": self.evaluate,
            "keep": self.keep,
            "method": self.method_name,
            "weights": self.model_digest,
            "numerics": self.numerics,
        }

    @property
    def identity(self) -> dict[str, object]:
        """Everything that determines the results of the seed run, and nothing else."""
        return {
            **self.shared_identity,
            "rows": self.splits.digests,
            "fields": resolved(self.method, self.training),
            "seeds": self.replicate.seeds,
        }

    @property
    def on_gpu(self) -> bool:
        return self.numerics.startswith("cuda")

    @property
    def graphs(self) -> bool:
        """True if updates can be replayed as CUDA graphs: a custom class must state it itself."""
        stated: bool = vars(type(self.method)).get("cuda_graphs", False)
        return self.on_gpu and (stated or not self.method_digest)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.method.stages(self.training)

    def most_updates(self, remaining: int) -> int | None:
        """Return the updates after which a stage ends that `remaining` stages follow, if any."""
        return self.max_updates if remaining else self.last_updates or self.max_updates

    @property
    def key(self) -> str:
        return digest(self.identity)


FORWARD = 1 / 3
"""Time of a forward pass, as a share of the time of a forward and a backward pass."""


def seed_run_costs(spec: SeedRunSpec) -> tuple[float, float]:
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
        updates = updates_of(count, stage, spec.max_updates)
        trained += updates * min(stage.training.batch_size, count) * stage.views
        if stage is stages[-1]:
            per_epoch = updates_per_epoch(count, stage.training)
            evaluations = len(evaluation_points(spec.evaluate, per_epoch, updates))
    if stages[-1].frozen_pooling is not None:
        read, test = read + test, 0
    return trained + FORWARD * (read + evaluations * len(splits.validation.index)), FORWARD * test
