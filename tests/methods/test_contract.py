"""Contract of every method: its fields, labels, scores and stages; and defaults of Method."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class, method_summaries
from sclsearch.methods.base import Batch, Method, Model, Stage, Training
from sclsearch.methods.fields import describe_fields, description, resolved, typed
from sclsearch.protocols import PROTOCOLS


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> Method:
    """Return each method in turn, with fields that fit an encoder of width 16."""
    return method_class(request.param)(**{"heads": 4} if "lacon" in request.param else {})


@pytest.mark.parametrize("name", METHODS)
def test_every_method_names_its_paper_and_describes_and_bounds_its_fields(name: str) -> None:
    kind: Any = method_class(name)
    text, described = description(kind), describe_fields(kind)
    assert text.startswith(f"{method_summaries()[name]}\n")
    assert "https://" in text
    assert [field.name for field in described if not field.meaning] == []
    assert [field.name for field in described if not {*"<≤>≥|"} & {*field.kind}] == []
    names = [field.name for field in described]
    assert names == [field.name for owner in (kind, Training) for field in fields(owner)]
    assert len(set(names)) == len(names)
    values = resolved(kind(), Training(**kind.training))
    assert typed(kind, values, "") == values
    assert {kind.protocol, kind.few_shot} <= set(PROTOCOLS)


def test_an_encoder_without_pooler_or_mask_token_is_refused_by_the_methods_that_read_it(
    tiny_roberta: Path,
) -> None:
    encoder = load_encoder(tiny_roberta, "roberta")
    for name, field in (("ce", "pooling"), ("scl", "scl_features"), ("cssl", "contrast_pooling")):
        with pytest.raises(SclsearchError, match=f"^{field}: 'cls_pooled' .* pooler"):
            method_class(name)(**{field: "cls_pooled"}).check(encoder)
    encoder.mask_token = None
    for name in ("cmlm", "tapt"):
        with pytest.raises(SclsearchError, match=r"^p_m: .* mask token"):
            method_class(name)().check(encoder)
    method_class("cssl")().check(encoder)


def test_scores_depend_neither_on_padding_nor_on_other_rows_nor_on_dropout_rates(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    torch.manual_seed(0)
    for classes in (0, 3) if method.regression else (3,):
        model = Model(bert, method.stages(Training())[-1].new_modules(bert, classes)).eval()
        together = method.scores(model, batch)
        assert together.shape == ((8, classes) if classes else (8,))
        for row, length in enumerate(batch.mask.sum(1).tolist()):
            cut: dict[str, Any] = {
                name: getattr(batch, name)[row : row + 1, :length]
                for name in ("ids", "mask", "types", "content")
            }
            alone = replace(batch, y=batch.y[row : row + 1], dropout_rates=(0.5,), **cut)
            torch.testing.assert_close(method.scores(model, alone)[0], together[row])


def test_a_loss_is_the_sum_of_the_scalar_terms_that_are_not_monitored() -> None:
    stage = Stage("joint", Training(), lambda _model, _batch: {}, monitored=("spread",))
    terms = {"ce": torch.tensor(2.0), "spread": torch.tensor(40.0), "scl": torch.tensor(-0.5)}
    assert stage.loss(terms).item() == 1.5
    with pytest.raises(SclsearchError, match=r"^joint: loss term 'ce': must be a scalar.* \[3\]"):
        stage.loss({"ce": torch.ones(3)})
