"""Tests of `tune` and `train`: dry runs, stored results and suggested commands."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import INTERRUPTED, STOPPED, SclsearchError
from sclsearch.protocols.papers import gunel_few_shot_training
from sclsearch.ray_backend.failures import WorkerFailure
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.storage import CHECKSUM, sealed
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from tests.cli.conftest import SEARCH, finish_study
from tests.finished import finish
from tests.workspace import Call, Workers

WINNER_COMMANDS = [
    "sclsearch report mine --output report",
    "sclsearch export mine model",
    "sclsearch confirm mine",
]


def next_commands(output: str) -> list[str]:
    """Return the suggested commands at the end of an output."""
    lines = output.rpartition("\nNext:\n")[2].splitlines()
    return [command for line in lines if (command := line.partition("#")[0].strip())]


def suggested(output: str) -> list[str]:
    """Return the suggested commands without the activation of the environment."""
    return [command for command in next_commands(output) if not command.startswith("source ")]


def test_a_dry_run_prints_each_value_with_its_origin_and_writes_nothing(
    sclsearch: Call, workdir: Path
) -> None:
    options = ("--train-size", "100", "--configs", "6", "--set", "lam=0.5")
    result = sclsearch(*SEARCH, "--dry-run", *options)
    assert result.returncode == 0
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for row in (
        "task demo from sclsearch itself",
        f"model ./encoder from {workdir / 'encoder'}",
        "protocol gunel-fewshot, rule top-3, metric accuracy",
        f"storage {workdir / 'sclsearch-storage'}",
        f"mlflow sqlite:///{workdir / 'sclsearch-storage' / 'mlflow.db'}",
        "rows 100 / 500 / 500 (training / validation / test)",
        "space practical, because the encoder has 2 layers of width 24, and roberta-large of "
        "protocol gunel-fewshot has 24 of width 1024",
        "tau 0.1 | 0.3 | 0.5 | 0.7 searched",
        "lam 0.5 --set",
        "learning_rate 0.0002 … 0.003 log searched",
        f"epochs {gunel_few_shot_training(100, 16)['epochs']} protocol",
        "weight_decay 0.1 training",
        "scl_features mean space",
    ):
        assert row in rows
    text = " ".join(rows)
    assert "6 configurations x 10 seeds = 60 seed runs; 1 (start) first; in the store: 0" in text
    assert "by a timed update of the encoder" in text
    assert not (workdir / "sclsearch-storage").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            "--method tapt --train-size 100 --unlabeled 500",
            "rows     100 / 500 / 500 / 500 (training / validation / test / stages without labels)",
        ),
        ("--protocol supcl-seq", "         chosen and reported on the same rows"),
        ("--train-size 1", "         training: 1 example of 2 classes: some have none"),
    ],
    ids=["rows of stages", "same rows", "few rows"],
)
def test_a_dry_run_notes_unusual_rows(sclsearch: Call, options: str, line: str) -> None:
    result = sclsearch(*SEARCH, "--dry-run", *options.split())
    assert line in result.stdout.splitlines()


def test_a_dry_run_describes_a_race_and_refuses_an_invalid_one(sclsearch: Call) -> None:
    result = sclsearch(*SEARCH, "--dry-run", "--race", "2", "--seeds", "6")
    assert (
        "race: after 2 and 4 seeds, the best third of the configurations and those within 2 "
        "standard errors of the leader go on" in " ".join(result.stdout.split())
    )
    for options, printed in (
        (("--race", "2", "--seeds", "2"), "--race: needs more seeds per configuration, got 2."),
        (("--race", "off", "--seed-runs", "8"), "No such option: --seed-runs"),
        (("--race", "-0.1"), "--race: must be greater than 0 or must be 'exact' or 'off', got"),
    ):
        sclsearch(*SEARCH, "--dry-run", *options).assert_refused(printed)


def test_a_dry_run_prints_ranges(sclsearch: Call, space: Path) -> None:
    text = space.read_text().replace("tau: {type: float", "tau: {type: log")
    space.write_text(text)
    result = sclsearch(*SEARCH, "--dry-run", "--space", space.name)
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "tau 0.1 … 0.7 log searched" in rows


def test_a_dry_run_prints_json(sclsearch: Call, workdir: Path) -> None:
    result = sclsearch(*SEARCH, "--dry-run", "--json", "--configs", "6", "--set", "epochs=3")
    planned = json.loads(result.stdout)
    assert planned["fields"]["epochs"] == {"value": 3, "source": "--set"}
    assert planned["searched"]["tau"]["values"] == [0.1, 0.3, 0.5, 0.7]
    start = {"tau": 0.3, "lam": 0.9, "head_lr_mult": 10.0, "batch_size": 16}
    assert planned["published"] == [{"learning_rate": 0.001, **start}]
    assert (planned["configurations"], planned["seeds"], planned["stored"]) == (6, 5, 0)
    assert planned["time"]["seconds"] > 0
    assert not (workdir / "sclsearch-storage").exists()


def test_a_dry_run_of_one_configuration_takes_the_published_values(sclsearch: Call) -> None:
    result = sclsearch(*("train", *SEARCH[1:], "--dry-run"))
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "tau 0.3 space" in rows
    assert "1 configuration x 5 seeds = 5 seed runs; in the store: 0" in rows


def test_a_dry_run_counts_stored_seed_runs(sclsearch: Call, finished: tuple[str, ...]) -> None:
    result = sclsearch(*finished, "--dry-run")
    text = " ".join(result.stdout.split())
    assert "2 configurations x 2 seeds = 4 seed runs; 1 (start) first; in the store: 4" in text
    assert "time:" not in text
    more = sclsearch(*finished, "--dry-run", "--seeds", "4", "--concurrency", "2")
    assert more.stdout.endswith("time: under 1 min; 2 seed runs at a time, by stored seed runs\n")
    printed = json.loads(sclsearch(*finished, "--dry-run", "--json", "--configs", "5").stdout)
    assert printed["time"]["basis"] == "stored seed runs"
    assert printed["time"]["seconds"] >= 2.0


def custom_rows(workdir: Path, count: int, label: Callable[[int], str]) -> tuple[str, ...]:
    """Write a file of rows; return the options that name it."""
    rows = "".join(f"text {number},{label(number)}\n" for number in range(count))
    (workdir / "my.csv").write_text(f"review,stars\n{rows}")
    return "--task", "./my.csv", "--text", "review", "--label", "stars"


def test_a_custom_file_is_a_task(sclsearch: Call, workdir: Path) -> None:
    custom = custom_rows(workdir, 60, lambda number: "good" if number % 2 else "bad")
    custom += ("--fractions", "0.5,0.3,0.2")
    result = sclsearch(*SEARCH, "--dry-run", *custom, "--metric", "f1")
    assert result.returncode == 0
    assert "protocol plain, rule mean, metric f1\n" in result.stdout
    assert "rows     30 / 18 / 12 (training / validation / test)\n" in result.stdout
    assert "\nclasses  bad (15), good (15)\n" in result.stdout
    assert "\n         f1 is of the class 'good', the last by name\n" in result.stdout


def test_a_long_list_of_classes_is_shortened_to_a_line(sclsearch: Call, workdir: Path) -> None:
    custom = custom_rows(workdir, 400, lambda number: f"class {number % 40:02}")
    lines = sclsearch(*SEARCH, "--dry-run", *custom).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("classes")]
    assert line.startswith("classes  class 00 (8), class 01 (8), ")
    assert line.endswith(" … (40 in all)")
    assert 70 < len(line) <= 80


def test_a_finished_search_with_a_failed_seed_is_read_and_gives_exit_code_3(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    result = sclsearch(*finished)
    assert result.returncode == 3
    assert "Winner #0 learning_rate=0.001 tau=0.3 lam=0.9" in result.stdout
    assert "test accuracy 0.6100 ± 0.0141, mean ± std of all 2 seeds" in result.stdout
    assert suggested(result.stdout) == WINNER_COMMANDS
    assert "4 seed runs read from the store: under 1 min of training not repeated" in result.stdout
    assert "shown: the first" not in result.stdout
    assert result.stderr == ""


def test_a_used_time_budget_gives_exit_code_3(
    sclsearch: Call, finished: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ("--configs", "1")
    assert sclsearch(*finished, *first).returncode == 0
    budgets: list[float | None] = []

    def train(scheduler: Scheduler, *_: object) -> str:
        budgets.append(scheduler.options.time_budget)
        return "out of time"

    monkeypatch.setattr("sclsearch.search.run._train", train)
    result = sclsearch(*finished, *first, "--seeds", "3", "--time-budget", "2m")
    assert budgets == [120.0]
    assert result.returncode == 3
    assert result.stderr.endswith(
        "The time budget is used: 2 of 3 seed runs. Run the same command again to resume.\n"
    )


def test_suggested_commands_quote_the_storage_for_a_shell(
    sclsearch: Call, workdir: Path, finished: tuple[str, ...]
) -> None:
    (workdir / "sclsearch-storage").rename(workdir / "my storage")
    printed = sclsearch(*finished, "--storage", "my storage").stdout
    where = f"--storage '{workdir}/my storage'"
    assert suggested(printed) == [f"{command} {where}" for command in WINNER_COMMANDS]


@pytest.mark.slow
def test_an_unreachable_mlflow_server_is_reported(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    result = sclsearch(*finished[:-2])
    assert suggested(result.stdout) == WINNER_COMMANDS
    assert result.stderr == ""
    nowhere = "http://me:secret@127.0.0.1:9"
    result = sclsearch(*finished[:-1], nowhere)
    assert suggested(result.stdout) == WINNER_COMMANDS
    assert "http://***@127.0.0.1:9" in result.stderr
    assert "The same command completes it." in result.stderr


def test_a_smaller_total_ranks_the_first_configurations_and_deletes_nothing(
    sclsearch: Call, workdir: Path, finished: tuple[str, ...]
) -> None:
    result = sclsearch(*finished, "--configs", "1", "--json")
    assert result.returncode == 0
    assert [line["number"] for line in json.loads(result.stdout)["configurations"]] == [0]
    assert len(list((workdir / "sclsearch-storage" / "runs").glob("*.json"))) == 4
    part = " ".join(sclsearch(*finished, "--configs", "1").stdout.split())
    assert "shown: the first 1 of 2 stored configurations; show, report and export read" in part


def test_a_dry_run_warns_of_truncated_texts_and_unknown_tokens(
    sclsearch: Call, workdir: Path
) -> None:
    rows = "".join(
        f"the film was very good {n} неизвестно,a\nbad film ☃ ☃ ☃,b\n" for n in range(40)
    )
    (workdir / "rows.csv").write_text(f"t,l\n{rows}", encoding="utf-8")
    custom = ("--task", "rows.csv", "--text", "t", "--label", "l", "--set", "max_length=6")
    result = sclsearch("tune", "--method", "ce", *custom, "--model", "./encoder", "--dry-run")
    text = " ".join(result.stdout.split())
    assert "max_length 6 cuts 70 of 70 sampled texts, the longest of" in text
    assert "of the tokens are unknown to ./encoder: take a --model of the texts' language" in text


def test_missing_data_and_model_are_reported_together(sclsearch: Call, workdir: Path) -> None:
    command = ("tune", "--method", "supcl-seq", "--task", "cola", "--data-dir", ".")
    result = sclsearch(*command, "--model", "./nothing")
    assert result.returncode == 2
    *data, model, instead = result.stderr.splitlines()
    assert "CoLA" in data[0]
    assert model.startswith("--model ./nothing: ")
    assert instead == "Without data and model: --task demo --model minilm."


def test_a_dry_run_of_a_long_search_suggests_how_to_shorten_it(
    sclsearch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.cli.results.LONG", 0.0)
    printed = "  shorter: --scale laptop, or fewer --seeds or --configs\n"
    assert printed in sclsearch(*SEARCH, "--dry-run").stdout
    assert printed not in sclsearch(*SEARCH, "--scale", "laptop", "--dry-run").stdout


def test_a_unique_prefix_of_a_studys_name_is_accepted(
    sclsearch: Call, finished: tuple[str, ...]
) -> None:
    assert sclsearch("show", "mi").stdout == sclsearch("show", "mine").stdout
    shutil.copytree("sclsearch-storage/studies/mine", "sclsearch-storage/studies/mint")
    result = sclsearch("show", "mi")
    assert result.returncode == 2
    assert (
        "'mi': must be the beginning of one study's name, got that of mine, mint." in result.stderr
    )
    # A repetition of a winner does not make the prefix of a search ambiguous.
    record = Path("sclsearch-storage/studies/mint/study.json")
    changed = json.loads(record.read_text(encoding="utf-8"))
    del changed[CHECKSUM]
    changed["name"], changed["origin"]["fresh"] = "mint", 5
    record.write_text(json.dumps(sealed(changed)), encoding="utf-8")
    assert sclsearch("show", "mi").stdout == sclsearch("show", "mine").stdout


def test_a_dry_run_describes_the_splits_of_each_replicate(sclsearch: Call, workdir: Path) -> None:
    custom = custom_rows(workdir, 100, lambda number: "good" if number % 2 else "bad")
    result = sclsearch(*SEARCH, *custom, "--splits", "5", "--dry-run")
    text = " ".join(result.stdout.split())
    assert "protocol plain, 5 splits, rule mean" in text
    assert "rows 48 / 12 / 40 (training / validation / test)" in text
    assert "validation: 12 rows, 20% of the 60 training rows" in text
    sclsearch(*SEARCH, "--task", "cola", "--splits", "5", "--dry-run").assert_refused(
        "--splits 5: needs --protocol plain"
    )


@pytest.mark.parametrize("active", [True, False])
def test_a_search_ends_with_the_next_commands_and_the_activation(
    active: bool, sclsearch: Call, finished: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sclsearch.cli.results.which", lambda _: "/bin/sclsearch" if active else None
    )
    output = sclsearch(*finished).stdout
    activate = f"source {Path(sys.prefix) / 'bin' / 'activate'}"
    assert next_commands(output) == [*([] if active else [activate]), *WINNER_COMMANDS]
    assert "# test the winner on new seeds" in output
    assert max(len(line) for line in output.splitlines() if "weights" not in line) <= 80


@pytest.fixture
def both(workdir: Path) -> tuple[str, ...]:
    """Return the command of a search of `ce` and `scl` whose seed runs are all stored."""
    finish_study("ce", "both-ce")
    finish_study("scl", "both-scl")
    totals = ("--configs", "2", "--seeds", "2", "--tracking", "none", "--study", "both")
    return (*SEARCH, "--method", "ce, scl", *totals)


def test_several_methods_end_with_the_comparison_of_their_winners(
    sclsearch: Call, both: tuple[str, ...]
) -> None:
    result = sclsearch(*both)
    assert result.returncode == 0
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    first, second = rows.index("1 both-ce"), rows.index("2 both-scl")
    assert second == first + 1
    budget = rows.index("Budget of the searches")
    assert rows[budget + 2 : budget + 4] == ["1 ce 2 4 under 1 min", "2 scl 2 4 under 1 min"]
    assert "ce on demo, ./encoder, protocol plain" in rows
    assert suggested(result.stdout) == [
        "sclsearch compare both-ce both-scl",
        "sclsearch show both-ce",
        "sclsearch report both-ce both-scl --output report",
    ]
    assert result.stderr == "ce (1 of 2)\nscl (2 of 2)\n"


def test_several_methods_as_json_are_one_object(sclsearch: Call, both: tuple[str, ...]) -> None:
    found = json.loads(sclsearch(*both, "--json").stdout)
    assert [report["study"] for report in found["reports"]] == ["both-ce", "both-scl"]
    assert [one["seed_runs"] for one in found["studies"]] == [4, 4]
    assert found["errors"] == {}


def test_a_dry_run_of_several_methods_prints_totals(sclsearch: Call, both: tuple[str, ...]) -> None:
    result = sclsearch(*both, "--dry-run", "--configs", "3")
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert {"device cpu, fp32", "protocol plain, rule mean, metric accuracy"} < set(rows)
    after_scl = rows[next(n for n, row in enumerate(rows) if row.startswith("scl ")) :]
    assert any(row.startswith("tau: ") for row in after_scl)
    assert [row.rpartition(" 2 ")[0] for row in rows[-3:-1]] == ["ce 3 x 2 6 4", "scl 3 x 2 6 4"]
    assert rows[-1].startswith("together 12 8 4 ")
    planned = json.loads(sclsearch(*both, "--dry-run", "--json").stdout)["plans"]
    assert [plan["seed_runs"] for plan in planned] == [4, 4]


def test_an_error_in_one_method_keeps_the_results_of_the_others(
    sclsearch: Call, both: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(prepared: Scheduler, *_: object) -> str:
        if prepared.study.method.name == "ce":
            raise SclsearchError("the storage does not respond")
        return "interrupted"

    monkeypatch.setattr("sclsearch.search.run._train", train)
    result = sclsearch(*both, "--configs", "3")
    assert result.returncode == INTERRUPTED
    assert "ce: the storage does not respond" in result.stderr
    assert "Stopped: 4 of 6 seed runs." in result.stderr
    assert "No comparison: 1 of 2 methods have results." in result.stderr
    assert "Winner #1" in result.stdout


def test_an_interruption_keeps_the_results_of_finished_methods(
    sclsearch: Call, both: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(prepared: Scheduler, *_: object) -> str:
        if prepared.study.method.name == "scl":
            raise KeyboardInterrupt
        return "complete"

    monkeypatch.setattr("sclsearch.search.run._train", train)
    result = sclsearch(*both, "--configs", "3")
    assert result.returncode == INTERRUPTED
    assert "Winner #1" in result.stdout
    assert STOPPED in result.stderr


def test_methods_without_a_winner_are_not_compared(
    sclsearch: Call, both: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.search.run._train", lambda *_: "out of time")
    result = sclsearch(*both, "--seeds", "3")
    assert result.returncode == 3
    assert "No comparison: both-ce: no configuration is finished." in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "ce,sc1"), "Unknown method 'sc1'. Did you mean 'scl'?"),
        (("--method", "ce,ce"), "--method: must name different methods, got ce, ce."),
        (("--space", "mine.yaml"), "--space mine.yaml: is the space of one method, got 2 methods."),
        (("--set", "tau=1"), "ce: --set tau: unknown key."),
    ],
    ids=str,
)
def test_errors_of_several_methods_name_option_and_value(
    sclsearch: Call,
    space: Path,
    options: tuple[str, ...],
    message: str,
) -> None:
    result = sclsearch(*SEARCH, "--method", "ce,scl", *options)
    assert result.returncode == 2
    assert result.stderr.startswith(message)


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

    monkeypatch.setattr("sclsearch.search.run._train", train)
    totals = ("--configs", "2", "--seeds", "2", "--rule", "mean", "--tracking", "none")
    options = (*SEARCH, *totals, "--train-size", "20", "--test-scores", "winner")
    result = sclsearch(*options)
    assert result.returncode == 3
    assert "2 seed runs could not be tested. Run the same command again" in result.stderr
    untestable = False
    again = sclsearch(*options)
    assert again.returncode == 0, again.stderr
    assert "could not be tested" not in again.stderr


def test_train_from_a_study_takes_its_winner_unless_options_replace_it(
    sclsearch: Call, workdir: Path, finished: tuple[str, ...]
) -> None:
    def planned(*options: str) -> dict[str, Any]:
        result = sclsearch("train", "--from", "mine", "--dry-run", "--json", *options)
        assert result.returncode == 0, result.stderr
        plan: dict[str, Any] = json.loads(result.stdout)
        return {**plan, "fields": {name: one["value"] for name, one in plan["fields"].items()}}

    winner = finished_winner(report(workdir / "sclsearch-storage", "mine"))
    fields = json.loads(json.dumps(dict(winner.fields)))
    plan = planned()
    assert plan["fields"].items() >= fields.items()
    assert (plan["task"][0], plan["model"][0]) == ("demo", str(workdir / "encoder"))
    plan = planned(
        *("--set", "tau=0.7", "--epochs", "3", "--seeds", "4"),
        *("--train-size", "60", "--protocol", "gunel-fewshot"),
    )
    assert plan["fields"].items() >= {**fields, "tau": 0.7, "epochs": 3}.items()
    assert (plan["seeds"], plan["rows"][0]) == (4, 60)


def test_train_from_a_study_on_other_rows(sclsearch: Call, workdir: Path) -> None:
    rows = [f"a film {n},{'yes' if n % 2 else 'no'}" for n in range(40)]
    for name, count in (("all", 40), ("few", 20)):
        lines = ["text,label", *rows[:count], ""]
        (workdir / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    task = CustomTask(Path("all.csv"), "text", "label", fractions=(0.5, 0.25, 0.25))
    spec = StudySpec(method="ce", task=task, model="./encoder", searched=False)
    finish(spec, RunOptions(study="mine", seeds=2))

    def planned(*options: str) -> list[int]:
        result = sclsearch("train", "--from", "mine", "--dry-run", "--json", *options)
        assert result.returncode == 0, result.stderr
        rows: list[int] = json.loads(result.stdout)["rows"]
        return rows

    assert planned() == [20, 10, 10]
    assert planned("--fractions", "0.8,0.1,0.1") == [32, 4, 4]
    assert planned("--task", "few.csv", "--fractions", "0.5,0.25,0.25") == [10, 5, 5]
    assert planned("--task", "demo")[2] == 500
    sclsearch("train", "--from", "mine", "--task", "nope").assert_refused("Unknown task 'nope'")
    sclsearch("train", "--from", "mine", "--method", "scl").assert_refused("must be ce")
    sclsearch("train", "--from", "other").assert_refused("Unknown study 'other'")
    sclsearch("train", "--method", "ce").assert_refused("--task: must be given without --from")
