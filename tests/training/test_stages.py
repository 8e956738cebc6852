"""Tests of the hooks of stages, with a method in two files."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray import cloudpickle

from sclsearch.errors import SclsearchError
from sclsearch.methods import find_method
from sclsearch.methods.custom import own_modules
from sclsearch.methods.supcl_seq import SupCLSeq
from sclsearch.tasks.metrics import value
from sclsearch.training.data import batches_in_order
from sclsearch.training.engine import train
from tests.studies import same_weights
from tests.training.conftest import WorkFor, identical
from tests.training.test_checkpoint import resumed_at_each

PARTS = """
from torch import nn
STEPS = 11

def projection(width):
    return nn.Linear(width, 8)
"""
STAGED = """
from dataclasses import dataclass, replace
import parts
from sclsearch.methods.base import Method, Stage
from sclsearch.objectives import sup_con
from torch import nn

@dataclass(frozen=True)
class Staged(Method):
    taken: str = "projection"

    def stages(self, training):
        def projection(encoder, classes):
            return nn.ModuleDict({"projection": parts.projection(encoder.width)})

        return (
            Stage("contrast", training, self.contrast, projection, max_steps=parts.STEPS),
            Stage("head", replace(training, weight_decay=0.0), self.terms, self.new_modules,
                  takes=(self.taken,)),
        )

    def contrast(self, model, batch):
        z = model.new_modules["projection"](model.embed(batch, "mean"))
        return {"contrast": sup_con(z, batch.y, tau=0.3)}
"""
STEPS_OF = """
import pickle, sys
from sclsearch.methods.base import Training
print(pickle.load(open(sys.argv[1], "rb"))().stages(Training())[0].max_steps)
"""


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """Return the file of a method whose second stage takes the projection of the first."""
    (tmp_path / "parts.py").write_text(PARTS, encoding="utf-8")
    (tmp_path / "staged.py").write_text(STAGED, encoding="utf-8")
    return tmp_path / "staged.py"


def test_a_stage_has_max_steps_updates_and_the_next_stage_takes_its_modules(
    staged: Path, work_for: WorkFor, tmp_path: Path
) -> None:
    method: Any = find_method(f"{staged}:Staged").kind
    work = work_for("ce", epochs=3).but(method=method())
    result = train(*work)
    assert [one["update"] for one in result.stages][-1] == 11
    projection = result.weights["new_modules.projection.weight"]
    first = torch.nn.Linear(16, 8).weight.detach()
    assert projection.shape == first.shape
    resumed, stops = resumed_at_each(work, tmp_path / "state")
    assert identical(resumed, result)
    assert {position for position, _ in stops} == {0, 1}
    with pytest.raises(SclsearchError, match=r"^head: takes: .* no module 'x'; it has projection"):
        train(*work.but(method=method(taken="x")))


def test_a_stage_asks_for_the_dropout_rates_of_each_update_from_0(work_for: WorkFor) -> None:
    asked = set()

    class Asking(SupCLSeq):
        def view_rates(self, update: int) -> tuple[float, ...]:
            asked.add(update)
            return self.dropouts

    work = work_for("supcl-seq", epochs=2)
    method: Any = work.spec.method
    result = train(*work.but(method=Asking(**asdict(method))))
    last: Any = [one["update"] for one in result.stages if one["stage"] == "contrast"][-1]
    assert asked == {*range(last)}


def test_a_solved_probe_leaves_the_contrast_as_it_is_and_predicts_as_well(
    work_for: WorkFor,
) -> None:
    trained, solved = (train(*work_for("supcl-seq", probe=kind)) for kind in ("trained", "solved"))
    assert trained.stages == solved.stages
    encoders = ({n: w for n, w in r.weights.items() if "encoder" in n} for r in (trained, solved))
    assert same_weights(*encoders)
    assert solved.evaluations[-1]["update"] == solved.stages[-1]["update"]
    assert value("accuracy", solved.test) >= value("accuracy", trained.test) - 0.1


def test_batches_have_rows_of_each_of_their_classes_if_scl_asks_for_it(
    work_for: WorkFor,
) -> None:
    y = np.repeat(np.arange(10), 6)
    for rows_per_class in (1, 2):
        stage = work_for("scl", rows_per_class=rows_per_class).spec.stages[0]
        batches = list(batches_in_order(y, stage, 1, 0, 20))
        alone = [np.unique(y[batch], return_counts=True)[1].min() == 1 for batch in batches]
        assert any(alone) == (rows_per_class == 1)


def test_a_file_beside_a_method_is_part_of_its_digest_and_fresh_at_each_import(
    staged: Path, tmp_path: Path
) -> None:
    place = f"{staged}:Staged"
    before = find_method(place)
    parts = tmp_path / "parts.py"
    parts.write_text(PARTS.replace("11", "5"), encoding="utf-8")
    after = find_method(place)
    assert before.digest != after.digest
    for module in own_modules(after.kind):
        cloudpickle.register_pickle_by_value(module)
    (tmp_path / "class").write_bytes(cloudpickle.dumps(after.kind))
    staged.unlink()
    parts.unlink()
    command = [sys.executable, "-c", STEPS_OF, str(tmp_path / "class")]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout == "5\n"


def test_a_file_that_is_not_imported_does_not_change_the_digest(
    staged: Path, tmp_path: Path
) -> None:
    digest = find_method(f"{staged}:Staged").digest
    (tmp_path / "unread.py").write_text("1 / 0", encoding="utf-8")
    assert find_method(f"{staged}:Staged").digest == digest
