"""What a method is to the engine: parts, stages, terms and scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

from annotated_types import Ge, Gt, Interval, Lt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder

Terms = Mapping[str, Tensor]
Rate = Annotated[float, Ge(0), Lt(1)]


@dataclass(frozen=True, slots=True)
class Training:
    """What every method shares. Defaults: fairseq's GLUE recipe for RoBERTa, as Gunel et al. used.

    Attributes:
        learning_rate: Peak learning rate of AdamW; Gunel et al.: 1e-5.
        batch_size: Texts in a batch; Gunel et al.: 16.
        epochs: Passes over the training rows; fairseq: 10.
        warmup_ratio: Share of updates in which the rate rises linearly; fairseq: 0.06.
        weight_decay: Decoupled weight decay, not on biases and norms; fairseq: 0.1.
        dropout: Rate of hidden and attention dropout while training; 0.1 in all four papers.
        max_grad_norm: Norm to which gradients are clipped, 0 for no clipping; fairseq: 0.
        max_length: Tokens after which a text, or a pair, is cut; 128 in BERT's GLUE recipe.
        batch_sampling: `shuffle` every epoch, or `balanced`: classes equally often in each batch.
        drop_last: Whether a last batch of fewer rows is left out.
    """

    learning_rate: Annotated[float, Gt(0), Lt(1)] = 1e-5
    batch_size: Annotated[int, Ge(1)] = 16
    epochs: Annotated[int, Ge(1)] = 10
    warmup_ratio: Annotated[float, Interval(ge=0, le=1)] = 0.06
    weight_decay: Annotated[float, Ge(0)] = 0.1
    dropout: Rate = 0.1
    max_grad_norm: Annotated[float, Ge(0)] = 0.0
    max_length: Annotated[int, Interval(ge=4, le=8192)] = 128
    batch_sampling: Literal["shuffle", "balanced"] = "shuffle"
    drop_last: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as the engine hands them to a method.

    Attributes:
        ids: Token ids, `[B, T]`; B texts.
        mask: True at tokens, False at padding, `[B, T]`.
        types: Segment of each token, `[B, T]`.
        y: Class, `[B]` int64, or score, `[B]` float32.
        rates: Dropout rate of each view; a batch with V rates is seen V times.
        features: The frozen encoder's embeddings, `[B, d]`, in a stage that caches them.
    """

    ids: Tensor
    mask: Tensor
    types: Tensor
    y: Tensor
    rates: tuple[float, ...]
    features: Tensor | None = None

    @property
    def view_y(self) -> Tensor:
        """Label of each row of all views, `[V * B]`."""
        return self.y.repeat(len(self.rates))


class Model(nn.Module):
    """An encoder and what a method trains beyond it.

    Attributes:
        encoder: The pretrained encoder.
        parts: The method's own modules by name.
    """

    def __init__(self, encoder: Encoder, parts: nn.ModuleDict) -> None:
        super().__init__()
        self.encoder = encoder
        self.parts = parts

    def hidden(self, batch: Batch) -> Tensor:
        """Returns the last hidden states of all views, `[V * B, T, d]`."""
        return self.encoder.hidden(batch.ids, batch.mask, batch.types, batch.rates)

    def embed(self, batch: Batch, pooling: str) -> Tensor:
        """Returns one embedding a row and view, `[V * B, d]`; cached features where there are."""
        if batch.features is not None:
            return batch.features
        return self.encoder.pool(self.hidden(batch), batch.mask, pooling)


@dataclass(frozen=True, slots=True)
class Stage:
    """One training stage of a method.

    Attributes:
        name: For logs and errors.
        training: The settings of this stage.
        terms: The loss by named parts, each a scalar, already weighted.
        rates: Dropout rates of the views at an update, counted from 0; not read where features
            are cached, which are of one view without dropout.
        frozen_pooling: Set where the encoder does not train: how the features are pooled that
            the stage reads.
        encoder_train_mode: Whether dropout is active in a frozen encoder; if not, its features
            are computed once.
    """

    name: str
    training: Training
    terms: Callable[[Model, Batch], Terms]
    rates: Callable[[int], tuple[float, ...]]
    frozen_pooling: str | None = None
    encoder_train_mode: bool = False

    @property
    def cached(self) -> bool:
        """Whether the encoder's features are computed once for all epochs."""
        return self.frozen_pooling is not None and not self.encoder_train_mode


class Method(Protocol):
    """What the engine asks of a method: a frozen dataclass whose fields can be searched.

    Attributes:
        protocol: Name of the paper's protocol on full data.
        few_shot: Name of the paper's protocol when a training size is given.
        regression: Whether it can learn scores.
        training: The paper's settings where they differ from `Training`'s defaults.
    """

    protocol: ClassVar[str]
    few_shot: ClassVar[str]
    regression: ClassVar[bool]
    training: ClassVar[Mapping[str, object]]

    def check(self, encoder: Encoder) -> None:
        """Raises SclsearchError if the encoder cannot do what the method needs."""

    def parts(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Returns fresh modules; `classes` is 0 in regression."""

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Returns the stages in order; only the last is evaluated."""

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Returns `[B, C]`, or `[B]` in regression."""


def single_view(training: Training) -> Callable[[int], tuple[float, ...]]:
    """Returns the rates of a stage that sees each batch once, at the ordinary dropout rate."""
    return lambda _update: (training.dropout,)
