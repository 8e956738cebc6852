"""Features of a frozen encoder, with a per-process cache for the pretrained encoder."""

from collections import OrderedDict
from functools import partial

import torch

from sclsearch.canonical import digest
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows
from sclsearch.training.evaluation import Features, compute_features
from sclsearch.training.spec import TrainingData

MOST_BYTES = 1 << 28
"""Most bytes of cached features; the latest ones are always kept, whatever their size."""

_KEPT: OrderedDict[str, Features] = OrderedDict()


def features_of(
    work: TrainingData,
    model: Model,
    rows: tuple[Rows, ...],
    pooling: str,
    device: torch.device,
    *,
    pretrained: bool,
) -> Features:
    """Return the features of rows; take those of the pretrained encoder from the cache.

    Args:
        work: Training data of the seed run.
        model: Model with the encoder.
        rows: Rows that the stage reads.
        pooling: Pooling of the hidden states.
        device: Device that computes and holds the features.
        pretrained: True if the encoder has its pretrained weights, which many seed runs share.
    """
    compute = partial(compute_features, model, work.tokens, rows, pooling, device)
    if not pretrained:
        return compute()
    spec = work.spec
    # The last digits of a row depend on its batch, so the key contains all rows.
    read = [part.digest for part in rows]
    machine = [str(spec.model), torch.get_num_threads()]
    key = digest([spec.shared_identity, read, pooling, spec.training.max_length, *machine])
    if key not in _KEPT:
        _KEPT[key] = compute()
    _KEPT.move_to_end(key)
    while len(_KEPT) > 1 and sum(kept.values.nbytes for kept in _KEPT.values()) > MOST_BYTES:
        _KEPT.popitem(last=False)
    return _KEPT[key]
