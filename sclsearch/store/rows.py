"""Labels and class probabilities of a seed run's rows, in a compressed file beside its record."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Self

import numpy as np
import numpy.typing as npt

from sclsearch.tasks.base import Labels

SPLITS = ("validation", "test")
KINDS = ("labels", "probabilities")


@dataclass(frozen=True, slots=True)
class RowResults:
    """Labels and class probabilities of the evaluated rows, at the kept evaluation.

    A seed run without a test score has those of the validation rows alone.

    Attributes:
        labels: True class or score of each row, `[rows]`, by split.
        probabilities: Probability of each class for each row, `[rows, C]` float32, by split; C is
            0 in regression.
    """

    labels: Mapping[str, Labels]
    probabilities: Mapping[str, npt.NDArray[np.float32]]

    def encoded(self) -> bytes:
        """Return the bytes of an `.npz` file with the arrays `test_labels` and so on."""
        arrays = {
            **{f"{split}_labels": found for split, found in self.labels.items()},
            **{f"{split}_probabilities": found for split, found in self.probabilities.items()},
        }
        content = BytesIO()
        np.savez_compressed(content, allow_pickle=False, **arrays)
        return content.getvalue()

    @classmethod
    def decoded(cls, content: bytes) -> Self:
        """Return the results in the bytes of such a file."""
        try:
            with np.load(BytesIO(content), allow_pickle=False) as file:
                arrays = dict(file)
        except Exception as error:  # numpy documents few of its errors for damaged files
            raise ValueError(str(error)) from error
        splits = [split for split in SPLITS if f"{split}_labels" in arrays]
        if arrays.keys() != {f"{split}_{kind}" for split in splits for kind in KINDS}:
            raise ValueError(f"must have labels and probabilities, got {', '.join(arrays)}")
        labels, probabilities = (
            {split: arrays[f"{split}_{kind}"] for split in splits} for kind in KINDS
        )
        return cls(labels, probabilities)
