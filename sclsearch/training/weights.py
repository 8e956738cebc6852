"""Storage of a seed run's weights in a safetensors file."""

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
        path: File to write.
        result: Result of the training, with the weights.
        spec: Specification of the seed run, for the file's metadata.
    """
    metadata = {"key": spec.key, "identity": canonical(spec.identity), "model": spec.model_name}
    save_tensors(path, result.weights, metadata)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to a safetensors file.

    Raises:
        OSError: The write failed. A SafetensorError is converted to this type.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    usual = path.stat().st_mode
    try:
        save_file({name: t.contiguous() for name, t in tensors.items()}, path, dict(metadata))
        path.chmod(usual)  # safetensors lets only the owner read its files
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
