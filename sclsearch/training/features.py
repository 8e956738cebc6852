"""Features of a frozen encoder; those of the pretrained one are computed once in a process."""

from collections import OrderedDict
from functools import partial

import torch

from sclsearch.canonical import digest
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows
from sclsearch.training.evaluation import Features, compute_features
from sclsearch.training.spec import TrainingData

MOST_BYTES = 1 << 28
"""Of the features that are kept; the last ones are kept whatever their size."""

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
    """Returns the features of some rows.

    Args:
        work: The seed run.
        model: Has the encoder.
        rows: What a stage will read.
        pooling: How states become features.
        device: Where they are computed and stay.
        pretrained: Whether the encoder is as it was loaded, the same for many seed runs.
    """
    compute = partial(compute_features, model, work.tokens, rows, pooling, device)
    if not pretrained:
        return compute()
    spec = work.spec
    # A row's last digits depend on the batch that it is in: the same features are of the same rows.
    read = [part.digest for part in rows]
    machine = [str(spec.model), torch.get_num_threads()]
    key = digest([spec.shared_identity, read, pooling, spec.training.max_length, *machine])
    if key not in _KEPT:
        _KEPT[key] = compute()
    _KEPT.move_to_end(key)
    while len(_KEPT) > 1 and sum(kept.values.nbytes for kept in _KEPT.values()) > MOST_BYTES:
        _KEPT.popitem(last=False)
    return _KEPT[key]
