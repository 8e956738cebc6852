"""SimCSE contrasts the views of SupCL-Seq with each text as a class of its own."""

from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from sclsearch.methods.simcse import SimCSE
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Stage, Training
from sclsearch.methods.supcl_seq import SupCLSeq
from sclsearch.objectives import nt_xent
from sclsearch.training.optimizer import adamw

TRAINING = Training(learning_rate=0.01, epochs=2, batch_size=48, dropout=0.2)


def made(stage: Stage, encoder: Encoder, classes: int = 2) -> Model:
    torch.manual_seed(0)
    return Model(encoder, stage.new_modules(encoder, classes)).train()


def embedded(model: Model, views: Batch, pooling: str) -> Tensor:
    torch.manual_seed(4)
    return model.embed(views, pooling)  # [V * 8, 16]


def hash_of(encoder: Encoder) -> str:
    weights = b"".join(tensor.numpy().tobytes() for tensor in encoder.state_dict().values())
    return sha256(weights).hexdigest()


def three_steps(model: Model, stage: Stage, batch: Batch) -> None:
    model.encoder.requires_grad_(stage.frozen_pooling is None)
    optimiser = adamw(model, stage)
    for update in range(3):
        optimiser.zero_grad()
        terms = stage.terms(model, replace(batch, rates=stage.rates_at(update)))
        stage.loss(terms).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def test_two_views_are_contrasted_by_nt_xent(bert: Encoder, batch: Batch) -> None:
    contrast, _ = SimCSE(tau=0.2, dropouts=(0.1, 0.1)).stages(TRAINING)
    model, views = made(contrast, bert), replace(batch, rates=contrast.rates_at(0))
    a, b = embedded(model, views, "cls_pooled").chunk(2)
    assert not torch.equal(a, b)
    torch.manual_seed(4)
    terms = contrast.terms(model, views)
    assert list(terms) == ["sup_con"]
    torch.testing.assert_close(terms["sup_con"], nt_xent(a, b, tau=0.2))


def test_with_more_views_every_other_view_of_a_text_is_its_positive(
    bert: Encoder, batch: Batch
) -> None:
    tau = 0.2
    contrast, _ = SimCSE(tau=tau, pooling="mean").stages(TRAINING)
    model, views = made(contrast, bert), replace(batch, rates=contrast.rates_at(0))
    z = torch.nn.functional.normalize(embedded(model, views, "mean"), dim=1)
    costs = []
    for anchor in range(24):
        others = [row for row in range(24) if row != anchor]
        whole = torch.stack([z[anchor] @ z[row] / tau for row in others]).logsumexp(0)
        positives = [row for row in others if row % 8 == anchor % 8]
        assert len(positives) == 2
        costs += [whole - z[anchor] @ z[row] / tau for row in positives]
    torch.manual_seed(4)
    found = contrast.terms(model, views)["sup_con"]
    torch.testing.assert_close(found, torch.stack(costs).mean())


@pytest.mark.parametrize("scores", [False, True], ids=["classes", "scores"])
def test_the_contrast_reads_no_label(bert: Encoder, batch: Batch, scores: bool) -> None:
    method = SimCSE()
    model = made(method.stages(TRAINING)[0], bert)
    other = replace(batch, y=torch.rand(8) if scores else 1 - batch.y)
    assert torch.equal(
        method.contrast(model, other)["sup_con"], method.contrast(model, batch)["sup_con"]
    )


def test_all_but_the_labels_of_the_contrast_is_supcl_seqs() -> None:
    own = {
        "tau": 0.2,
        "dropouts": (0.0, 0.3),
        "pooling": "mean",
        "probe_learning_rate": 0.02,
        "probe_epochs": 7,
    }
    assert {*own} == {field.name for field in fields(SimCSE)}
    ours = SimCSE(**own).stages(TRAINING)  # type: ignore[arg-type]
    theirs = SupCLSeq(**own).stages(TRAINING)  # type: ignore[arg-type]
    for our, their in zip(ours, theirs, strict=True):
        assert (our.name, our.training, our.frozen_pooling, our.cached, our.rates_at(3)) == (
            their.name,
            their.training,
            their.frozen_pooling,
            their.cached,
            their.rates_at(3),
        )
    assert [stage.rates_at(3) for stage in ours] == [(0.0, 0.3), (0.2,)]
    assert SimCSE.training == SupCLSeq.training


def test_contrast_trains_the_encoder_alone_and_the_probe_its_head_alone(
    bert: Encoder, batch: Batch
) -> None:
    contrast, probe = SimCSE().stages(TRAINING)
    fresh = hash_of(bert)
    model = made(contrast, bert)
    assert not model.new_modules
    three_steps(model, contrast, batch)
    trained = hash_of(bert)
    assert trained != fresh
    model = made(probe, bert)
    before = {name: tensor.clone() for name, tensor in model.new_modules.state_dict().items()}
    assert [*before] == ["head.out.weight", "head.out.bias"]
    three_steps(model, probe, batch)
    assert hash_of(bert) == trained
    for name, tensor in model.new_modules.state_dict().items():
        assert not torch.equal(tensor, before[name])


@pytest.mark.parametrize("classes", [0, 3])
def test_a_text_is_scored_alone_as_in_a_padded_batch(
    bert: Encoder, batch: Batch, classes: int
) -> None:
    method = SimCSE(pooling="mean")
    model = made(method.stages(TRAINING)[1], bert, classes).eval()
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
    assert SimCSE().check(bert) == ()
    roberta, mpnet = load_encoder(tiny_roberta, "roberta"), load_encoder(tiny_mpnet, "mpnet")
    with pytest.raises(SclsearchError, match=r"^pooling: 'cls_pooled' needs a pretrained pooler"):
        SimCSE().check(roberta)
    with pytest.raises(SclsearchError, match=r"^dropouts: model .* cannot have"):
        SimCSE(pooling="mean").check(mpnet)
