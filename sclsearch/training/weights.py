"""Weights of a seed run as safetensors."""

import errno
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from sclsearch.canonical import canonical
from sclsearch.training.result import TrainingResult
from sclsearch.training.spec import SeedRunSpec


def save_weights(path: Path, result: TrainingResult, spec: SeedRunSpec) -> None:
    """Write encoder and new modules (`encoder.…`, `new_modules.…`), with the seed run's identity.

    Args:
        path: The file.
        result: Holds the weights.
        spec: Says what they are.
    """
    metadata = {"key": spec.key, "identity": canonical(spec.identity), "model": spec.model_name}
    save_tensors(path, result.weights, metadata)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes tensors.

    Raises:
        OSError: The file system does not take them; safetensors has an error of its own for that.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    usual = path.stat().st_mode
    try:
        save_file({name: t.contiguous() for name, t in tensors.items()}, path, dict(metadata))
        path.chmod(usual)  # safetensors makes a file for its owner's eyes alone
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
