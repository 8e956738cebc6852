"""What every method must hold: published defaults, documented and bounded fields."""

import inspect
import pickle
import re
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
from annotated_types import BaseMetadata, Interval, MinLen

from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Method, Training
from sclsearch.methods.fields import field_errors, resolved
from sclsearch.protocols import PROTOCOLS

LACON: Mapping[str, object] = {
    "tau": 0.1,
    "lam": 0.5,
    "heads": 6,
    "tau_lcl": 0.0,
    "icl": True,
    "lcl": True,
    "icl_head_reduction": "sum",
    "head_sim": "cosine",
    "lcl_positive_reduction": "sum",
    "lcl_denominator": "negatives",
    "ler_reduction": "mean",
    "predict": "full",
    "g_layers": 3,
    "g_final_relu": False,
    "g_lr_mult": 1.0,
    "label_init_std": 0.02,
    "label_lr_mult": 1.0,
}
PUBLISHED: Mapping[str, Mapping[str, object]] = {
    "ce": {"pooling": "head_hidden", "projection": "none"},
    "scl": {
        "tau": 0.3,
        "lam": 0.9,
        "scl_reduction": "mean_valid",
        "scl_features": "cls_raw",
        "pooling": "head_hidden",
    },
    "supcl-seq": {
        "tau": 0.05,
        "dropouts": (0.0, 0.1, 0.2),
        "pooling": "cls_pooled",
        "view_mode": "paper",
        "loss_scale": "one",
        "probe_learning_rate": 1e-3,
        "probe_epochs": 5,
        "probe_encoder_mode": "eval",
    },
    "simcse": {
        "tau": 0.05,
        "dropouts": (0.0, 0.1, 0.2),
        "pooling": "cls_pooled",
        "probe_learning_rate": 1e-3,
        "probe_epochs": 5,
    },
    "dropout-aug": {"dropouts": (0.0, 0.1, 0.2), "pooling": "cls_pooled"},
    "lacon": {**LACON, "pooling": "cls_raw"},
    "lacon-fusion": {
        **LACON,
        "fusion_kernel": 5,
        "fusion_conv": "full",
        "fusion_relu": True,
        "fusion_exclude_special": False,
    },
    "leam": {
        "kernel": 55,
        "conv": "full",
        "label_penalty": 1.0,
        "mlp_width": 0,
        "mlp_dropout": 0.5,
        "label_init_std": 0.02,
        "label_lr_mult": 1.0,
    },
    "lsan": {"attention_dim": 200, "label_init_std": 0.02, "label_lr_mult": 1.0},
    "ce-cl": {"tau": 0.1, "alpha": 0.3, "pooling": "head_hidden", "contrast_pooling": "mean"},
    "cmlm": {
        "alpha": 0.5,
        "p_m": 0.15,
        "p_c": 0.7,
        "k": 1,
        "masking": "crm",
        "drm_prob": "p_m",
        "crm_corruption": "80_10_10",
        "mlm": True,
        "mlm_reduction": "tokens",
        "contrast": "simsiam",
        "contrast_pooling": "cls_raw",
        "predictor": "paper",
        "simsiam_wrap": "exp",
        "tau": 0.1,
        "post_learning_rate": 1e-5,
        "post_batch_size": 8,
        "post_epochs": 5,
        "pooling": "head_hidden",
    },
    "tapt": {
        "p_m": 0.15,
        "mlm_reduction": "tokens",
        "post_learning_rate": 1e-5,
        "post_batch_size": 8,
        "post_epochs": 5,
        "pooling": "head_hidden",
    },
    "cssl": {
        "tau": 0.07,
        "contrast_pooling": "cls_raw",
        "post_learning_rate": 1e-5,
        "post_batch_size": 8,
        "post_epochs": 5,
        "pooling": "head_hidden",
    },
}
PUBLISHED_TRAINING: Mapping[str, object] = {
    "learning_rate": 1e-5,
    "batch_size": 16,
    "epochs": 10,
    "warmup_ratio": 0.06,
    "weight_decay": 0.1,
    "dropout": 0.1,
    "max_grad_norm": 0.0,
    "max_length": 128,
    "batch_sampling": "shuffle",
    "drop_last": False,
}


def documented(kind: type) -> list[str]:
    attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    return re.findall(r"^    (\w+): \S", attributes, flags=re.MULTILINE)


def bounded(hint: Any) -> bool:
    """Returns whether a type lets through only what makes sense."""
    if get_origin(hint) is not Annotated:
        return hint is bool or get_origin(hint) is Literal
    inner, *bounds = get_args(hint)
    if get_origin(inner) is tuple:
        return bounded(get_args(inner)[0]) and any(isinstance(bound, MinLen) for bound in bounds)
    return any(isinstance(bound, BaseMetadata | Interval) for bound in bounds)


def test_the_published_values_are_the_defaults(kind: Any) -> None:
    name = next(name for name in METHODS if method_class(name) is kind)
    assert resolved(kind(), Training()) == {**PUBLISHED[name], **PUBLISHED_TRAINING}


@pytest.mark.parametrize("kind", [*map(method_class, METHODS), Training], ids=lambda k: k.__name__)
def test_every_field_is_documented_in_order(kind: Any) -> None:
    assert documented(kind) == [field.name for field in fields(kind)]


@pytest.mark.parametrize("kind", [*map(method_class, METHODS), Training], ids=lambda k: k.__name__)
def test_every_field_has_bounds_or_a_list_of_values(kind: Any) -> None:
    hints = get_type_hints(kind, include_extras=True)
    assert [field.name for field in fields(kind) if not bounded(hints[field.name])] == []


@pytest.mark.parametrize("hint", [float, int, str, Annotated[float, "no bound"], tuple[float, ...]])
def test_a_bare_type_has_no_bounds(hint: Any) -> None:
    assert not bounded(hint)


def test_no_field_is_named_as_a_training_field(kind: Any) -> None:
    assert not {field.name for field in fields(kind)} & {field.name for field in fields(Training)}


def test_the_defaults_lie_within_their_own_bounds(kind: Any) -> None:
    assert field_errors(kind, resolved(kind(), Training(**kind.training))) == []


def test_the_protocols_exist(kind: Any) -> None:
    assert {kind.protocol, kind.few_shot} <= set(PROTOCOLS)


def test_methods_travel_to_workers_and_are_never_changed(method: Method) -> None:
    assert pickle.loads(pickle.dumps(method)) == method
    assert hash(method) == hash(pickle.loads(pickle.dumps(method)))
    with pytest.raises(FrozenInstanceError):
        setattr(method, fields(type(method))[0].name, None)  # type: ignore[arg-type]
