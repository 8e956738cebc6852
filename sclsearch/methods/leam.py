"""Method LEAM (Wang et al., 2018, https://arxiv.org/abs/1805.04174) on an encoder, as in LaCon."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import label_vectors
from sclsearch.encoders.label_attention import Mixing, WindowAttention, check_window
from sclsearch.methods.base import Batch, Model, Rate, Stage, Terms, Training
from sclsearch.methods.lacon import TRAINING, vectors_of
from sclsearch.objectives import prediction_loss


@dataclass(frozen=True, slots=True)
class LEAM:
    """Cross-entropy on an average of the tokens, weighted by their match with label vectors.

    The classifier also classifies the label vectors. LEAM reads word vectors. Here the tokens are
    the encoder's last states, as in LaCon's comparison, which does not state its settings. LEAM
    initializes each label vector with the mean word vector of the label's name; here they are
    random.

    Attributes:
        kernel: Tokens in the convolution's window, odd; the released code has 55.
        conv: `full` mixes the rows of the labels, as in the released code; `shared` applies one
            filter to each row, as in the paper.
        label_penalty: Weight of the cross-entropy of the label vectors; the released code has 1.
        mlp_width: Width of the classifier's hidden layer, 0 for the encoder's width; the released
            code has the width of the word vectors, 300.
        mlp_dropout: Dropout probability before both layers of the classifier; the released code
            has 0.5.
        label_init_std: Standard deviation of the label vectors at initialization; not stated in
            the paper; BERT's 0.02.
        label_lr_mult: Multiplier of the learning rate for the label vectors; not stated in the
            paper; 1. The label vectors have no weight decay.
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"
    regression: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = TRAINING

    kernel: Annotated[int, Ge(1)] = 55
    conv: Mixing = "full"
    label_penalty: Annotated[float, Ge(0)] = 1.0
    mlp_width: Annotated[int, Ge(0)] = 0
    mlp_dropout: Rate = 0.5
    label_init_std: Annotated[float, Gt(0)] = 0.02
    label_lr_mult: Annotated[float, Gt(0)] = 1.0

    def check(self, encoder: Encoder) -> tuple[str, ...]:  # noqa: ARG002
        """Raise SclsearchError if `kernel` is even."""
        check_window(self.kernel, "kernel")
        return ()

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return new label vectors, a new attention module and a new classifier."""
        width, hidden = encoder.width, self.mlp_width or encoder.width
        mlp = nn.Sequential(
            nn.Dropout(self.mlp_dropout),
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Dropout(self.mlp_dropout),
            nn.Linear(hidden, classes),
        )
        attention = WindowAttention(classes, self.kernel, mixing=self.conv)
        labels = label_vectors(classes, width, self.label_init_std)
        return nn.ModuleDict({"labels": labels, "attention": attention, "mlp": mlp})

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
        """Return the loss terms `ce` and `label`, the cross-entropy of the label vectors."""
        vectors = vectors_of(model)
        classes = torch.arange(len(vectors), device=vectors.device)
        own = prediction_loss(model.new_modules["mlp"](vectors), classes)
        return {
            "ce": prediction_loss(self.scores(model, batch), batch.y, model.class_weights),
            "label": self.label_penalty * own,
        }

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores, `[B, C]`."""
        z = model.new_modules["attention"](
            model.hidden(batch), vectors_of(model), batch.mask, batch.mask
        )
        scores: Tensor = model.new_modules["mlp"](z)
        return scores
