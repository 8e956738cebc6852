"""Method LaCon-fusion (Zhang et al., 2022, section 2.6, https://arxiv.org/abs/2205.10227)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Interval
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.label_attention import Mixing, WindowAttention, check_window
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.lacon import TRAINING, LaCon, vectors_of
from sclsearch.objectives.lacon import (
    Denominator,
    HeadReduction,
    HeadSim,
    LabelReduction,
    PositiveReduction,
    Predict,
)


@dataclass(frozen=True, slots=True)
class LaConFusion:
    """LaCon whose g reads an average of all tokens, weighted by their match with the labels.

    Eq. (9): the label vectors also weight the tokens' last states. The paper states neither the
    width of the convolution nor the rows that it mixes. The rows follow LEAM's code, but the width
    does not: LEAM's is 55.

    Attributes:
        tau: As in `lacon`, like all fields up to `label_lr_mult`.
        lam: As in `lacon`.
        heads: As in `lacon`.
        tau_lcl: As in `lacon`.
        icl: As in `lacon`.
        lcl: As in `lacon`.
        icl_head_reduction: As in `lacon`.
        head_sim: As in `lacon`.
        lcl_positive_reduction: As in `lacon`.
        lcl_denominator: As in `lacon`.
        ler_reduction: As in `lacon`.
        predict: As in `lacon`.
        g_layers: As in `lacon`.
        g_final_relu: As in `lacon`.
        g_lr_mult: As in `lacon`; the convolution has the encoder's learning rate.
        label_init_std: As in `lacon`.
        label_lr_mult: As in `lacon`.
        fusion_kernel: Tokens in the convolution's window, odd; not stated in the paper; 5.
        fusion_conv: `full` mixes the rows of the labels, as in LEAM's code; `shared` applies one
            filter to each row, as in LEAM's paper; not stated in the paper.
        fusion_relu: Apply ReLU after the convolution; not stated in the paper; LEAM does.
        fusion_exclude_special: Give [CLS] and [SEP] no weight; the paper keeps [CLS].
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"
    regression: ClassVar[bool] = False
    cross_entropy: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = TRAINING

    tau: Annotated[float, Gt(0)] = 0.1
    lam: Annotated[float, Ge(0)] = 0.5
    heads: Annotated[int, Ge(1)] = 6
    tau_lcl: Annotated[float, Ge(0)] = 0.0
    icl: bool = True
    lcl: bool = True
    icl_head_reduction: HeadReduction = "sum"
    head_sim: HeadSim = "cosine"
    lcl_positive_reduction: PositiveReduction = "sum"
    lcl_denominator: Denominator = "negatives"
    ler_reduction: LabelReduction = "mean"
    predict: Predict = "full"
    g_layers: Annotated[int, Interval(ge=0, le=8)] = 3
    g_final_relu: bool = False
    g_lr_mult: Annotated[float, Gt(0)] = 1.0
    label_init_std: Annotated[float, Gt(0)] = 0.02
    label_lr_mult: Annotated[float, Gt(0)] = 1.0
    fusion_kernel: Annotated[int, Ge(1)] = 5
    fusion_conv: Mixing = "full"
    fusion_relu: bool = True
    fusion_exclude_special: bool = False

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError as `LaCon.check` does, or if `fusion_kernel` is even."""
        check_window(self.fusion_kernel, "fusion_kernel")
        return self._vanilla.check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return LaCon's new modules and a new attention module."""
        new_modules = self._vanilla.new_modules(encoder, classes)
        new_modules["attention"] = WindowAttention(
            classes, self.fusion_kernel, mixing=self.fusion_conv, relu=self.fusion_relu
        )
        return new_modules

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the one stage, matching of texts and labels."""
        (vanilla,) = self._vanilla.stages(training)
        return (replace(vanilla, terms=self.terms, new_modules=self.new_modules),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return LaCon's loss terms for the fused texts."""
        return self._vanilla.losses(model, self.fuse(model, batch), batch.y)

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the cosine of each fused text and label, `[B, C]`."""
        return self._vanilla.matches(model, self.fuse(model, batch))

    def fuse(self, model: Model, batch: Batch) -> Tensor:
        """Return the fused text embedding z of Eq. (9), `[B, d]`."""
        counted = batch.mask
        if self.fusion_exclude_special:
            # A text with only special tokens gives them the weight.
            counted = batch.content | (batch.mask & ~batch.content.any(1, keepdim=True))
        z: Tensor = model.new_modules["attention"](
            model.hidden(batch), vectors_of(model), batch.mask, counted
        )
        return z

    @property
    def _vanilla(self) -> LaCon:
        shared = {field.name for field in fields(LaCon)} & {field.name for field in fields(self)}
        return LaCon(**{name: getattr(self, name) for name in shared})
