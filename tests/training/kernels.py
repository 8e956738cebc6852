"""Recorder of the kernels of a seed run on a CUDA device without hardware, with fake tensors.

A fake tensor has a shape, a dtype and a device, but no values. Each value that the host reads is 0.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_iter

from sclsearch.encoders import load, row_dropout, savings
from sclsearch.encoders.encoder import Encoder
from sclsearch.training import device, engine
from sclsearch.training.data import Tokens
from sclsearch.training.spec import Numerics, SeedRunSpec

ATEN = torch.ops.aten
GPU = torch.device("cuda", 0)
FAKE = FakeTensorMode()
"""The only mode, because caches of the product keep tensors from one seed run to the next."""

PRODUCTS = frozenset(
    {
        *(ATEN.mm, ATEN.addmm, ATEN.bmm, ATEN.baddbmm, ATEN.convolution, ATEN.convolution_backward),
        ATEN._scaled_dot_product_efficient_attention,
        ATEN._scaled_dot_product_efficient_attention_backward,
    }
)
NO_KERNELS = frozenset(
    {
        *(ATEN.empty, ATEN.empty_like, ATEN.empty_strided, ATEN.new_empty, ATEN.new_empty_strided),
        *(ATEN.detach, ATEN.lift_fresh, ATEN._unsafe_view, ATEN._reshape_alias),
        *(ATEN.set_, ATEN.resize_),
    }
)
VALUES = frozenset({ATEN._local_scalar_dense, ATEN.nonzero, ATEN.is_pinned, ATEN._pin_memory})
COPIES = frozenset({ATEN._to_copy, ATEN.copy_})
FOUND = 5
"""Number of true values in each mask, since fake tensors have no values."""
SCLSEARCH = f"{Path(engine.__file__).parents[1]}/"


@dataclass
class Segment:
    """Operations of one part of a seed run. A place is a function of the product.

    Attributes:
        stage: Number of the stage, from 0; -1 before the first stage.
        kind: `set-up`, before the first update of a stage; `update`, up to the optimizer's step;
            `record`, from there to the next update or prediction; or `predict`.
        kernels: Number of kernels on the GPU, by operator.
        casts: Number of kernels that only change the dtype.
        waits: Operations that make the host wait for the GPU, with their places.
        faults: Operations on the CPU, or with random numbers of the CPU, with their places.
        products: Number of matrix products, by dtype and place.
    """

    stage: int
    kind: str
    kernels: Counter[str] = field(default_factory=Counter)
    casts: int = 0
    waits: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    products: Counter[tuple[str, str]] = field(default_factory=Counter)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Recorder of operations in front of the fake mode, which infers the shapes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.segments = [Segment(-1, "set-up")]

    def begin(self, kind: str, *, new_stage: bool = False) -> None:
        self.segments.append(Segment(self.segments[-1].stage + new_stage, kind))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, packet = kwargs or {}, func.overloadpacket
        # In inference mode, composite operators arrive whole.
        if can_decompose(func):
            with self:
                return func.decompose(*args, **kwargs)
        if packet in VALUES:
            return self.value_of(packet, args[0])
        # Fake tensors do not support it with a learning rate on the GPU; it returns nothing.
        skipped = func is ATEN._fused_adamw_.tensor_lr
        result = None if skipped else func(*args, **kwargs)
        if func.namespace == "aten" and not (func.is_view or packet in NO_KERNELS):
            self.note(func, tensors_in((args, kwargs)), tensors_in(result), kwargs)
        return result

    def value_of(self, packet: Any, tensor: Tensor) -> Any:
        """Return the result of an operator that fake tensors do not support."""
        if packet is ATEN.is_pinned:
            return getattr(tensor, "pinned", False)
        if packet is ATEN._pin_memory:
            copy: Any = torch.empty_like(tensor)
            copy.pinned = True
            return copy
        segment = self.segments[-1]
        if tensor.is_cuda:
            segment.waits.append(f"{packet} at {place()}")
        if packet is ATEN._local_scalar_dense:
            return 0.0 if tensor.is_floating_point() else 0
        segment.kernels[str(packet)] += 1
        return tensor.new_empty((FOUND, tensor.dim()), dtype=torch.int64)

    def note(self, func: Any, given: list[Tensor], made: list[Tensor], kwargs: Any) -> None:
        segment, packet = self.segments[-1], func.overloadpacket
        devices = {t.device for t in (*given, *made) if t.dim() or t.device == GPU}
        if packet in COPIES and len(devices) == 2:
            source = given[-1]
            ready = getattr(source, "pinned", False) and kwargs.get("non_blocking")
            if source.is_cuda or not ready:
                way = "to the host" if source.is_cuda else "from pageable memory"
                segment.waits.append(f"copy {way} at {place()}")
            return
        if devices - {GPU}:
            segment.faults.append(f"{packet} on {sorted(map(str, devices))} at {place()}")
        if torch.Tag.nondeterministic_seeded in func.tags and made[0].device != GPU:
            segment.faults.append(f"{packet} draws from the CPU at {place()}")
        if GPU not in devices:
            return
        segment.kernels[str(packet)] += 1
        segment.casts += packet is ATEN._to_copy
        if packet in PRODUCTS:
            segment.products[str(made[0].dtype).removeprefix("torch."), place()] += 1


@cache
def can_decompose(func: Any) -> bool:
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return func.namespace == "aten" and bool(func.has_kernel_for_dispatch_key(composite))


def tensors_in(values: object) -> list[Tensor]:
    return [value for value in tree_iter(values) if isinstance(value, Tensor)]


def place() -> str:
    """Return the innermost function of the product that runs; the engine's in backward passes."""
    frame = sys._getframe()
    while frame.f_back and not frame.f_code.co_filename.startswith(SCLSEARCH):
        frame = frame.f_back
    function = frame.f_code.co_qualname.split(".<locals>")[0]
    return f"{Path(frame.f_code.co_filename).stem}.{function}"


def fake(tensor: Tensor) -> Tensor:
    with _disable_current_modes():
        return FAKE.from_tensor(tensor)


def replace_tensors(module: nn.Module, replacement: Callable[[Tensor], Tensor]) -> None:
    """Replace all parameters and buffers of a module; shared ones stay shared."""
    done: dict[int, Any] = {}
    for part in module.modules():
        held: Any
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    if id(tensor) not in done:
                        done[id(tensor)] = (tensor, replacement(tensor))  # keeps the id in use
                    held[name] = done[id(tensor)][1]


def moved(module: nn.Module, to: torch.device) -> nn.Module:
    """Replace `Module.to`, which swaps tensors. Fake tensors do not support that."""

    def on_device(tensor: Tensor) -> Tensor:
        if tensor.device == GPU:
            return tensor
        copy = tensor.detach().to(to)
        trained = isinstance(tensor, nn.Parameter)
        return nn.Parameter(copy, tensor.requires_grad) if trained else copy

    replace_tensors(module, on_device)
    return module


def faked(encoder: Encoder) -> Encoder:
    """Return the encoder with fake tensors on the CPU."""
    replace_tensors(encoder, fake)
    encoder.masked_lm = {name: fake(tensor) for name, tensor in encoder.masked_lm.items()}
    return encoder


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Replace `scaled_dot_product_attention`, which cannot select a kernel without CUDA.

    With a mask, CUDA uses the memory-efficient kernel.
    """
    if not q.is_cuda:
        return cpu_attention(q, k, v, attn_mask, dropout_p, is_causal, **options)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            zeros = torch.zeros_like(attn_mask, dtype=q.dtype)
            attn_mask = zeros.masked_fill_(attn_mask.logical_not(), -torch.inf)
        keys = attn_mask.shape[-1]
        attn_mask = F.pad(attn_mask, (0, -keys % 8))[..., :keys]
        attn_mask = attn_mask.expand(*q.shape[:3], keys)
    states: Tensor = ATEN._scaled_dot_product_efficient_attention(
        q, k, v, attn_mask, torch.is_grad_enabled(), dropout_p, is_causal, scale=options["scale"]
    )[0]
    return states


cpu_attention = F.scaled_dot_product_attention


def install() -> None:
    """Patch torch and the engine for fake tensors on the device, until the process ends."""
    from_numpy, load_encoder, backend_for = torch.from_numpy, load.load_encoder, device.backend_for

    def load_fake(folder: Path, name: str, _: torch.device) -> Encoder:
        with _disable_current_modes():
            return faked(load_encoder(folder, name))

    def with_gpu(numerics: Numerics) -> device.Backend:
        with patch("torch.cuda.is_available", lambda: True):
            return backend_for(numerics)

    def zeros(tensor: Tensor) -> npt.NDArray[Any]:
        return np.zeros(tensor.shape, str(tensor.dtype).removeprefix("torch."))

    patches: tuple[tuple[Any, str, Any], ...] = (
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        (torch.cuda, "is_bf16_supported", lambda: True),
        (torch, "from_numpy", lambda array: fake(from_numpy(array))),
        (Tensor, "numpy", zeros),
        (nn.Module, "to", moved),
        (F, "scaled_dot_product_attention", attention),
        (engine, "load_encoder", load_fake),
        (engine, "backend_for", with_gpu),
        (device.Backend, "stream", lambda _: nullcontext()),
        (engine, "LOSS_RECORDS", 1),
    )
    for owner, name, value in patches:
        setattr(owner, name, value)
    torch.autograd.set_multithreading_enabled(mode=False)  # the recorder sees one thread


@contextmanager
def marked(recorder: Recorder) -> Iterator[None]:
    """Begin a segment at each stage, update, optimizer step and prediction."""

    def begins(module: ModuleType, name: str, kind: str, **options: bool) -> Any:
        original = getattr(module, name)

        def begin(*given: Any, **named: Any) -> Any:
            recorder.begin(kind, **options)
            return original(*given, **named)

        return patch.object(module, name, begin)

    def after_step(*_: object) -> None:
        recorder.begin("record")

    hook = register_optimizer_step_post_hook(after_step)
    try:
        with (
            begins(engine, "_train_stage", "set-up", new_stage=True),
            begins(engine, "lr_scale", "update"),
            begins(engine, "evaluate_rows", "predict"),
        ):
            yield
    finally:
        hook.remove()


def record(
    spec: SeedRunSpec, tokens: Mapping[str, Tokens], limits: Mapping[str, int]
) -> list[Segment]:
    """Return the segments of a seed run; `limits` replaces constants of gradient caching."""
    row_dropout._keep.cache_clear()
    recorder = Recorder()
    with patch.dict(vars(savings), limits), FAKE, recorder, marked(recorder):
        engine.train(spec, tokens, graphs=False)  # nothing can be replayed
    return recorder.segments
