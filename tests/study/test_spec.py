"""Tests of the argument checks of StudySpec and RunOptions, and of devices and precision."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.search.prepare import gpus_each
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from tests.studies import MakeSpec


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("90", 90), ("90s", 90), ("1.5h", 5400), ("2d", 172800), (0.0, 0), (60, 60), (None, None)],
)
def test_a_duration_has_a_unit_or_is_in_seconds(duration: Any, seconds: float | None) -> None:
    assert RunOptions(time_budget=duration).time_budget == seconds


def test_all_invalid_options_are_named_together() -> None:
    message = r"^--seeds: must be at least 1, got 0\.\n--concurrency: "
    with pytest.raises(SclsearchError, match=message):
        RunOptions(seeds=0, concurrency=0)
    with pytest.raises(SclsearchError, match=r"^--set: must be a mapping, got \[1\]\.$"):
        StudySpec(method="scl", task="demo", settings=[1])  # type: ignore[arg-type]


@given(k=st.integers(1, 100), digits=st.integers(3, 6))
def test_a_rounded_share_of_1_over_k_is_accepted_and_k_fill_a_gpu(k: int, digits: int) -> None:
    share = RunOptions(gpus_per_trial=round(1 / k, digits) if k < 10 else 1 / k).gpus_per_trial
    assert share is not None
    assert k * share <= 1
    assert (k + 1) * share > 1


def test_a_cluster_search_without_a_local_gpu_requires_gpus_per_trial(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SclsearchError, match=r"^--gpus-per-trial: is missing"):
        resolve(make_spec(), RunOptions(address="auto"))
    assert resolve(make_spec(), RunOptions(address="auto", gpus_per_trial=0)).numerics == "cpu-fp32"
    assert resolve(make_spec(), RunOptions()).numerics == "cpu-fp32"
    with pytest.raises(SclsearchError, match=r"^--precision tf32: needs a GPU\. Pass auto or fp32"):
        resolve(make_spec(precision="tf32"), RunOptions())


def test_precision_and_gpus_determine_the_numerics(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for precision, gpus, fast, numerics in (
        ("auto", 0, True, "cpu-fp32"),
        ("bf16", 0, False, "cpu-bf16"),
        ("auto", 1, True, "cuda-bf16"),
        ("auto", 0.5, False, "cuda-fp32"),
        ("tf32", 1, True, "cuda-tf32"),
    ):
        monkeypatch.setattr("sclsearch.training.device.fast_bf16", lambda _, found=fast: found)
        study = resolve(make_spec(precision=precision), RunOptions(gpus_per_trial=gpus))
        assert study.numerics == numerics
        assert gpus_each(study, RunOptions(gpus_per_trial=gpus)) == gpus
        assert gpus_each(study, RunOptions()) == float(gpus > 0)
