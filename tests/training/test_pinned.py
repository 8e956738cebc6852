"""Results of tiny trainings are pinned for each version of the engine."""

from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from sclsearch.methods import METHODS
from sclsearch.randomness import stream
from sclsearch.training.engine import train
from sclsearch.training.spec import ENGINE_VERSION
from tests.training.conftest import WorkFor

VERSION = 7
# For each method, and pooling that is not that of `OWN`, in this version of the engine: the loss
# at each evaluation, and the confusion matrix of the test rows.
PINNED: Mapping[str, tuple[list[float], list[list[int]]]] = {
    "ce": ([0.67584, 0.602954, 0.619535], [[3, 9], [0, 18]]),
    "ce head_hidden": ([0.680303, 0.669868, 0.753675], [[0, 12], [0, 18]]),
    "scl": ([1.302264, 0.942763, 0.827714], [[11, 1], [0, 18]]),
    "supcl-seq": (
        [0.617163, 0.433226, 0.251974, 0.161619, 0.148731, 0.101798],
        [[10, 2], [0, 18]],
    ),
    "supcl-seq cls_pooled": (
        [0.691088, 0.662672, 0.670351, 0.604377, 0.662712, 0.598723],
        [[0, 12], [0, 18]],
    ),
    "simcse": (
        [0.667422, 0.528695, 0.523308, 0.409585, 0.489752, 0.359368],
        [[6, 6], [4, 14]],
    ),
    "dropout-aug": ([0.662787, 0.588566, 0.568769], [[9, 3], [0, 18]]),
    "lacon": ([8.459454, 3.845918, 1.352009], [[9, 3], [0, 18]]),
    "lacon-fusion": ([8.437417, 4.26396, 1.382496], [[9, 3], [0, 18]]),
    "leam": ([1.359297, 1.280979, 1.28654], [[6, 6], [1, 17]]),
    "lsan": ([0.687117, 0.622285, 0.709799], [[0, 12], [0, 18]]),
    "ce-cl": ([1.028444, 0.803341, 0.696171], [[5, 7], [1, 17]]),
    "cmlm": ([0.680798, 0.656198, 0.831558], [[0, 12], [0, 18]]),
    "tapt": ([0.681271, 0.652011, 0.823457], [[0, 12], [0, 18]]),
    "cssl": ([0.662598, 0.546581, 0.503317], [[10, 2], [1, 17]]),
}
FIELDS: Mapping[str, Any] = {
    **{"evaluate": 5, "epochs": 2, "weight_decay": 0.1, "warmup_ratio": 0.25, "max_grad_norm": 1.0}
}
CHANGED = (
    "The results of {method!r} changed, so stored seed runs are no longer reproduced. If this is "
    "intended, raise ENGINE_VERSION in sclsearch/training/spec.py and pin {found} here. Another "
    "version of torch may also change results."
)


@pytest.fixture(scope="module")
def pinned_bert(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tiny BERT with weights that no version of torch or transformers changes."""
    folder = tmp_path_factory.mktemp("pinned") / "bert"
    copytree(tiny_bert, folder)
    file = folder / "model.safetensors"
    weights = {
        name: (stream(0, name).normal(0, 0.2, array.shape) + ("LayerNorm.weight" in name)).astype(
            array.dtype
        )
        for name, array in load_file(file).items()
    }
    save_file(weights, file, {"format": "pt"})
    return folder


@pytest.mark.parametrize("case", PINNED)
def test_the_results_of_a_tiny_training_are_pinned(
    work_for: WorkFor, pinned_bert: Path, case: str
) -> None:
    method, _, pooling = case.partition(" ")
    given = {"pooling": pooling} if pooling else {}
    result = train(*work_for(method, model=pinned_bert, **FIELDS, **given))
    evaluations: list[Any] = result.evaluations
    losses = [round(sum(one["loss"].values()), 6) for one in evaluations]
    found: object = (losses, result.test["confusion"])
    expected, confusion = PINNED[case]
    # Processors differ by less than a millionth, which the training of lacon-fusion amplifies.
    near = pytest.approx(expected, abs=5e-3 if method == "lacon-fusion" else 1e-5)
    same = found == (near, confusion) and ENGINE_VERSION == VERSION
    assert same, CHANGED.format(method=method, found=found)


def test_every_method_is_pinned() -> None:
    assert {case.partition(" ")[0] for case in PINNED} == {*METHODS}
