"""SetFit: contrast of pairs of texts, then logistic regression on the embeddings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from sclsearch.methods.base import (
    Batch,
    Method,
    Model,
    Stage,
    Terms,
    Training,
    balanced_batches,
)
from sclsearch.objectives import pair_loss


@dataclass(frozen=True)
class SetFit(Method):
    """Squared error of the cosines of pairs, then logistic regression on the embeddings.

    Stage 1 minimizes `pair_loss` over all pairs of a balanced batch, where the library of Tunstall
    et al., 2022, https://arxiv.org/abs/2209.11055, draws single pairs: a batch of B texts has
    B (B - 1) / 2 pairs for B passes of the encoder, B pairs there take 2 B passes. Stage 2 solves
    the head, see `sclsearch.methods.solve`. The defaults of learning rate, warm-up and weight decay
    are those of the library.

    Attributes:
        rows_per_class: Texts of each class in a batch, which has batch_size texts; more with few
            classes.
        pooling: Embedding that is compared and classified.
    """

    training: ClassVar[Mapping[str, object]] = {
        "learning_rate": 2e-5,
        "batch_size": 16,
        "warmup_ratio": 0.1,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
    }

    rows_per_class: Annotated[int, Ge(2)] = 4
    pooling: Literal["mean", "cls_raw", "cls_pooled"] = "mean"

    def stages(self, training: Training) -> tuple[Stage, ...]:
        batches = balanced_batches(self.rows_per_class)
        return (
            Stage("pairs", training, self.contrast, batches=batches),
            Stage(
                "head",
                training,
                self.terms,
                self.new_modules,
                frozen_pooling=self.pooling,
                solved=True,
            ),
        )

    def contrast(self, model: Model, batch: Batch) -> Terms:
        return {"pairs": pair_loss(model.embed(batch, self.pooling), batch.y)}
