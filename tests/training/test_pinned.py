"""Results of tiny trainings are pinned for each version of the engine."""

from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from types import MappingProxyType
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from sclsearch.randomness import stream
from sclsearch.training.engine import train
from sclsearch.training.spec import ENGINE_VERSION
from tests.training.conftest import Work, WorkFor

# For each method the engine's version, the loss at each evaluation, and the test evaluation.
PINNED: Mapping[str, tuple[int, list[float], object]] = MappingProxyType(
    {
        "ce": (7, [0.67584, 0.602954, 0.619535], {"confusion": [[3, 9], [0, 18]]}),
        "scl": (7, [1.302264, 0.942763, 0.827714], {"confusion": [[11, 1], [0, 18]]}),
        "supcl-seq": (
            7,
            [0.617163, 0.433226, 0.251974, 0.161619, 0.148731, 0.101798],
            {"confusion": [[10, 2], [0, 18]]},
        ),
        "simcse": (
            7,
            [0.667422, 0.528695, 0.523308, 0.409585, 0.489752, 0.359368],
            {"confusion": [[6, 6], [4, 14]]},
        ),
        "dropout-aug": (7, [0.662787, 0.588566, 0.568769], {"confusion": [[9, 3], [0, 18]]}),
        "lacon": (7, [8.459454, 3.845918, 1.352009], {"confusion": [[9, 3], [0, 18]]}),
        "lacon-fusion": (7, [8.437417, 4.26396, 1.382496], {"confusion": [[9, 3], [0, 18]]}),
        "leam": (7, [1.359297, 1.280979, 1.28654], {"confusion": [[6, 6], [1, 17]]}),
        "lsan": (7, [0.687117, 0.622285, 0.709799], {"confusion": [[0, 12], [0, 18]]}),
        "ce-cl": (7, [1.028444, 0.803341, 0.696171], {"confusion": [[5, 7], [1, 17]]}),
        "cmlm": (7, [0.680798, 0.656198, 0.831558], {"confusion": [[0, 12], [0, 18]]}),
        "tapt": (7, [0.681271, 0.652011, 0.823457], {"confusion": [[0, 12], [0, 18]]}),
        "cssl": (7, [0.662598, 0.546581, 0.503317], {"confusion": [[10, 2], [1, 17]]}),
    }
)

# The same for methods with a pooling that reads only the first state.
PINNED_FIRST: Mapping[tuple[str, str], tuple[int, list[float], object]] = MappingProxyType(
    {
        ("ce", "head_hidden"): (
            7,
            [0.680303, 0.669868, 0.753675],
            {"confusion": [[0, 12], [0, 18]]},
        ),
        ("supcl-seq", "cls_pooled"): (
            7,
            [0.691088, 0.662672, 0.670351, 0.604377, 0.662712, 0.598723],
            {"confusion": [[0, 12], [0, 18]]},
        ),
    }
)

FIELDS: Mapping[str, Any] = MappingProxyType(
    {"evaluate": 5, "epochs": 2, "weight_decay": 0.1, "warmup_ratio": 0.25, "max_grad_norm": 1.0}
)
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


# Processors differ by less than a millionth, which some trainings amplify.
NEAR: Mapping[str, float] = MappingProxyType({"lacon-fusion": 5e-3})


def assert_pinned(work: Work, pinned: tuple[int, list[float], object]) -> None:
    result = train(*work)
    evaluations: list[Any] = result.evaluations
    losses = [round(sum(one["loss"].values()), 6) for one in evaluations]
    confusion = {"confusion": result.test["confusion"]}
    found: object = (ENGINE_VERSION, losses, confusion)
    engine, expected, test = pinned
    near = pytest.approx(expected, abs=NEAR.get(work.spec.method_name, 1e-5))
    same = found == (engine, near, test)
    assert same, CHANGED.format(method=work.spec.method_name, found=found)


@pytest.mark.parametrize("method", PINNED)
def test_the_results_of_a_tiny_training_are_pinned(
    work_for: WorkFor, pinned_bert: Path, method: str
) -> None:
    work = work_for(method, model=pinned_bert, **FIELDS)
    assert_pinned(work, PINNED[method])


@pytest.mark.parametrize(("method", "pooling"), PINNED_FIRST)
def test_the_results_of_poolings_of_the_first_state_are_pinned(
    work_for: WorkFor, pinned_bert: Path, method: str, pooling: str
) -> None:
    work = work_for(method, model=pinned_bert, pooling=pooling, **FIELDS)
    assert_pinned(work, PINNED_FIRST[method, pooling])
