"""Seed runs of the benchmarks: few configurations of a method on few rows, with MiniLM.

All compared programs use these rows, epochs, batches and learning rates. No Ray.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from sclsearch.encoders.load import load_tokenizer
from sclsearch.encoders.models import model_digest, model_folder
from sclsearch.methods import method_class
from sclsearch.methods.fields import build
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import Size, by_split
from sclsearch.tasks import load_task
from sclsearch.tasks.base import TaskData
from sclsearch.training.data import Tokens, tokenize_task
from sclsearch.training.spec import SeedRunSpec

PROTOCOL = PROTOCOLS["gunel-fewshot"]
SETTINGS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "ce": {"pooling": "mean"},
        "scl": {"pooling": "mean", "scl_features": "mean"},
        "supcl-seq": {"pooling": "mean", "probe_learning_rate": 1e-2, "probe_epochs": 20},
    }
)
BATCH_SIZE = 16
EVERYWHERE: Mapping[str, object] = MappingProxyType({"batch_size": BATCH_SIZE, "max_length": 64})
POINTS: Mapping[str, tuple[Mapping[str, object], ...]] = MappingProxyType(
    {
        "scl": tuple(
            {"tau": tau, "lam": lam, "learning_rate": 1e-4}
            for tau in (0.3, 0.5)
            for lam in (0.5, 0.9)
        ),
        "supcl-seq": tuple(
            {"tau": tau, "learning_rate": rate} for tau in (0.05, 0.1) for rate in (1e-4, 5e-5)
        ),
    }
)
"""Configurations of each method, in the order of their training."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings that all seed runs of a benchmark share.

    Attributes:
        task: Name of the task.
        train_size: N, labeled examples.
        model: Name of the encoder.
        data_dir: Folder with the task's files; empty for the embedded task.
        epochs: Epochs; 0 are those of the protocol.
    """

    task: str
    train_size: int
    model: str
    data_dir: str
    epochs: int = 0

    @property
    def settings(self) -> dict[str, object]:
        """The fields that are the same in every configuration of every method."""
        epochs = PROTOCOL.training(self.train_size, BATCH_SIZE)["epochs"]
        return {**EVERYWHERE, "epochs": self.epochs or epochs}


class Run(NamedTuple):
    """Specification of a seed run, and the tokens of each split."""

    spec: SeedRunSpec
    tokens: Mapping[str, Tokens]


def training_data(setup: Setup, method: str, values: Mapping[str, object], number: int) -> Run:
    """Return a seed run of replicate `number`."""
    data = _data(setup)
    kind: Any = method_class(method)
    fields = {**kind.training, **SETTINGS[method], **setup.settings, **values}
    built, training = build(kind, fields, "benchmark")
    replicate = PROTOCOL.replicate(number)
    folder = model_folder(setup.model)
    splits = PROTOCOL.splits(data, Size(setup.train_size), replicate)
    spec = SeedRunSpec(
        task=data.task,
        data_digest=data.digest,
        splits=splits,
        metric=PROTOCOL.metric(data),
        evaluate=PROTOCOL.evaluate,
        keep=PROTOCOL.keep,
        method_name=method,
        method=built,
        training=training,
        replicate=replicate,
        model_name=setup.model,
        model=folder,
        model_digest=_digest(folder),
        numerics="cuda-bf16" if torch.cuda.is_available() else "cpu-fp32",
    )
    return Run(spec, _tokens(setup, folder, training.max_length))


@cache
def _data(setup: Setup) -> TaskData:
    return PROTOCOL.data(load_task(setup.task, Path(setup.data_dir) if setup.data_dir else None))


@cache
def _digest(folder: Path) -> str:
    return model_digest(folder)


@cache
def _tokens(setup: Setup, folder: Path, length: int) -> dict[str, Tokens]:
    data = _data(setup)
    first = PROTOCOL.splits(data, Size(setup.train_size), PROTOCOL.replicate(0))
    # Each replicate has other training rows.
    used = by_split([first.validation, first.test])
    used["train"] = np.arange(len(data.splits["train"]))
    return tokenize_task(data, load_tokenizer(folder), length, used=used)
