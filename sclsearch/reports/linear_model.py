"""Linear model on the frozen encoder, the baseline of every report, as a model to export."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import by_split
from sclsearch.reports.export_record import Refit, RefitRows
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.report import Report

if TYPE_CHECKING:
    from torch import Tensor

    from sclsearch.reports.refit import RestoredWinner


@dataclass(frozen=True, slots=True)
class FittedModel:
    """Linear model on the frozen encoder.

    Attributes:
        weights: Weights of the encoder and of the head of `ce` that computes the linear model.
        fields: Hyperparameters of `ce` that determine its predictions.
        refit: Rows of the model, if they are more than those of a seed.
    """

    weights: "Mapping[str, Tensor]"
    fields: Mapping[str, Any]
    refit: Refit | None


def linear_baseline(found: Report) -> ConfigurationLine:
    """Return the scores of the linear model in a report.

    Raises:
        SclsearchError: The report has none.
    """
    for line in found.baselines:
        if "encoder" in line.origin and line.reported:
            return line
    raise SclsearchError(
        f"--baseline: {found.study} has no linear model on the frozen encoder. Run its search "
        "again to fit it."
    )


def fit_linear(
    found: Report, winner: "RestoredWinner", replicate: int, rows: RefitRows | None
) -> FittedModel:
    """Fit the linear model on the training rows of a replicate, or on the rows of a refit."""
    from torch import nn

    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.methods.base import Model
    from sclsearch.training.baselines import linear_head
    from sclsearch.training.data import tokenize_task

    study, splits, refit = winner.study, winner.splits[replicate], None
    data = study.data
    if rows is not None:
        from sclsearch.reports.refit import refit_rows

        data, splits, refit = refit_rows(winner, rows)
    searched = found.space.get("max_length")
    length = winner.spec.training.max_length
    if isinstance(searched, Mapping):  # the search fits the baselines at the greatest length
        length = max(searched["values"])
    tokenizer = load_tokenizer(study.model)
    tokens = tokenize_task(data, tokenizer, length, used=by_split([splits.train]))
    encoder = load_encoder(study.model, study.model_name)
    head = linear_head(encoder, data, tokens, splits.train, gpu=winner.spec.on_gpu)
    weights = Model(encoder.cpu(), nn.ModuleDict({"head": head})).state_dict()
    return FittedModel(weights, {"pooling": "mean", "max_length": length}, refit)
