"""LaCon-fusion is LaCon on an average of tokens, weighted by their match with the labels."""

from dataclasses import fields, replace
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from sclsearch.methods.lacon_fusion import LaConFusion
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.lacon import LaCon, vectors_of


def made(method: LaConFusion, encoder: Encoder) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, 3)).train()


def fused(model: Model, states: Tensor, *, relu: bool) -> Tensor:
    """Returns z of one text of all its tokens, `[d]`, by Eq. (9)."""
    convolution = dict(model.new_modules["attention"].named_parameters())
    weight, bias = convolution["conv.weight"], convolution["conv.bias"]
    cosines = F.cosine_similarity(vectors_of(model)[:, None], states[None], dim=2)  # [C, T]
    rows = cosines[None] if weight.shape[0] == 3 else cosines[:, None]
    matches = F.conv1d(rows, weight, bias, padding=weight.shape[2] // 2).reshape(cosines.shape)
    matches = matches.relu() if relu else matches
    return matches.max(0).values.softmax(0) @ states


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("mixing", ["full", "shared"])
@pytest.mark.parametrize("kernel", [1, 5])
def test_tokens_are_averaged_by_equation_9_and_padding_is_not_seen(
    bert: Encoder, batch: Batch, kernel: int, mixing: Literal["full", "shared"], relu: bool
) -> None:
    method = LaConFusion(heads=4, fusion_kernel=kernel, fusion_conv=mixing, fusion_relu=relu)
    model = made(method, bert)
    states = model.hidden(batch)
    expected = [
        fused(model, text[:length], relu=relu)
        for text, length in zip(states, batch.mask.sum(1).tolist(), strict=True)
    ]
    torch.testing.assert_close(method.fuse(model, batch), torch.stack(expected))


def test_special_tokens_get_no_weight_if_they_are_excluded(bert: Encoder, batch: Batch) -> None:
    method = LaConFusion(heads=4, fusion_exclude_special=True)
    model = made(method, bert)
    weights = model.new_modules["attention"].weights(  # type: ignore[operator]
        model.hidden(batch), vectors_of(model), batch.mask, batch.content
    )
    assert not weights[:, 0].any()
    expected = (weights[:, :, None] * model.hidden(batch)).sum(1)
    torch.testing.assert_close(method.fuse(model, batch), expected)
    kept = replace(method, fusion_exclude_special=False).fuse(model, batch)
    assert not torch.allclose(method.fuse(model, batch), kept)


def test_a_text_of_special_tokens_alone_is_read_by_them(bert: Encoder, batch: Batch) -> None:
    method = LaConFusion(heads=4, fusion_exclude_special=True)
    model = made(method, bert)
    content = batch.content.clone()
    content[0] = False
    found = method.fuse(model, replace(batch, content=content))
    kept = replace(method, fusion_exclude_special=False).fuse(model, batch)
    torch.testing.assert_close(found[0], kept[0])
    torch.testing.assert_close(found[1:], method.fuse(model, batch)[1:])


def test_fused_texts_are_learnt_and_matched_as_in_lacon(bert: Encoder, batch: Batch) -> None:
    shared = {
        "tau": 0.3,
        "lam": 0.2,
        "heads": 4,
        "tau_lcl": 0.7,
        "lcl_denominator": "all",
        "predict": "head_mean",
    }
    method, vanilla = LaConFusion(**shared), LaCon(**shared)  # type: ignore[arg-type]
    model = made(method, bert)
    z = method.fuse(model, batch)
    terms, expected = method.terms(model, batch), vanilla.losses(model, z, batch.y)
    assert list(terms) == list(expected)
    for name, term in terms.items():
        torch.testing.assert_close(term, expected[name])
    torch.testing.assert_close(method.scores(model, batch), vanilla.matches(model, z))


def test_what_is_shared_with_lacon_has_its_defaults_and_all_but_the_pooling_is() -> None:
    vanilla, fusion = LaCon(), LaConFusion()
    shared = {field.name for field in fields(LaCon)} - {"pooling"}
    own = {"fusion_kernel", "fusion_conv", "fusion_relu", "fusion_exclude_special"}
    assert {field.name for field in fields(LaConFusion)} == shared | own
    assert all(getattr(vanilla, name) == getattr(fusion, name) for name in shared)


def test_there_is_one_stage_and_label_vectors_and_g_have_their_own_rates() -> None:
    (stage,) = LaConFusion(label_lr_mult=10.0, g_lr_mult=3.0).stages(Training())
    assert stage.lr_scales == {"labels": 10.0, "g": 3.0}
    assert (stage.no_weight_decay, stage.frozen_pooling) == (("labels",), None)


def test_label_vectors_learn_through_the_attention_too(bert: Encoder, batch: Batch) -> None:
    method = LaConFusion(heads=4)
    model = made(method, bert)
    method.fuse(model, batch).square().sum().backward()  # type: ignore[no-untyped-call]
    for part in (model.encoder, model.new_modules["labels"], model.new_modules["attention"]):
        assert any(p.grad is not None and p.grad.any() for p in part.parameters())


def test_wrong_windows_and_wrong_heads_are_refused(bert: Encoder) -> None:
    assert LaConFusion(heads=4).check(bert) == ()
    with pytest.raises(SclsearchError, match=r"^fusion_kernel: must be odd.* 3 or 5\.$"):
        LaConFusion(heads=4, fusion_kernel=4).check(bert)
    with pytest.raises(SclsearchError, match=r"^heads: must divide the width"):
        LaConFusion(heads=6).check(bert)
