"""Tests of the argument checks of StudySpec and RunOptions."""

from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from tests.workspace import MakeSpec


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampler": "bayes"}, "--sampler: must be 'tpe', 'gp', 'random' or 'grid', got 'bayes'."),
        ({"settings": [1]}, "--set: must be a mapping of keys to values, got [1]."),
        ({"space": 3}, "--space: must be 'practical' or 'paper' or must be a path, got 3."),
        ({"space": Path("b\udcff.yaml")}, "--space: must be valid UTF-8, got 'b\\udcff.yaml'."),
    ],
    ids=str,
)
def test_an_invalid_study_spec_names_the_option(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SclsearchError) as raised:
        StudySpec(**{"method": "scl", "task": "demo", **given})
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"configs": 0}, "--configs: must be at least 1, got 0."),
        ({"configs": 2.5}, "--configs: must be a valid integer, got 2.5."),
        ({"configs": 10**9}, "--configs: must be at most 100000, got 1000000000."),
        ({"seeds": 1_000_000}, "--seeds: must be at most 1000, got 1000000."),
        (
            {"gpus_per_trial": -1},
            "--gpus-per-trial: must be 0, 1/k or 1, since a seed run uses one GPU at most, got -1.",
        ),
        (
            {"time_budget": "0h"},
            "--time-budget: must be a positive number of seconds, or one with m, h or d, got '0h'.",
        ),
        ({"time_budget": []}, "--time-budget: must be a valid number, got []."),
        ({"trial_timeout": float("nan")}, "--trial-timeout: must be greater than 0, got"),
    ],
    ids=str,
)
def test_invalid_run_options_name_the_option(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SclsearchError) as raised:
        RunOptions(**given)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("90", 90), ("90s", 90), ("1.5h", 5400), ("2d", 172800), (0.0, 0), (60, 60), (None, None)],
)
def test_a_duration_has_a_unit_or_is_in_seconds(duration: Any, seconds: float | None) -> None:
    options = RunOptions(time_budget=duration)
    assert options.time_budget == seconds


def test_all_invalid_options_are_reported_together() -> None:
    invalid: Any = {"seeds": 0, "concurrency": "many"}
    with pytest.raises(SclsearchError) as raised:
        RunOptions(**invalid)
    assert [line.partition(":")[0] for line in str(raised.value).splitlines()] == [
        "--seeds",
        "--concurrency",
    ]


def test_strings_become_paths_except_for_the_storage() -> None:
    paths: Any = {"space": "mine.yaml", "paraphrases": "texts.jsonl"}
    spec = StudySpec(method="scl", task="demo", **paths)
    assert (spec.space, spec.paraphrases) == (Path("mine.yaml"), Path("texts.jsonl"))
    folder: Any = "glue"
    options = RunOptions(storage="s3://bucket/folder", data_dir=folder)
    assert (options.storage, options.data_dir) == ("s3://bucket/folder", Path("glue"))


def test_a_model_may_be_a_path(make_spec: MakeSpec, tiny_bert: Path) -> None:
    by_path = resolve(make_spec(model=tiny_bert), RunOptions(gpus_per_trial=0))
    assert (
        by_path.identity
        == resolve(make_spec(model=str(tiny_bert)), RunOptions(gpus_per_trial=0)).identity
    )
