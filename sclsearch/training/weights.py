"""Weights of a seed run as safetensors."""

from pathlib import Path

from sclsearch.canonical import canonical
from sclsearch.training.job import Job
from sclsearch.training.outcome import Outcome


def save_weights(path: Path, outcome: Outcome, job: Job) -> None:
    """Writes encoder and parts, `encoder.…` and `parts.…`, with the job's identity as metadata.

    Args:
        path: The file.
        outcome: Holds the weights.
        job: Says what they are.
    """
    from safetensors.torch import save_file

    metadata = {"key": job.key, "identity": canonical(job.identity), "model": job.model_name}
    save_file({name: t.contiguous() for name, t in outcome.weights.items()}, path, metadata)
