"""Method LSAN (Xiao et al., 2019, https://aclanthology.org/D19-1044) on an encoder, as in LaCon."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import Head, label_vectors
from sclsearch.encoders.label_attention import LabelSpecificAttention
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.lacon import TRAINING, vectors_of
from sclsearch.objectives import prediction_loss


@dataclass(frozen=True, slots=True)
class LSAN:
    """Cross-entropy on text vectors of each label, from the text's attention and the label's.

    LSAN reads a bidirectional LSTM and ends in a sigmoid. Here the tokens are the encoder's last
    states, and softmax replaces the sigmoid, as in LaCon's comparison. LSAN's label vectors are
    given and fixed; here they start at random and are trained.

    Attributes:
        attention_dim: Width of the hidden layer in the self-attention; the released code has 200.
        label_init_std: Standard deviation of the label vectors at initialization; not stated in
            the paper; BERT's 0.02.
        label_lr_mult: Multiplier of the learning rate for the label vectors; not stated in the
            paper; 1. The label vectors have no weight decay.
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"
    regression: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = TRAINING

    attention_dim: Annotated[int, Ge(1)] = 200
    label_init_std: Annotated[float, Gt(0)] = 0.02
    label_lr_mult: Annotated[float, Gt(0)] = 1.0

    def check(self, encoder: Encoder) -> tuple[str, ...]:  # noqa: ARG002
        """Return no notes; the method supports every encoder."""
        return ()

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return new label vectors, a new attention module and a new linear layer."""
        width = encoder.width
        return nn.ModuleDict(
            {
                "labels": label_vectors(classes, width, self.label_init_std),
                "attention": LabelSpecificAttention(width, classes, self.attention_dim),
                "head": Head(width, classes, hidden=False),
            }
        )

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the one stage, fine-tuning."""
        return (
            Stage(
                "fine-tuning",
                training,
                self.terms,
                self.new_modules,
                lr_scales={"labels": self.label_lr_mult},
                no_weight_decay=("labels",),
            ),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss term `ce`."""
        return {"ce": prediction_loss(self.scores(model, batch), batch.y, model.class_weights)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores, `[B, C]`."""
        by_label = model.new_modules["attention"](
            model.hidden(batch), vectors_of(model), batch.mask
        )  # [B, C, d]
        scores: Tensor = model.new_modules["head"](by_label.mean(1), batch.rates[0])
        return scores
