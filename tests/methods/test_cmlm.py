"""Tests of the post-training of CMLM against Eq. (12) on masked views."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.cmlm import CMLM, corrupt, draw_selection
from sclsearch.objectives import sim_clr, sim_siam
from sclsearch.objectives.contrastive import feature_spread
from tests.methods.conftest import Made

Draw = Callable[[Tensor, Tensor], Tensor]


def one_text(batch: Batch) -> Batch:
    names = ("ids", "mask", "types", "content", "y")
    return replace(batch, **{name: getattr(batch, name)[:1] for name in names})


def complement(content: Tensor, first: Tensor) -> Tensor:
    return draw_selection(content & ~first, 0.7)


def drawn(
    encoder: Encoder, batch: Batch, method: CMLM, further: Draw
) -> tuple[Tensor, list[Tensor]]:
    """Return the selection of the first view, and the tokens of all views, from seed 5."""
    torch.manual_seed(5)
    selected = draw_selection(batch.content, method.p_m)
    hide = partial(corrupt, encoder, batch.ids)
    others = [hide(further(batch.content, selected)) for _ in range(method.k)]
    return selected, [hide(selected), *others]


def states_of(model: Model, batch: Batch, views: list[Tensor]) -> list[Tensor]:
    return [model.hidden(replace(batch, ids=ids)) for ids in views]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("contrast", ["simsiam", "simclr"])
def test_the_terms_equal_those_of_separately_encoded_views(
    made: Made, bert: Encoder, batch: Batch, k: int, contrast: Any
) -> None:
    method = CMLM(alpha=0.3, k=k, contrast=contrast, p_m=0.3, tau=0.2)
    model = made(method, stage=0).eval()
    selected, views = drawn(model.encoder, batch, method, complement)
    torch.manual_seed(5)
    terms = method.post_terms(model, batch)
    h = torch.stack([states[:, 0] for states in states_of(model, batch, views)])
    if contrast == "simclr":
        expected = sim_clr(h[0], h[1:], tau=0.2)
    else:
        first, last = model.new_modules["predictor"].parameters()
        z = F.gelu(h @ first.T) @ last.T
        expected = sim_siam(z[0], z[1:], h[0], h[1:])
    torch.testing.assert_close(terms["contrast"], 0.3 * expected)
    torch.testing.assert_close(terms["feature_spread"], feature_spread(h[0]))
    scores = model.new_modules["mlm"](states_of(model, batch, views)[0], bert.embeddings)
    costs = F.cross_entropy(scores[selected], batch.ids[selected])
    torch.testing.assert_close(terms["mlm"], costs)
    assert set(terms) == {"contrast", "feature_spread", "mlm"}


def test_with_drm_masking_views_are_masked_independently(made: Made, batch: Batch) -> None:
    method = CMLM(masking="drm", p_m=0.2, p_c=0.9, contrast="simclr")
    model = made(method, stage=0).eval()
    _, views = drawn(model.encoder, batch, method, lambda content, _: draw_selection(content, 0.2))
    torch.manual_seed(5)
    found = method.post_terms(model, batch)["contrast"]
    first, second = (states[:, 0] for states in states_of(model, batch, views))
    torch.testing.assert_close(found, 0.5 * sim_clr(first, second[None], tau=0.1))


def test_the_mean_over_tokens_can_be_contrasted(made: Made, batch: Batch) -> None:
    method = CMLM(contrast="simclr", contrast_pooling="mean")
    model = made(method, stage=0).eval()
    _, views = drawn(model.encoder, batch, method, complement)
    torch.manual_seed(5)
    found = method.post_terms(model, batch)["contrast"]
    first, second = (
        model.encoder.pool(states, batch.mask, "mean") for states in states_of(model, batch, views)
    )
    torch.testing.assert_close(found, 0.5 * sim_clr(first, second[None], tau=0.1))


def test_a_batch_without_selected_tokens_has_a_finite_loss(made: Made, batch: Batch) -> None:
    method = CMLM()
    model = made(method, stage=0)
    unselectable = replace(batch, content=torch.zeros_like(batch.content))
    (stage, _) = method.stages(Training())
    terms = stage.terms(model, unselectable)
    stage.loss(terms).backward()  # type: ignore[no-untyped-call]
    assert terms["mlm"] == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_a_batch_of_one_text_has_finite_terms(made: Made, batch: Batch) -> None:
    method = CMLM()
    terms = method.post_terms(made(method, stage=0), one_text(batch))
    assert all(term.isfinite() for term in terms.values())


def test_the_monitored_term_has_no_gradient_and_is_not_in_the_loss(
    made: Made, batch: Batch
) -> None:
    post, _ = CMLM().stages(Training())
    torch.manual_seed(5)
    terms = post.terms(made(CMLM(), stage=0).eval(), batch)
    assert not terms["feature_spread"].requires_grad
    torch.testing.assert_close(post.loss(terms), terms["contrast"] + terms["mlm"])


def test_a_new_masked_lm_head_is_noted_if_it_is_used(bert: Encoder) -> None:
    assert CMLM().check(bert) == ("masked-LM head: new, because the checkpoint of tiny has none",)
    assert CMLM(mlm=False).check(bert) == ()
