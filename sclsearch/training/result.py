"""Result of training one seed run, and storage of its weights in a safetensors file."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from sclsearch.canonical import canonical
from sclsearch.training.evaluation import Probabilities
from sclsearch.training.spec import SeedRunSpec


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
        probabilities: Probability of each class for the same rows, `[rows, C]`; C is 0 in
            regression.
        weights: Weights of the encoder and the new modules at the kept evaluation, on the CPU.
        seconds: Wall-clock time.
    """

    notes: tuple[str, ...] = ()
    stages: list[dict[str, object]] = field(default_factory=list)
    evaluations: list[dict[str, object]] = field(default_factory=list)
    kept: int = -1
    test: dict[str, object] = field(default_factory=dict)
    predictions: dict[str, list[float]] = field(default_factory=dict)
    probabilities: dict[str, Probabilities] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0


def save_weights(path: Path, result: TrainingResult, spec: SeedRunSpec) -> None:
    """Write weights (`encoder.…`, `new_modules.…`) with the identity of their seed run."""
    metadata = {"key": spec.key, "identity": canonical(spec.identity), "model": spec.model_name}
    save_tensors(path, result.weights, metadata)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to a safetensors file, which holds tied weights under each of their names.

    Raises:
        OSError: The write failed. A SafetensorError is converted to this type.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    usual = path.stat().st_mode
    try:
        save_file(_apart(tensors), path, dict(metadata))
        path.chmod(usual)  # safetensors lets only the owner read its files
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without shared memory, which safetensors refuses."""
    found: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        found[name] = tensor.clone() if tensor.data_ptr() in taken else tensor.contiguous()
        taken.add(tensor.data_ptr())
    return found
