"""Tests of `reproduce` and `confirm`: dry runs, results and errors."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sclsearch.papers.reproduce import plan_cells
from sclsearch.papers.tables import published_tables, select_cells
from sclsearch.reports.report import report
from sclsearch.store.studies import study_names
from sclsearch.study.spec import RunOptions
from tests.conftest import Call
from tests.studies import finish, repeated_spec

Finish = Callable[..., str]

ON_CPU = ("--tracking", "none", "--gpus-per-trial", "0")
TABLE = (
    *("reproduce", "lacon/table-6", "--model", "./encoder", "--data-dir", "glue"),
    *("--scale", "laptop", *ON_CPU),
)
ONE = ("--cells", "LCL,CoLA")


@pytest.fixture
def run_options(storage: Path) -> RunOptions:
    """Return options with a data folder that has a small CoLA."""
    folder = Path("glue/CoLA")
    folder.mkdir(parents=True)
    for name, count in {"train": 60, "dev": 40}.items():
        rows = [f"gj04\t{number % 2}\t\tSentence {name} {number}.\n" for number in range(count)]
        (folder / f"{name}.tsv").write_text("".join(rows))
    return RunOptions(storage=storage, data_dir=folder.parent.resolve(), gpus_per_trial=0)


@pytest.fixture
def finish_cell(run_options: RunOptions) -> Finish:
    """Return a function that finishes a cell's study of LaCon's table 6, or its repetition."""

    def finish_cell(
        cell: str = ONE[1], *, failed: int = -1, more: int = 0, confirms: str | None = None
    ) -> str:
        table = published_tables()["lacon/table-6"]
        cells = select_cells(table, [cell])
        (one,) = plan_cells(table, cells, run_options, scale="laptop", model="./encoder")
        chosen = one.spec, one.options
        if confirms is not None:
            spec = repeated_spec(run_options.storage, confirms, fresh=4, first_fresh=3)
            chosen = spec, run_options
        return finish(
            *chosen,
            lambda _, r: None if r == failed else [[12 + more, 8 - more], [4 + r, 16 - r]],
        )

    return finish_cell


@pytest.mark.usefixtures("run_options")
def test_a_dry_run_lists_the_studies_and_writes_none(sclsearch: Call, storage: Path) -> None:
    result = sclsearch(*TABLE, "--cells", "CoLA", "--cells", "ICL,RTE", "--dry-run")
    assert result.returncode == 0
    text = " ".join(result.stdout.split())
    assert " LCL cola 6 6 " in text
    assert "6 studies, 36 seed runs, 36 of them to train; time: shown after" in text
    assert "- full, ICL, RTE: " in text
    assert "RTE/train.tsv: the file is missing." in text
    assert study_names(storage) == []


def test_scores_come_from_the_store_beside_the_published_ones_and_a_failed_seed_is_counted(
    sclsearch: Call, finish_cell: Finish, storage: Path
) -> None:
    name = finish_cell()
    planned = json.loads(sclsearch(*TABLE, *ONE, "--dry-run", "--json").stdout)
    (study,) = planned["studies"]
    assert (study["study"], study["missing"], study["cell"]["row"]) == (name, 0, "LCL")
    mean = report(storage, name).configurations[0].test_mean
    assert mean is not None
    output = json.loads(sclsearch(*TABLE, *ONE, "--json").stdout)
    assert output["scores"][0]["mean"] == pytest.approx(mean)
    cell = output["scores"][0]["cell"]
    assert (cell["value"], cell["std"]) == (0.611, 0.013)
    finish_cell("ICL,CoLA", more=4, failed=1)
    result = sclsearch(*TABLE, *ONE, "--cells", "ICL,CoLA")
    assert result.returncode == 3
    printed = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in (
        "row column ours published diff all seeds",
        "ICL CoLA 55.1 ± 6.9 61.2 ± 0.9 -6.1 55.1 2/3",
        "LCL CoLA 35.5 ± 5.3 61.1 ± 1.3 -25.6 35.5 3/3",
        "LCL against ICL, over all seeds",
        "-19.6 2, 1 failed 0.500 0.500 0.500",
        "- ours is the best of 2 configurations by validation",
        "- scaled: at most 150 updates a stage, 200 validation and 500 test rows",
        "- MRPC is the original corpus, with 4076 training and 1725 test rows; GLUE has",
    ):
        assert printed.count(line) == 1, line


def test_a_confirmation_shows_chosen_and_fresh_scores_and_a_dry_run_writes_nothing(
    sclsearch: Call, storage: Path, finish_cell: Finish
) -> None:
    name = finish_cell()
    command = ("confirm", name, "--seeds", "4", *ON_CPU)
    result = sclsearch(*command, "--dry-run")
    assert "\n1 configuration x 4 seeds = 4 seed runs; stored: 0\n" in result.stdout
    assert study_names(storage) == [name]
    repeated = finish_cell(confirms=name, failed=2)
    output = json.loads(sclsearch(*command, "--json").stdout)
    (one,) = output["confirmations"]
    assert (one["chosen"]["study"], one["new"]["study"]) == (name, repeated)
    result = sclsearch(*command)
    assert result.returncode == 3
    assert result.stdout.splitlines()[:5] == [
        f"Winner #0 of {name}, test mcc",
        "  as chosen      0.3546 ± 0.0534, rule mean",
        "  all its seeds  0.3546 ± 0.0534, mean of 3 seeds",
        "  new seeds      0.3375 ± 0.0802, mean of 3 of 4 seeds",
        "  new - chosen   -0.0171",
    ]
    other = finish_cell("ICL,CoLA")
    finish_cell("ICL,CoLA", confirms=other)
    both = json.loads(sclsearch("confirm", name, other, *command[2:], "--json").stdout)
    assert [one["new"]["seeds"] for one in both["confirmations"]] == [4, 4]
    assert [len(one["configurations"][0]["seeds"]) for one in both["reports"]] == [4, 4]


def test_an_invalid_argument_is_refused_and_nothing_is_written(
    sclsearch: Call, storage: Path
) -> None:
    for arguments, message in (
        ("reproduce ls --cells nonsense", "--cells: has no effect on `ls`"),
        ("reproduce gunel/table-44", "Did you mean 'gunel/table-4'?"),
        ("reproduce gunel/table-4 --cells CE,SST2", "Did you mean 'SST-2'?"),
        ("reproduce gunel/table-2 --cells Avg", "full, CE, Avg: a mean of other cells"),
        ("confirm mine", "Unknown study 'mine' in"),
    ):
        sclsearch(*arguments.split()).assert_refused(message)
    assert not storage.exists()
