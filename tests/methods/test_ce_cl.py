"""CE+CL is cross-entropy over two dropout views and α times their contrast."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from sclsearch.methods.ce_cl import CECL

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.ce import CE, Pooling, encoder_pooling
from sclsearch.objectives import nt_xent

POOLINGS: tuple[Pooling, ...] = ("head_hidden", "cls_raw", "cls_pooled", "mean")
EACH_POOLING = pytest.mark.parametrize("pooling", POOLINGS)


def made(method: CECL, encoder: Encoder) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, 3)).train()


@pytest.mark.parametrize("contrast_pooling", ["mean", "cls_raw", "cls_pooled"])
@EACH_POOLING
def test_the_contrast_is_nt_xent_of_the_two_views(
    bert: Encoder,
    batch: Batch,
    pooling: Pooling,
    contrast_pooling: Literal["mean", "cls_raw", "cls_pooled"],
) -> None:
    method = CECL(tau=0.2, alpha=0.6, pooling=pooling, contrast_pooling=contrast_pooling)
    model, views = made(method, bert), replace(batch, rates=(0.3, 0.3))
    torch.manual_seed(4)
    _, z = model.embeddings(views, encoder_pooling(pooling), contrast_pooling)
    a, b = z.chunk(2)
    assert not torch.equal(a, b)
    torch.manual_seed(4)
    terms = method.terms(model, views)
    assert list(terms) == ["ce", "nt_xent"]
    torch.testing.assert_close(terms["nt_xent"], 0.6 * nt_xent(a, b, tau=0.2))


def test_the_contrast_has_the_weight_that_consert_gives_either_direction(
    bert: Encoder, batch: Batch
) -> None:
    method = CECL()
    model, views = made(method, bert), replace(batch, rates=(0.3, 0.3))
    torch.manual_seed(4)
    z = F.normalize(model.embed(views, "mean"))
    similar = (z @ z.T / 0.1).fill_diagonal_(-torch.inf)
    other_view = torch.arange(len(z)).roll(len(z) // 2)
    there, back = F.cross_entropy(similar, other_view, reduction="none").chunk(2)
    torch.manual_seed(4)
    found = method.terms(model, views)["nt_xent"]
    torch.testing.assert_close(found, 0.15 * (there.mean() + back.mean()))


def test_cross_entropy_is_the_mean_over_both_views(bert: Encoder, batch: Batch) -> None:
    method = CECL(pooling="cls_raw")
    model, views = made(method, bert), replace(batch, rates=(0.3, 0.3))
    head = model.get_submodule("new_modules.head")
    torch.manual_seed(4)
    pooled, _ = model.embeddings(views, "cls_raw", "mean")
    logits = head(pooled, 0.3).chunk(2)
    first, second = (F.cross_entropy(one, batch.y) for one in logits)
    assert first != second
    torch.manual_seed(4)
    torch.testing.assert_close(method.terms(model, views)["ce"], (first + second) / 2)


@EACH_POOLING
def test_without_contrast_and_dropout_it_is_cross_entropy(
    bert: Encoder, batch: Batch, pooling: Pooling
) -> None:
    method, plain = CECL(alpha=0.0, pooling=pooling), CE(pooling=pooling)
    model = made(method, bert)
    terms = method.terms(model, replace(batch, rates=(0.0, 0.0)))
    torch.testing.assert_close(terms["ce"], plain.terms(model, batch)["ce"])
    assert terms["nt_xent"] == 0
    torch.testing.assert_close(method.scores(model, batch), plain.scores(model, batch))


def test_one_stage_sees_two_views_at_the_ordinary_dropout(bert: Encoder) -> None:
    training = Training(dropout=0.2, epochs=3)
    (stage,) = CECL().stages(training)
    assert (stage.training, stage.frozen_pooling, stage.rates_at(5)) == (training, None, (0.2, 0.2))
    assert {name.split(".")[1] for name, _ in stage.new_modules(bert, 3).named_parameters()} == {
        "dense",
        "out",
    }


@EACH_POOLING
def test_a_text_is_scored_alone_as_in_a_padded_batch(
    bert: Encoder, batch: Batch, pooling: Pooling
) -> None:
    method = CECL(pooling=pooling)
    model = made(method, bert).eval()
    one, four = slice(3, 4), slice(4)
    assert batch.mask[one].sum() == 4
    alone = replace(
        batch,
        ids=batch.ids[one, four],
        mask=batch.mask[one, four],
        types=batch.types[one, four],
        content=batch.content[one, four],
        y=batch.y[one],
    )
    torch.testing.assert_close(method.scores(model, alone), method.scores(model, batch)[one])


@pytest.mark.parametrize(
    ("method", "field"),
    [
        (CECL(pooling="cls_pooled"), "pooling"),
        (CECL(contrast_pooling="cls_pooled"), "contrast_pooling"),
    ],
    ids=["pooling", "contrast_pooling"],
)
def test_a_pooler_that_is_not_there_is_refused_under_the_name_of_the_field(
    tiny_roberta: Path, method: CECL, field: str
) -> None:
    encoder = load_encoder(tiny_roberta, "roberta")
    assert CECL().check(encoder) == ()
    with pytest.raises(SclsearchError, match=f"^{field}: 'cls_pooled' needs a pretrained pooler"):
        method.check(encoder)
