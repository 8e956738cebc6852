"""reproduce, confirm and variance say what they would do and what they did."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import STOPPED
from sclsearch.papers.plan import plan_cells
from sclsearch.papers.tables import published_tables, select_cells
from sclsearch.reports.report import report
from sclsearch.search.run import run
from sclsearch.store.studies import study_names
from sclsearch.study.spec import RunOptions, StudySpec
from tests.cli.conftest import Call
from tests.finished import Confusion, finish, repeated_spec

Finish = Callable[..., str]

TABLE = ("reproduce", "lacon/table-6", "--model", "./encoder", "--data-dir", "glue")
ONE = ("--cells", "LCL,CoLA", "--scale", "laptop", "--tracking", "none", "--gpus-per-trial", "0")
ON_CPU = ("--tracking", "none", "--gpus-per-trial", "0")
CROSSING = "--initializations 2 --orders 2"


@pytest.fixture
def storage(place: Path) -> Path:
    return place / "sclsearch-storage"


@pytest.fixture
def data(place: Path) -> Path:
    """Returns a folder with a small CoLA in the present folder."""
    folder = place / "glue" / "CoLA"
    folder.mkdir(parents=True)
    for name, count in {"train": 60, "dev": 40}.items():
        rows = [f"gj04\t{number % 2}\t\tSentence {name} {number}." for number in range(count)]
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder.parent


@pytest.fixture
def run_options(storage: Path, data: Path) -> RunOptions:
    return RunOptions(storage=storage, data_dir=data, gpus_per_trial=0)


def scores(failed: tuple[int, ...]) -> Callable[[int, int], Confusion | None]:
    """Return made-up counts, without those of the failed replicates."""
    return lambda _, r: None if r in failed else [[12, 8], [4 + r, 16 - r]]


@pytest.fixture
def made(run_options: RunOptions) -> Finish:
    """Returns what finishes the study of a cell of LaCon's sixth table, at laptop scale."""

    def made(cell: str = "LCL,CoLA", failed: tuple[int, ...] = ()) -> str:
        table = published_tables()["lacon/table-6"]
        cells = select_cells(table, [cell])
        (one,) = plan_cells(table, cells, run_options, scale="laptop", model="./encoder")
        return finish(one.spec, one.options, scores(failed), seconds=2.0)

    return made


@pytest.fixture
def again(run_options: RunOptions) -> Finish:
    """Returns what finishes a repetition of a study's winner without training."""

    def again(name: str, failed: tuple[int, ...] = (), **repetition: Any) -> str:
        spec = repeated_spec(run_options.storage, name, **repetition)
        return finish(spec, run_options, scores(failed), seconds=2.0)

    return again


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_dry_run_tells_the_studies_and_writes_none(
    sclsearch: Call, storage: Path, data: Path
) -> None:
    done = sclsearch(*TABLE, "--cells", "CoLA", "--cells", "ICL,RTE", "--dry-run", *ONE[2:])
    assert done.returncode == 0
    rows = [flat(line) for line in done.stdout.splitlines()]
    assert any(row.startswith("LCL cola 6 6 ") for row in rows)
    assert "6 studies, 36 seed runs, 36 of them to train; time: " in flat(done.stdout)
    assert "- full, ICL, RTE: " in done.stdout
    assert "RTE/train.tsv: the file is missing." in flat(done.stdout)
    assert study_names(storage) == []


def test_a_dry_run_counts_what_is_stored_and_can_be_read_by_programs(
    sclsearch: Call, made: Finish
) -> None:
    name = made()
    assert "LCL cola 6 0 0 min" in flat(sclsearch(*TABLE, *ONE, "--dry-run").stdout)
    told = json.loads(sclsearch(*TABLE, *ONE, "--dry-run", "--json").stdout)
    (work,) = told["works"]
    assert (work["study"], work["missing"], work["cell"]["row"]["name"]) == (name, 0, "LCL")
    assert work["time"] == {"seconds": 0.0, "at_once": work["time"]["at_once"], "basis": ""}
    assert told["not_made"] == []
    other = (*ONE[:1], "LCL,ICL,CoLA", *ONE[2:])
    assert "ICL cola 6 6 under 1 min" in flat(sclsearch(*TABLE, *other, "--dry-run").stdout)


def test_figures_come_from_the_store_without_training(
    sclsearch: Call, made: Finish, storage: Path
) -> None:
    name = made()
    done = sclsearch(*TABLE, *ONE)
    assert done.returncode == 0
    mean = report(storage, name).configurations[0].test_mean
    assert mean is not None
    assert f"LCL CoLA {100 * mean:.1f} ±" in flat(done.stdout)
    assert "61.1 ± 1.3" in done.stdout
    assert "full, LCL, CoLA" in done.stderr
    told = json.loads(sclsearch(*TABLE, *ONE, "--json").stdout)
    assert (told["table"], told["pairs"]) == ("lacon/table-6", [])
    assert told["figures"][0]["mean"] == pytest.approx(mean)
    assert told["figures"][0]["cell"]["value"] == 61.1
    assert told["figures"][0]["published"] == [0.611, 0.013]


def test_failed_seeds_are_exit_code_3_and_tables_without_a_figure_2(
    sclsearch: Call, made: Finish
) -> None:
    made(failed=(1,))
    done = sclsearch(*TABLE, *ONE)
    assert (done.returncode, "2/3" in done.stdout) == (3, True)
    done = sclsearch("reproduce", "gunel/table-2", "--cells", "Avg")
    assert done.returncode == 2
    assert "no selected cell can be trained. full, CE, Avg: a mean of others" in flat(done.stderr)


def test_a_stop_ends_all_cells_and_shows_those_that_are_made(
    sclsearch: Call, made: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("ICL,CoLA")
    started: list[StudySpec] = []

    def stopped(spec: StudySpec, options: RunOptions, console: Any) -> Any:
        started.append(spec)
        if len(started) == 2:
            raise KeyboardInterrupt
        return run(spec, options, console)

    monkeypatch.setattr("sclsearch.papers.reproduce.run", stopped)
    done = sclsearch(*TABLE, "--cells", "CoLA", *ONE[2:])
    assert (done.returncode, len(started)) == (130, 2)
    assert STOPPED in done.stderr
    lines = [flat(line) for line in done.stdout.splitlines()]
    assert [line[:8] for line in lines if "CoLA" in line and "- full" not in line][1:] == [
        "ICL CoLA"
    ]


def test_a_confirmation_shows_chosen_and_fresh_figures(
    sclsearch: Call, made: Finish, again: Finish
) -> None:
    name = made()
    again(name, fresh=4, first_fresh=3)
    done = sclsearch("confirm", name, "--seeds", "4", *ON_CPU)
    assert done.returncode == 0
    text = flat(done.stdout)
    assert f"Winner #0 of {name}, test mcc as chosen" in text
    assert "mean of 4 seeds fresh - chosen" in text


def test_failed_fresh_seeds_are_exit_code_3(sclsearch: Call, made: Finish, again: Finish) -> None:
    name = made()
    again(name, fresh=4, first_fresh=3, failed=(2,))
    done = sclsearch("confirm", name, "--seeds", "4", *ON_CPU)
    assert (done.returncode, "mean of 3 of 4 seeds" in done.stdout) == (3, True)


@pytest.mark.parametrize(
    ("command", "options", "stored", "repetition"),
    [
        ("confirm", "--seeds 4", 0, {"fresh": 4, "first_fresh": 3}),
        # Where initialisation and order have one number, it is a seed run of the study.
        ("variance", CROSSING, 2, {"crossed": {"initialization": 2, "order": 2}}),
    ],
)
def test_a_dry_run_of_a_repetition_tells_what_it_would_train_and_writes_nothing(
    sclsearch: Call,
    storage: Path,
    made: Finish,
    again: Finish,
    command: str,
    options: str,
    stored: int,
    repetition: dict[str, Any],
) -> None:
    name = made()
    asked = (command, name, *options.split(), *ON_CPU, "--dry-run")
    done = sclsearch(*asked)
    assert done.returncode == 0
    assert f"\n1 configuration x 4 seeds = 4 seed runs; in the store: {stored}\n" in done.stdout
    assert "\ntime: " in done.stdout
    assert "tau 0.1 winner" in flat(done.stdout)
    assert study_names(storage) == [name]
    repeated = again(name, **repetition)
    told = json.loads(sclsearch(*asked, "--json").stdout)
    assert (told["study"], told["seed_runs"], told["stored"]) == (repeated, 4, 4)


def test_the_spread_of_a_winner_is_told_by_source(
    sclsearch: Call, made: Finish, again: Finish
) -> None:
    name = made()
    again(name, crossed={"initialization": 2, "order": 2})
    done = sclsearch("variance", name, *CROSSING.split(), *ON_CPU)
    assert done.returncode == 0
    assert f"{name}, its winner: 4 seed runs" in flat(done.stdout)
    for source in ("initialization", "order", "residual", "together"):
        assert f"\n{source} " in done.stdout
    done = sclsearch("variance", name, "--subsets", "2", *ON_CPU)
    assert done.returncode == 2
    assert "--subsets 2: " in done.stderr


def test_all_tables_are_listed_with_their_titles(sclsearch: Call, storage: Path) -> None:
    done = sclsearch("reproduce", "ls")
    listed = dict(line.split("\t") for line in done.stdout.splitlines())
    assert done.returncode == 0
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
def test_what_a_user_can_mend_is_one_text_and_exit_code_2(
    sclsearch: Call, storage: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = sclsearch("reproduce", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert not storage.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("confirm", "mine"), "Unknown study 'mine' in"),
        (("variance", "mine"), "Unknown study 'mine' in"),
        (("variance", "mine", "--orders", "1"), "--subsets, --initializations, --orders: at least"),
        (("variance", "mine", "--orders", "400"), "must have at most 1000 combinations, got 1200"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_study_and_seeds_that_cannot_be_are_refused(
    sclsearch: Call, arguments: tuple[str, ...], message: str
) -> None:
    done = sclsearch(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
