"""Tests of `tune` and `train`: dry runs, stored results and suggested commands."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import INTERRUPTED, STOPPED, SclsearchError
from sclsearch.protocols.papers import gunel_few_shot_epochs
from sclsearch.ray_backend.failures import WorkerFailure
from sclsearch.search.scheduler import Scheduler
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from tests.cli.conftest import SEARCH, TOTALS, finish_study
from tests.conftest import Call
from tests.studies import TRAIN, Workers, finish, repeated_spec

WINNER_COMMANDS = [
    "sclsearch report mine --output report",
    "sclsearch export mine model",
]
Planned = Callable[..., dict[str, Any]]


def suggested(output: str) -> list[str]:
    """Return the suggested commands at the end of an output."""
    lines = (line.partition("#")[0].strip() for line in output.splitlines())
    return [line for line in lines if line.startswith("sclsearch ")]


def rows_of(output: str) -> list[str]:
    """Return the lines of an output without padding."""
    return [" ".join(line.split()) for line in output.splitlines()]


@pytest.fixture(autouse=True)
def _active(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command be on the PATH, so that no hint says how to activate its environment."""
    monkeypatch.setattr("sclsearch.cli.results.which", lambda _: "/bin/sclsearch")


@pytest.fixture
def planned(sclsearch: Call) -> Planned:
    """Return a function that returns the plan of a dry run as JSON."""

    def planned(*arguments: str) -> dict[str, Any]:
        result = sclsearch(*arguments, "--dry-run", "--json")
        assert result.returncode == 0, result.stderr
        plan: dict[str, Any] = json.loads(result.stdout)
        return plan

    return planned


def test_a_dry_run_prints_each_value_with_its_source_and_writes_nothing(
    sclsearch: Call, storage: Path
) -> None:
    options = ("--train-size", "100", "--configs", "6", "--set", "lam=0.5", "--race", "2")
    result = sclsearch(*SEARCH, "--dry-run", *options)
    assert result.returncode == 0
    printed = rows_of(result.stdout)
    for row in (
        "protocol gunel-fewshot, rule top-3, metric accuracy",
        f"mlflow sqlite:///{storage / 'mlflow.db'}",
        "rows 100 / 500 / 500 (training / validation / test)",
        "tau 0.05 … 1 log searched",
        "lam 0.5 --set",
        "learning_rate 0.0002 … 0.003 log searched",
        f"epochs {gunel_few_shot_epochs(100, 16)['epochs']} protocol",
        "scl_features mean space",
        "6 configurations x 10 seeds = 60 seed runs; 1 (start) first; stored: 0",
        "race: after 3 and 6 seeds, the best third of the configurations and those within 2 "
        "standard errors of the leader go on",
        "time: shown after the first seed runs",
    ):
        assert row in printed
    assert not storage.exists()


def test_a_dry_run_counts_stored_seed_runs(planned: Planned, finished: tuple[str, ...]) -> None:
    plan = planned(*finished, "--seeds", "4", "--concurrency", "2")
    assert (plan["seed_runs"], plan["stored"], plan["missing"]) == (8, 4, 4)
    at_once = min(2, len(os.sched_getaffinity(0)))
    assert plan["at_once"] == at_once
    assert 0 < plan["seconds"] < 600
    one = planned("train", *SEARCH[1:], "--epochs", "3")
    assert one["fields"]["epochs"] == {"value": 3, "source": "--set"}
    assert (one["configurations"], one["seeds"], one["searched"]) == (1, 5, {})


def test_a_finished_search_with_a_failed_seed_is_read_and_gives_exit_code_3(
    sclsearch: Call, storage: Path, finished: tuple[str, ...]
) -> None:
    result = sclsearch(*finished)
    assert (result.returncode, result.stderr) == (3, "")
    answer = "test accuracy 0.6100 ± 0.0141, mean ± std of all 2 seeds."
    assert answer in " ".join(result.stdout.split())
    assert (
        "4 seed runs read from the storage: under 1 min of training not repeated" in result.stdout
    )
    *commands, retry = suggested(result.stdout)
    assert commands == WINNER_COMMANDS
    assert retry.startswith("sclsearch tune ")
    assert retry.endswith(" --study mine --configs 2 --sampler gp --search-seed 0 --retry-failed")
    storage.rename(storage.with_name("my storage"))
    where = f"--storage '{storage.with_name('my storage')}'"
    elsewhere = sclsearch(*finished, "--storage", "my storage").stdout
    assert suggested(elsewhere)[:2] == [f"{one} {where}" for one in WINNER_COMMANDS]


def test_a_smaller_total_deletes_nothing_and_a_used_time_budget_gives_exit_code_3(
    sclsearch: Call, storage: Path, finished: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = json.loads(sclsearch(*finished, "--configs", "1", "--json").stdout)
    assert [line["number"] for line in found["configurations"]] == [0]
    assert "shown: the first 1 of 2 stored configurations" in " ".join(found["notes"])
    assert len(list((storage / "runs").glob("*.json"))) == 4
    budgets: list[float | None] = []

    def train(scheduler: Scheduler, *_: object) -> str:
        budgets.append(scheduler.options.time_budget)
        return "out of time"

    monkeypatch.setattr(TRAIN, train)
    result = sclsearch(*finished, "--configs", "1", "--seeds", "3", "--time-budget", "2m")
    assert (result.returncode, budgets) == (3, [120.0])
    assert result.stderr.endswith("2 of 3 seed runs. Run the same command again to resume.\n")


def test_a_unique_prefix_of_a_studys_name_is_accepted(
    sclsearch: Call, storage: Path, finished: tuple[str, ...]
) -> None:
    # A repetition of a winner does not make the prefix of a search ambiguous.
    finish(repeated_spec(storage, "mine", fresh=2), RunOptions(study="mint", storage=storage))
    assert sclsearch("show", "mi").stdout == sclsearch("show", "mine").stdout
    shutil.copytree(storage / "studies/mine", storage / "studies/mix")
    sclsearch("show", "mi").assert_refused("'mi': must be the beginning of one", "mine, mix")


@pytest.fixture
def both(workdir: Path) -> tuple[str, ...]:
    """Return the command of a search of `ce` and `scl` whose seed runs are all stored."""
    finish_study("ce", "both-ce")
    finish_study("scl", "both-scl")
    return (*SEARCH, "--method", "ce, scl", "--study", "both", *TOTALS)


def test_several_methods_end_with_a_comparison_and_their_dry_run_with_totals(
    sclsearch: Call, both: tuple[str, ...]
) -> None:
    result = sclsearch(*both)
    assert (result.returncode, result.stderr) == (0, "ce (1 of 2)\nscl (2 of 2)\n")
    rows = rows_of(result.stdout)
    budget = rows.index("Budget of the searches")
    assert rows[budget + 2 : budget + 4] == ["1 ce 2 4 under 1 min", "2 scl 2 4 under 1 min"]
    assert suggested(result.stdout) == [
        "sclsearch export both-ce model",
        "sclsearch report both-ce both-scl --output report",
        "sclsearch confirm both-ce both-scl",
    ]
    found = json.loads(sclsearch(*both, "--json").stdout)
    assert [report["study"] for report in found["reports"]] == ["both-ce", "both-scl"]
    assert [one["study"] for one in found["studies"]] == ["both-ce", "both-scl"]
    assert found["errors"] == {}
    rows = rows_of(sclsearch(*both, "--dry-run", "--configs", "3").stdout)
    assert [row.rpartition(" 2 ")[0] for row in rows[-3:-1]] == ["ce 3 x 2 6 4", "scl 3 x 2 6 4"]
    assert rows[-1].startswith("together 12 8 4 ")


@pytest.mark.parametrize(
    ("method", "event", "code", "message"),
    [
        ("ce", SclsearchError("the storage is full"), 2, "ce: the storage is full"),
        ("scl", KeyboardInterrupt(), INTERRUPTED, STOPPED),
    ],
)
def test_an_event_in_one_method_keeps_the_results_of_the_others(
    method: str,
    event: BaseException,
    code: int,
    message: str,
    sclsearch: Call,
    both: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def train(prepared: Scheduler, *_: object) -> str:
        if prepared.study.method.name == method:
            raise event
        return "complete"

    monkeypatch.setattr(TRAIN, train)
    result = sclsearch(*both, "--configs", "3")
    assert result.returncode == code
    assert message in result.stderr
    unfinished = "No comparison: 1 of 2 studies have results." in result.stderr
    assert unfinished == (code != INTERRUPTED)
    assert "So far: #1 is the best of 2 finished configurations" in result.stdout


def test_an_untested_winner_gives_exit_code_3_until_it_is_tested(
    sclsearch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, untestable = Workers(), True

    def train(scheduler: Scheduler, *_: object) -> str:
        workers.decide(scheduler)
        while untestable and (task := scheduler.next()) is not None:
            scheduler.record_failure(task, WorkerFailure("hang", "no scores", ""))
        workers.run_out(scheduler)
        return "complete"

    monkeypatch.setattr(TRAIN, train)
    options = (*SEARCH, *TOTALS, "--rule", "mean", "--train-size", "20", "--test-scores", "winner")
    result = sclsearch(*options)
    assert result.returncode == 3
    assert "2 seed runs could not be tested. Run the same command again" in result.stderr
    untestable = False
    assert sclsearch(*options).returncode == 0


def test_train_from_a_study_on_other_rows(workdir: Path, planned: Planned) -> None:
    for name, count in (("all", 20), ("few", 10)):
        rows = [f"a film {n},yes\nno film {n},no\n" for n in range(count)]
        (workdir / f"{name}.csv").write_text("text,label\n" + "".join(rows))
    task = CustomTask(Path("all.csv"), "text", "label", fractions=(0.5, 0.25, 0.25))
    spec = StudySpec(method="ce", task=task, model="./encoder", searched=False)
    finish(spec, RunOptions(study="mine", seeds=2))
    train = ("train", "--from", "mine")
    few = ("--task", "few.csv", "--fractions", "0.5,0.25,0.25")
    assert planned(*train)["rows"] == [20, 10, 10]
    assert planned(*train, "--fractions", "0.8,0.1,0.1")["rows"] == [32, 4, 4]
    assert planned(*train, *few)["rows"] == [10, 5, 5]
    assert planned(*train, "--task", "demo")["rows"][2] == 500
