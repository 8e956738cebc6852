"""What one seed run is made of, and the key that names it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sclsearch.canonical import digest
from sclsearch.methods.base import Method, Stage, Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.base import Evaluate, Rows, Splits
from sclsearch.protocols.replicates import Replicate
from sclsearch.tasks.base import Index, Task
from sclsearch.training.batches import batches_in_order
from sclsearch.training.joined import joined_rows
from sclsearch.training.tokens import TokenizedTask, Tokens

ENGINE_VERSION = 6
"""Raised by hand when the figures of a training change; a pinned tiny training says when."""

Numerics = Literal["cpu-fp32", "cuda-bf16"]


@dataclass(frozen=True, slots=True)
class SeedRunSpec:
    """One configuration on one replicate.

    Attributes:
        task: What is learnt.
        data_digest: SHA-256 of the task's rows.
        splits: Rows for training, as drawn, validation and test.
        metric: Name of the metric that picks the best evaluation.
        evaluate: When validation is computed.
        keep: Which evaluation counts.
        max_updates: Updates after which a stage ends; None for no limit.
        method_name: The method's name.
        method: The method with its fields.
        training: The training fields.
        replicate: The seeds.
        model_name: The encoder's name, for errors.
        model: The encoder's folder.
        model_digest: SHA-256 of the encoder's files.
        numerics: Device and precision.
        method_digest: SHA-256 of the file of a user's own method, otherwise empty.
        joined: Paraphrases of each training row that join the training rows.
        bare_digest: SHA-256 of the task's texts that have no label; empty if all have one.
    """

    task: Task
    data_digest: str
    splits: Splits
    metric: str
    evaluate: Evaluate
    keep: Literal["best", "last"]
    method_name: str
    method: Method
    training: Training
    replicate: Replicate
    model_name: str
    model: Path
    model_digest: str
    numerics: Numerics
    max_updates: int | None = None
    method_digest: str = ""
    joined: int = 0
    bare_digest: str = ""

    @property
    def shared_identity(self) -> dict[str, object]:
        """What all seed runs of a study have in common of their identity."""
        given = {
            "most_updates": self.max_updates,
            "method_file": self.method_digest,
            "joined": self.joined,
            "without_label": self.bare_digest if self.splits.unlabeled else "",
        }
        return {
            **{name: found for name, found in given.items() if found},
            "engine": ENGINE_VERSION,
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
        """Everything that determines the figures of the seed run, and nothing else.

        The records of a study tell the same without a job (`store.records`).
        """
        return {
            **self.shared_identity,
            "rows": self.splits.digests,
            "fields": resolved(self.method, self.training),
            "seeds": self.replicate.seeds,
        }

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The method's stages in their order."""
        return self.method.stages(self.training)

    @property
    def key(self) -> str:
        """SHA-256 of the identity: the name of the seed run."""
        return digest(self.identity)


@dataclass(frozen=True, slots=True)
class TrainingData:
    """A job with the arrays it reads.

    Attributes:
        spec: The seed run.
        tokens: The task, tokenised at the job's `max_length`.
    """

    spec: SeedRunSpec
    tokens: TokenizedTask

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know of the texts."""
        rows, longest = self.spec.splits.test, self.spec.training.max_length
        full = self.tokens.splits[rows.split].lengths_of(rows.index) >= longest
        if not full.any():
            return ()
        told = f"{full.sum()} of {len(full)} test texts reach it; what is longer is cut"
        return (f"max_length={longest}: {told}",)

    @property
    def train(self) -> Rows:
        """The rows that are trained on: those drawn, and the paraphrases that join them."""
        drawn = self.spec.splits.train
        return joined_rows(drawn, self.spec.joined, len(self.tokens.splits[drawn.split].y))

    def rows_of(self, stage: Stage) -> Rows:
        """Returns what a stage trains on: further texts too where it reads no labels."""
        return self._unlabeled(stage) or self.train

    def order(self, stage: Stage, remaining: int) -> Iterator[Index]:
        """Yield the rows of each batch of a stage that has so many stages after it."""
        rows = self.rows_of(stage)
        y = self.tokens.splits[rows.split].y[rows.index]
        seed, most = self.spec.replicate.order, self.spec.max_updates
        for positions in batches_in_order(y, stage.training, remaining, seed, most):
            yield rows.index[positions]

    def read(self, stage: Stage, index: Index) -> tuple[Tokens, Index]:
        """Returns what a stage reads of some rows: their texts, or two paraphrases of each."""
        if stage.reads == "texts":
            drawn = self._unlabeled(stage) or self.spec.splits.train
            return self.tokens.splits[drawn.split], index
        return self.tokens.paraphrases_of(index)

    @property
    def occurring(self) -> Index:
        """The tokens of all texts that the seed run reads, and padding, ascending."""
        splits = self.spec.splits
        trained = splits.unlabeled or self.train
        found = [
            self.tokens.splits[rows.split].occurring(rows.index)
            for rows in (trained, splits.validation, splits.test)
        ]
        if self.tokens.paraphrases is not None:
            views, both = self.tokens.paraphrases_of(trained.index)
            found.append(views.occurring(both))
        return np.unique(np.concatenate([*found, [self.tokens.pad]])).astype(np.int64)

    def _unlabeled(self, stage: Stage) -> Rows | None:
        return None if stage.reads_labels else self.spec.splits.unlabeled
