"""Result of training one seed run."""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(slots=True)
class TrainingResult:
    """Result of training one seed run.

    Attributes:
        notes: Remarks that reports print beside the scores.
        stages: Loss records of the stages before the last one, in order.
        evaluations: Evaluations on the validation rows, in order.
        kept: Index of the evaluation that gives the reported score.
        test: The one evaluation on the test rows, with the weights of the kept evaluation.
        predictions: Predicted class or score of each validation and test row, same weights.
        weights: Weights of the encoder and the new modules at the kept evaluation, on the CPU.
        seconds: Wall-clock time.
    """

    notes: tuple[str, ...] = ()
    stages: list[dict[str, object]] = field(default_factory=list)
    evaluations: list[dict[str, object]] = field(default_factory=list)
    kept: int = -1
    test: dict[str, object] = field(default_factory=dict)
    predictions: dict[str, list[float]] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
