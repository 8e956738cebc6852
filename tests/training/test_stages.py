"""Tests of what stages pass on to the next one, and of frozen encoders."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.scl import SCL
from sclsearch.training import engine
from sclsearch.training.data import Tokens
from sclsearch.training.engine import train
from sclsearch.training.spec import SeedRunSpec
from tests.training.conftest import Weights, WeightsSeen, WorkFor


def encoder_of(weights: Weights) -> Weights:
    return {name: tensor for name, tensor in weights.items() if name.startswith("encoder.")}


def same(one: Weights, other: Weights) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_each_stage_continues_with_the_encoder_and_changes_it_unless_it_is_frozen(
    work_for: WorkFor, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    seen: list[tuple[bool, Weights, Weights]] = []
    train_stage = engine._train_stage

    def recorded(
        spec: SeedRunSpec,
        tokens: dict[str, Tokens],
        position: int,
        encoder: Encoder,
        *others: Any,
        **options: Any,
    ) -> None:
        before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
        train_stage(spec, tokens, position, encoder, *others, **options)
        after = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
        seen.append((spec.stages[position].frozen_pooling is not None, before, after))

    monkeypatch.setattr(engine, "_train_stage", recorded)
    work = work_for(method, epochs=1)
    train(*work)
    assert len(seen) == len(work.spec.stages)
    for (_, _, end), (_, start, _) in pairwise(seen):
        assert same(end, start)
    for frozen, before, after in seen:
        assert same(before, after) == frozen


def test_a_stage_starts_with_new_modules(work_for: WorkFor, weights_seen: WeightsSeen) -> None:
    first, second = weights_seen(SCL, "contrast"), weights_seen(SCL)
    train(*work_for("scl", lam=1.0, pooling="head_hidden", scl_features="head_hidden"))
    bias, weight = "new_modules.head.dense.bias", "new_modules.head.dense.weight"
    assert not first[0][bias].any()
    assert first[-1][bias].any()
    assert not second[0][bias].any()
    assert not torch.equal(second[0][weight], first[0][weight])
    assert not torch.equal(second[0][weight], first[-1][weight])
    assert not same(encoder_of(first[0]), encoder_of(second[0]))


@pytest.mark.parametrize("method", ["ce", "supcl-seq"])
@pytest.mark.parametrize("most", [1, 5, 1000])
def test_max_updates_limits_every_stage(work_for: WorkFor, method: str, most: int) -> None:
    work = work_for(method, evaluate="end", epochs=2)
    spec = replace(work.spec, max_updates=most)
    result: Any = train(*work._replace(spec=spec))
    planned = [6 * stage.training.epochs for stage in spec.stages]
    assert result.evaluations[-1]["update"] == min(planned[-1], most)
    assert [one["update"] for one in result.stages][-1:] == [min(u, most) for u in planned[:-1]]
