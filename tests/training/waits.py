"""Counters of operations that make the host wait for a GPU; they also work on a CPU."""

from collections import Counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

ATEN = torch.ops.aten
VALUES = frozenset({ATEN._local_scalar_dense, ATEN.nonzero, ATEN.masked_select, ATEN._unique2})
INDEXED = frozenset({ATEN.index, ATEN.index_put, ATEN.index_put_, ATEN._index_put_impl_})


class Values(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counter of operations whose result, or its shape, depends on values."""

    def __init__(self, seen: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        masks = packet in INDEXED and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        self.seen["values"] += packet in VALUES or masks
        return func(*args, **(kwargs or {}))


class Copies(TorchFunctionMode):
    """Counter of copies to the host."""

    def __init__(self, seen: Counter[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in {"tolist", "cpu"}:
            self.seen["copies"] += 1
        return func(*args, **(kwargs or {}))
