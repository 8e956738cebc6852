"""What a finished seed run leaves."""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(slots=True)
class Outcome:
    """What a finished seed run leaves.

    Attributes:
        notes: What a reader of the figures must know.
        stages: Losses of the stages before the last, which are not evaluated, in order.
        evaluations: Each evaluation on validation rows, in order.
        kept: Which of them counts.
        test: The one evaluation on test rows, with the weights of the kept one.
        predictions: Predicted class or score of each validation and test row, at the kept one.
        weights: Encoder and parts at the kept one, on the CPU.
        seconds: Wall-clock time; for a stage that was taken, that of its training.
        together: Replicates that were one batched program with it, and it; empty if none was.
    """

    notes: tuple[str, ...] = ()
    stages: list[dict[str, object]] = field(default_factory=list)
    evaluations: list[dict[str, object]] = field(default_factory=list)
    kept: int = -1
    test: dict[str, object] = field(default_factory=dict)
    predictions: dict[str, list[float]] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    together: tuple[int, ...] = ()
