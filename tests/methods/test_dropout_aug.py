"""The augmented baseline is cross-entropy averaged over dropout views."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from sclsearch.methods.dropout_aug import DropoutAug

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.ce import CE, Pooling
from sclsearch.methods.supcl_seq import SupCLSeq

POOLINGS: tuple[Pooling, ...] = ("head_hidden", "cls_raw", "cls_pooled", "mean")
EACH_POOLING = pytest.mark.parametrize("pooling", POOLINGS)


def made(method: DropoutAug, encoder: Encoder, classes: int = 2) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, classes)).train()


@EACH_POOLING
@pytest.mark.parametrize("classes", [0, 2])
def test_without_dropout_it_is_fine_tuning_on_one_view(
    bert: Encoder, batch: Batch, pooling: Pooling, classes: int
) -> None:
    method, one = DropoutAug(pooling=pooling, dropouts=(0.0, 0.0, 0.0)), CE(pooling=pooling)
    model = made(method, bert, classes)
    plain = batch if classes else replace(batch, y=torch.rand(8))
    terms = method.terms(model, replace(plain, rates=method.dropouts))
    assert list(terms) == ["ce"]
    torch.testing.assert_close(terms["ce"], one.terms(model, plain)["ce"])
    torch.testing.assert_close(method.scores(model, plain), one.scores(model, plain))


@pytest.mark.parametrize("classes", [0, 2])
def test_the_loss_is_the_mean_of_the_losses_of_the_views(
    bert: Encoder, batch: Batch, classes: int
) -> None:
    method, rates = DropoutAug(), (0.0, 0.2, 0.4)
    model = made(method, bert, classes)
    y = batch.y if classes else torch.rand(8)
    views = replace(batch, y=y, rates=rates)
    torch.manual_seed(4)
    embeddings = model.embed(views, "cls_pooled").chunk(3)
    head = model.get_submodule("new_modules.head")
    scores = [head(z, rate) for z, rate in zip(embeddings, rates, strict=True)]
    each = [F.cross_entropy(s, y) if classes else ((s - y) ** 2).mean() for s in scores]
    torch.manual_seed(4)
    torch.testing.assert_close(method.terms(model, views)["ce"], torch.stack(each).mean())
    assert len({loss.item() for loss in each}) == 3


def test_the_dropout_of_the_head_is_that_of_its_view(bert: Encoder, batch: Batch) -> None:
    method, rates = DropoutAug(), (0.0, 0.9)
    model = made(method, bert)
    seen = []
    head = model.get_submodule("new_modules.head")
    head.register_forward_pre_hook(lambda _head, inputs: seen.append((len(inputs[0]), inputs[1])))
    method.terms(model, replace(batch, rates=rates))
    assert seen == [(8, 0.0), (8, 0.9)]


def test_one_stage_trains_encoder_and_head_on_the_views_of_supcl_seq(bert: Encoder) -> None:
    training = Training(dropout=0.2, epochs=3)
    method = DropoutAug()
    (stage,) = method.stages(training)
    assert (stage.training, stage.frozen_pooling) == (training, None)
    assert [stage.rates_at(update) for update in (0, 9)] == [SupCLSeq().dropouts] * 2
    assert [name for name, _ in stage.new_modules(bert, 2).named_parameters()] == [
        "head.out.weight",
        "head.out.bias",
    ]
    assert DropoutAug.training == SupCLSeq.training


@EACH_POOLING
def test_a_text_is_scored_alone_as_in_a_padded_batch(
    bert: Encoder, batch: Batch, pooling: Pooling
) -> None:
    method = DropoutAug(pooling=pooling)
    model = made(method, bert, 3).eval()
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


def test_encoders_without_pooler_or_rates_by_view_are_refused(
    bert: Encoder, tiny_roberta: Path, tiny_mpnet: Path
) -> None:
    assert DropoutAug().check(bert) == ()
    roberta, mpnet = load_encoder(tiny_roberta, "roberta"), load_encoder(tiny_mpnet, "mpnet")
    with pytest.raises(SclsearchError, match=r"^pooling: 'cls_pooled' needs a pretrained pooler"):
        DropoutAug().check(roberta)
    with pytest.raises(SclsearchError, match=r"^dropouts: model .* cannot have"):
        DropoutAug(pooling="mean").check(mpnet)
