"""What an encoder does otherwise while several replicates of it are one batched program.

`torch.func.vmap` runs a model once on the weights of all replicates of a block, each of which has a
seat. Attention kernels have no rule for that: around them the rows of all seats are one batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


@dataclass(slots=True)
class Seats:
    """Which replicates of a block are in a batched program.

    Attributes:
        size: S, replicates of the block.
        taken: Numbers within the block of those that are there, ascending.
        paused: Whether what is drawn at present is left as it is.
    """

    size: int
    taken: tuple[int, ...]
    paused: bool = False

    @property
    def all_taken(self) -> bool:
        """Whether the whole block is there."""
        return len(self.taken) == self.size

    def spread(self, x: Tensor) -> Tensor:
        """Returns `[S, ...]` in the layout of `[taken, ...]`, zero at seats that are not taken."""
        shape = (self.size, *x.shape[1:])
        # Seats are outermost, as `vmap` has them; the stride of a single one says nothing.
        order = [0, *sorted(range(1, x.dim()), key=x.stride, reverse=True)]
        back = [order.index(dim) for dim in range(x.dim())]
        whole = x.new_zeros([shape[dim] for dim in order]).permute(back)
        return whole.index_copy(0, _numbers(self.taken, x.device), x)

    def pick(self, x: Tensor) -> Tensor:
        """Returns `[taken, ...]` of `[S, ...]`."""
        return x.index_select(0, _numbers(self.taken, x.device))


@lru_cache(maxsize=16)
def _numbers(taken: tuple[int, ...], device: torch.device) -> Tensor:
    # Made once: what the host copies to a GPU waits for it.
    return torch.tensor(taken, device=device)


class SeatNoise(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws for all seats of a block and hands out what belongs to those that are taken.

    So a replicate has the same noise whoever else is there: a block can be trained in parts.

    Args:
        seats: The seats.
    """

    def __init__(self, seats: Seats) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seats = seats

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Calls an operator; one that draws, on tensors of all seats."""
        kwargs = kwargs or {}
        if self.seats.paused or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        given = args[0] if args and isinstance(args[0], Tensor) else None
        if given is not None:
            self._check(func, given.shape)
            drawn = func(self.seats.spread(given), *args[1:], **kwargs)
        else:
            drawn = func(*map(self._widened, args), **kwargs)
        picked = tree_map(self.seats.pick, drawn)
        if given is not None and func._schema.is_mutable:
            return given.copy_(picked)
        return picked

    def _widened(self, argument: Any) -> Any:
        """Returns an argument, a shape `[taken, ...]` as `[S, ...]`."""
        if not isinstance(argument, list | tuple):
            return argument
        self._check("a draw", argument)
        return [self.seats.size, *argument[1:]]

    def _check(self, what: object, shape: Sequence[int]) -> None:
        if not shape or shape[0] != len(self.seats.taken):
            raise RuntimeError(f"{what}: noise must be drawn for each replicate, but it is {shape}")


def fold(
    function: Callable[..., Tensor], seats: Seats, tensors: Sequence[Tensor], *, draws: bool
) -> Tensor:
    """Returns a function of rows, called once with the rows of all seats.

    Args:
        function: From tensors `[rows, ...]` to one `[rows, ...]`; each row by itself.
        seats: The seats of the batched program that this is in.
        tensors: Its arguments, of one seat each.
        draws: Whether it draws noise.
    """

    def of_all(*given: Tensor) -> Tensor:
        spread = draws and not seats.all_taken
        whole = [seats.spread(x) for x in given] if spread else given
        seats.paused = True  # kernels of attention say that they draw, even at rate 0
        try:
            rows = function(*(x.flatten(0, 1) for x in whole))
        finally:
            seats.paused = False
        found = rows.view(*whole[0].shape[:2], *rows.shape[1:])
        return seats.pick(found) if spread else found

    found: Tensor = _Fold.apply(of_all, *tensors)  # type: ignore[no-untyped-call]
    return found


class _Fold(torch.autograd.Function):
    """Hands tensors with the seats' dimension first to a function; autograd goes through it."""

    @staticmethod
    def forward(_function: Callable[..., Tensor], *_tensors: Tensor) -> Tensor:
        raise RuntimeError("rows are folded in a batched program alone")

    @staticmethod
    def setup_context(_ctx: Any, _inputs: Any, _output: Any) -> None:
        """Does nothing: `vmap` calls the function itself."""

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], function: Callable[..., Tensor], *given: Tensor
    ) -> tuple[Tensor, int]:
        """Returns what the function makes of the tensors, `[seats, rows, ...]`."""
        whole = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(given, in_dims[1:], strict=True)
        ]
        return function(*whole), 0
