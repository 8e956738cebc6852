"""Training on a CUDA device without hardware: devices, host waits, dtypes and kernel counts.

Fake tensors compute no values, so tests on a real GPU remain necessary for results, memory and
speed. These tests find operations on a wrong device, waits and too many kernels.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch

from sclsearch.methods import method_class
from sclsearch.methods.base import Batch, Model, Terms
from sclsearch.methods.scl import CE
from sclsearch.tasks.base import TaskData
from tests.conftest import Save
from tests.tiny import SIZES
from tests.training.conftest import WorkFor
from tests.training.fake_cuda import compile_device, fake_cuda_process
from tests.training.kernels import Segment, record

Recorded = Callable[..., list[Segment]]

UPDATES = 2
LOSSES = "copy to the host at engine._mean_terms"
SCORES = "copy to the host at evaluation.outputs_of"
WEIGHTS = "copy to the host at engine._train_stage"
# Only the selected tokens go through the masked-LM head, and their number is a shape.
SELECTED = "aten.nonzero at cmlm.masked_lm_of"
# Bfloat16 is too imprecise for similarities that a small temperature divides.
IN_FLOAT32 = frozenset({"contrastive.similarities"})
BACKWARD = "engine.make_update"

ARCHITECTURES = (
    *(("tiny_roberta", "supcl-seq"), ("tiny_roberta", "tapt"), ("tiny_distilbert", "lacon")),
    *(("tiny_distilbert", "cmlm"), ("tiny_electra", "scl"), ("tiny_electra", "tapt")),
    *(("tiny_albert", "leam"), ("tiny_mpnet", "ce-cl")),
)
ATTENTION = "aten._scaled_dot_product_efficient_attention"

# About 5 % more than measured: 536, 216 and 223 in MiniLM, 1016, 420 and 415 in BERT base.
KERNELS = ("kernels of an update", "casts of an update", "kernels of an evaluation batch")
MINILM = dict(zip(KERNELS, (560, 226, 234), strict=True))
BERT_BASE = dict(zip(KERNELS, (1066, 441, 435), strict=True))


@pytest.fixture(scope="module")
def recorded(work_for: WorkFor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Return a function that trains on the device and returns the segments of the seed run."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler for the CUDA device without hardware; install g++")
    if torch.version.cuda:
        pytest.skip("torch has CUDA; the device without hardware needs torch's build for CPUs")

    library = compile_device(compiler, tmp_path_factory.mktemp("fake_cuda"))
    with fake_cuda_process(library) as process:

        def recorded(
            *given: Any,
            limits: Mapping[str, int] = MappingProxyType({}),
            method: CE | None = None,
            updates: int = UPDATES,
            **fields: Any,
        ) -> list[Segment]:
            work = work_for(*given, evaluate=2, **fields)
            spec = replace(work.spec, numerics="cuda-bf16", max_updates=updates)
            if method is not None:
                spec = replace(spec, method=method)
            return process.submit(record, spec, work.tokens, dict(limits)).result()

        yield recorded


def problems(segments: Sequence[Segment]) -> list[str]:
    """Return everything that a seed run should not do on a GPU, except while it sets up."""
    found: list[str] = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        kind = segment.kind
        if kind == "set-up":
            continue
        between = kind == "record" and following is not None and following.kind == "update"
        expected = {
            "update": [SELECTED],
            "record": [] if between else [LOSSES],
            "predict": [SCORES],
        }[kind]
        waits = Counter(segment.waits) - Counter(expected)
        if following is None:  # the trained weights are the result
            del waits[WEIGHTS]
        found.extend(f"{kind}: {wait}" for wait in waits.elements())
        # Predictions become probabilities on the host.
        faults = [one for one in segment.faults if not one.endswith(".probabilities")]
        found.extend(f"{kind}: {fault}" for fault in faults)
        wide = Counter(
            {at: n for (dtype, at), n in segment.products.items() if dtype != "bfloat16"}
        )
        # The gradients of both factors are products too.
        allowed = sum(wide.pop(at, 0) for at in IN_FLOAT32)
        if wide[BACKWARD] <= 2 * allowed:
            del wide[BACKWARD]
        found.extend(f"{kind}: product in float32 at {at}" for at in wide)
    return found


@pytest.fixture(scope="module")
def one_layer(save_tiny: Save) -> Path:
    return save_tiny("Bert", {**SIZES, "num_hidden_layers": 1})


def test_each_method_computes_everything_on_the_gpu(
    recorded: Recorded, one_layer: Path, method: str
) -> None:
    weighted = {"class_weights": "balanced"} if method_class(method).cross_entropy else {}
    segments = recorded(method, model=one_layer, max_grad_norm=1.0, dropout=0.1, **weighted)
    assert problems(segments) == []
    last = segments[-1].stage
    # The validation rows after update 2, and the test rows.
    assert [(one.stage, one.kind) for one in segments].count((last, "predict")) == 2
    updates = [segment for segment in segments if segment.kind == "update"]
    assert len(updates) == UPDATES * (last + 1)
    for segment in updates:
        assert segment.kernels["aten._foreach_norm"] == 1
        assert segment.kernels["aten._fused_adamw_"] >= 1
        masked_lm = method in {"cmlm", "tapt"} and segment.stage == 0
        assert segment.waits.count(SELECTED) == masked_lm
    assert any(dtype == "bfloat16" for segment in updates for dtype, _ in segment.products)


@pytest.mark.parametrize(("encoder", "method"), ARCHITECTURES)
def test_each_architecture_computes_everything_on_the_gpu(
    recorded: Recorded, encoder: str, method: str, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(encoder)
    segments = recorded(method, model=folder, dropout=0.0)
    assert problems(segments) == []


def test_gradient_caching_encodes_each_chunk_twice_on_the_gpu(
    recorded: Recorded, one_layer: Path
) -> None:
    segments = recorded("simcse", model=one_layer, limits={"LIMIT": 1, "CHUNK": 100})
    assert problems(segments) == []
    for update in (one for one in segments if (one.stage, one.kind) == (0, "update")):
        chunks = update.kernels[f"{ATTENTION}_backward"]
        assert chunks >= 2
        assert update.kernels[ATTENTION] == 2 * chunks


def test_updates_after_an_evaluation_stay_on_the_gpu(
    recorded: Recorded, toy_scores: TaskData
) -> None:
    segments = recorded("ce", data=toy_scores, updates=3)
    assert problems(segments) == []
    assert "predict update" in " ".join(segment.kind for segment in segments)


def test_an_update_and_an_evaluation_start_few_kernels(
    recorded: Recorded, one_layer: Path, save_tiny: Save
) -> None:
    # The number of kernels depends on the number of layers, but not on their width.
    counts: dict[int, dict[str, int]] = {}
    six_layers = save_tiny("Bert", {**SIZES, "num_hidden_layers": 6})
    for layers, folder in ((1, one_layer), (6, six_layers)):
        segments = recorded("ce", model=folder)
        update = [segment for segment in segments if segment.kind == "update"][-1]
        numbers = (update.kernels.total(), update.casts, segments[-1].kernels.total())
        counts[layers] = dict(zip(KERNELS, numbers, strict=True))
    minilm = counts[6]
    # BERT base has six more layers than MiniLM, and all layers are equal.
    bert_base = {name: n + 6 * (n - counts[1][name]) // 5 for name, n in minilm.items()}
    for found, most in ((minilm, MINILM), (bert_base, BERT_BASE)):
        assert all(number <= most[name] for name, number in found.items()), found


@dataclass(frozen=True)
class Careless(CE):
    """Cross-entropy with each mistake that the recorder must find."""

    def terms(self, model: Model, batch: Batch) -> Terms:
        ce = super().terms(model, batch)["ce"]
        weight = model.new_modules["head"].out.weight  # type: ignore[union-attr]
        with torch.autocast("cuda", enabled=False):
            extra = (weight @ weight.mT).sum()  # type: ignore[operator]
        noise = torch.rand(3)
        return {"ce": ce + 0 * extra * ce.item() + noise.to(ce.device).sum()}


def test_the_recorder_finds_each_mistake(recorded: Recorded) -> None:
    found = set(problems(recorded("ce", method=Careless(pooling="mean"))))
    at = "at engine.make_update"
    assert found == {
        f"update: aten._local_scalar_dense {at}",
        f"update: aten.rand on ['cpu'] {at}",
        f"update: aten.rand draws from the CPU {at}",
        f"update: copy from pageable memory {at}",
        f"update: product in float32 {at}",
    }
