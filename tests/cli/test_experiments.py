"""Tests of `reproduce` and `confirm`: dry runs, results and errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import STOPPED
from sclsearch.papers.reproduce import plan_cells
from sclsearch.papers.tables import published_tables, select_cells
from sclsearch.reports.report import report
from sclsearch.search.run import run_prepared
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.studies import study_names
from sclsearch.study.spec import RunOptions
from tests.finished import Confusion, finish, repeated_spec
from tests.workspace import Call

Finish = Callable[..., str]

TABLE = ("reproduce", "lacon/table-6", "--model", "./encoder", "--data-dir", "glue")
ONE = ("--cells", "LCL,CoLA", "--scale", "laptop", "--tracking", "none", "--gpus-per-trial", "0")
ON_CPU = ("--tracking", "none", "--gpus-per-trial", "0")


@pytest.fixture
def storage(workdir: Path) -> Path:
    return workdir / "sclsearch-storage"


@pytest.fixture
def data(workdir: Path) -> Path:
    """Return a data folder with a small CoLA in the current folder."""
    folder = workdir / "glue" / "CoLA"
    folder.mkdir(parents=True)
    for name, count in {"train": 60, "dev": 40}.items():
        rows = [f"gj04\t{number % 2}\t\tSentence {name} {number}." for number in range(count)]
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder.parent


@pytest.fixture
def run_options(storage: Path, data: Path) -> RunOptions:
    return RunOptions(storage=storage, data_dir=data, gpus_per_trial=0)


def scores(failed: tuple[int, ...]) -> Callable[[int, int], Confusion | None]:
    """Return made-up counts; failed replicates have none."""
    return lambda _, r: None if r in failed else [[12, 8], [4 + r, 16 - r]]


@pytest.fixture
def finish_cell(run_options: RunOptions) -> Finish:
    """Return a function that finishes a cell's study of LaCon's table 6 at laptop scale."""

    def finish_cell(cell: str = "LCL,CoLA", failed: tuple[int, ...] = ()) -> str:
        table = published_tables()["lacon/table-6"]
        cells = select_cells(table, [cell])
        (one,) = plan_cells(table, cells, run_options, scale="laptop", model="./encoder")
        return finish(one.spec, one.options, scores(failed), seconds=2.0)

    return finish_cell


@pytest.fixture
def repeat(run_options: RunOptions) -> Finish:
    """Return a function that finishes a repetition of a winner without training."""

    def repeat(name: str, failed: tuple[int, ...] = (), **repetition: Any) -> str:
        spec = repeated_spec(run_options.storage, name, **repetition)
        return finish(spec, run_options, scores(failed), seconds=2.0)

    return repeat


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_dry_run_lists_the_studies_and_writes_none(
    sclsearch: Call, storage: Path, data: Path
) -> None:
    result = sclsearch(*TABLE, "--cells", "CoLA", "--cells", "ICL,RTE", "--dry-run", *ONE[2:])
    assert result.returncode == 0
    rows = [flat(line) for line in result.stdout.splitlines()]
    assert any(row.startswith("LCL cola 6 6 ") for row in rows)
    assert "6 studies, 36 seed runs, 36 of them to train; time: " in flat(result.stdout)
    assert "- full, ICL, RTE: " in result.stdout
    assert "RTE/train.tsv: the file is missing." in flat(result.stdout)
    assert study_names(storage) == []


def test_a_dry_run_counts_stored_seed_runs_as_text_and_as_json(
    sclsearch: Call, finish_cell: Finish
) -> None:
    name = finish_cell()
    assert "LCL cola 6 0 0 min" in flat(sclsearch(*TABLE, *ONE, "--dry-run").stdout)
    output = json.loads(sclsearch(*TABLE, *ONE, "--dry-run", "--json").stdout)
    (study,) = output["studies"]
    assert (study["study"], study["missing"], study["cell"]["row"]["name"]) == (name, 0, "LCL")
    assert study["time"] == {"seconds": 0.0, "at_once": study["time"]["at_once"], "basis": ""}
    assert output["not_reproduced"] == []
    other = (*ONE[:1], "LCL,ICL,CoLA", *ONE[2:])
    assert "ICL cola 6 6 under 1 min" in flat(sclsearch(*TABLE, *other, "--dry-run").stdout)


def test_scores_come_from_the_store_without_training(
    sclsearch: Call, finish_cell: Finish, storage: Path
) -> None:
    name = finish_cell()
    result = sclsearch(*TABLE, *ONE)
    assert result.returncode == 0
    mean = report(storage, name).configurations[0].test_mean
    assert mean is not None
    assert f"LCL CoLA {100 * mean:.1f} ±" in flat(result.stdout)
    assert "61.1 ± 1.3" in result.stdout
    assert "full, LCL, CoLA" in result.stderr
    output = json.loads(sclsearch(*TABLE, *ONE, "--json").stdout)
    assert (output["table"], output["pairs"]) == ("lacon/table-6", [])
    assert output["scores"][0]["mean"] == pytest.approx(mean)
    assert output["scores"][0]["cell"]["value"] == 61.1
    assert output["scores"][0]["published"] == [0.611, 0.013]


def test_failed_seeds_give_exit_code_3_and_a_table_without_scores_gives_2(
    sclsearch: Call, finish_cell: Finish
) -> None:
    finish_cell(failed=(1,))
    result = sclsearch(*TABLE, *ONE)
    assert (result.returncode, "2/3" in result.stdout) == (3, True)
    result = sclsearch("reproduce", "gunel/table-2", "--cells", "Avg")
    assert result.returncode == 2
    assert "can be trained. full, CE, Avg: a mean of other cells" in flat(result.stderr)


def test_an_interruption_ends_all_cells_and_shows_finished_ones(
    sclsearch: Call, finish_cell: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_cell("ICL,CoLA")
    started: list[Scheduler] = []

    def stopped(prepared: Scheduler, console: Any) -> Any:
        started.append(prepared)
        if len(started) == 2:
            raise KeyboardInterrupt
        return run_prepared(prepared, console)

    monkeypatch.setattr("sclsearch.papers.reproduce.run_prepared", stopped)
    result = sclsearch(*TABLE, "--cells", "CoLA", *ONE[2:])
    assert (result.returncode, len(started)) == (130, 2)
    assert STOPPED in result.stderr
    lines = [flat(line) for line in result.stdout.splitlines()]
    assert [line[:8] for line in lines if "CoLA" in line and "- full" not in line][1:] == [
        "ICL CoLA"
    ]


def test_a_confirmation_shows_chosen_and_fresh_scores(
    sclsearch: Call, finish_cell: Finish, repeat: Finish
) -> None:
    name = finish_cell()
    repeat(name, fresh=4, first_fresh=3)
    result = sclsearch("confirm", name, "--seeds", "4", *ON_CPU)
    assert result.returncode == 0
    text = flat(result.stdout)
    assert f"Winner #0 of {name}, test mcc as chosen" in text
    assert "mean of 4 seeds fresh - chosen" in text


def test_failed_fresh_seeds_give_exit_code_3(
    sclsearch: Call, finish_cell: Finish, repeat: Finish
) -> None:
    name = finish_cell()
    repeat(name, fresh=4, first_fresh=3, failed=(2,))
    result = sclsearch("confirm", name, "--seeds", "4", *ON_CPU)
    assert (result.returncode, "mean of 3 of 4 seeds" in result.stdout) == (3, True)


def test_a_dry_run_of_a_confirmation_counts_its_seed_runs_and_writes_nothing(
    sclsearch: Call, storage: Path, finish_cell: Finish, repeat: Finish
) -> None:
    name = finish_cell()
    command_line = ("confirm", name, "--seeds", "4", *ON_CPU, "--dry-run")
    result = sclsearch(*command_line)
    assert result.returncode == 0
    assert "\n1 configuration x 4 seeds = 4 seed runs; in the store: 0\n" in result.stdout
    assert "\ntime: " in result.stdout
    assert "tau 0.1 winner" in flat(result.stdout)
    assert study_names(storage) == [name]
    repeated = repeat(name, fresh=4, first_fresh=3)
    output = json.loads(sclsearch(*command_line, "--json").stdout)
    assert (output["study"], output["seed_runs"], output["stored"]) == (repeated, 4, 4)


def test_all_tables_are_listed_with_their_titles(sclsearch: Call, storage: Path) -> None:
    result = sclsearch("reproduce", "ls")
    listed = dict(line.split("\t") for line in result.stdout.splitlines())
    assert result.returncode == 0
    assert listed == {name: table.title for name, table in published_tables().items()}
    assert not storage.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ls", "--cells", "nonsense"), "--cells: has no effect on `ls`"),
        (("ls", "--json"), "--json: has no effect on `ls`"),
        (("gunel/table-44",), "Unknown table 'gunel/table-44'. Did you mean 'gunel/table-4'?"),
        (("gunel/table-4", "--time-budget", "soon"), "--time-budget: must be a positive"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_invalid_option_of_reproduce_is_one_message_and_exit_code_2(
    sclsearch: Call, storage: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = sclsearch("reproduce", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert not storage.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("confirm", "mine"), "Unknown study 'mine' in"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_unknown_study_or_invalid_seeds_are_refused(
    sclsearch: Call, arguments: tuple[str, ...], message: str
) -> None:
    result = sclsearch(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
