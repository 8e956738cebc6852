"""Tests of the errors that a search reports before it starts."""

from pathlib import Path

import pytest

from tests.cli.conftest import SEARCH
from tests.workspace import Call


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--set tua=1", "--set tua: unknown key. Did you mean 'tau'? Known: batch_size, "),
        ("--model minlm", "no such folder. Did you mean 'minilm'? Known: bert-base, distilbert, "),
        ("--model ./empty", "--model ./empty: lacks config.json, model.safetensors, "),
        ("--train-size 9 --shots 9", "--train-size: cannot be combined with --shots."),
        ("--text t", "--text: describes a file of your own, but demo is a task"),
        ("--task my.csv --text t", "--task my.csv: the file is missing."),
        ("--task none.csv", "none.csv: the columns of text and label are not clear. Pass"),
        (
            "--data-dir glue",
            "--data-dir glue: must come with a published task, got demo.",
        ),
    ],
)
def test_an_invalid_option_is_one_message_with_its_name_and_a_remedy(
    sclsearch: Call, workdir: Path, options: str, message: str
) -> None:
    (workdir / "empty").mkdir()
    (workdir / "none.csv").touch()
    result = sclsearch(*SEARCH, "--dry-run", *options.split())
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (workdir / "sclsearch-storage" / "studies").exists()


def test_an_invalid_tracking_address_leaves_no_study(sclsearch: Call, workdir: Path) -> None:
    sclsearch(*SEARCH, "--tracking", "htp://x").assert_refused(
        "--tracking: must name a server or a database, got 'htp://x'"
    )
    assert not (workdir / "sclsearch-storage" / "studies").exists()


def test_a_seed_run_too_large_for_this_machine_leaves_no_study(
    sclsearch: Call, workdir: Path
) -> None:
    for more in ((), ("--dry-run",)):
        sclsearch(*SEARCH, "--cpus-per-trial", "1000", *more).assert_refused(
            "a seed run does not fit into this machine, which has "
        )
    assert not (workdir / "sclsearch-storage" / "studies").exists()


def test_all_invalid_settings_are_reported_together(sclsearch: Call) -> None:
    options = ("--set", "tua=1", "--set", "lam=2", "--set", "epochs=many")
    lines = sclsearch(*SEARCH, "--dry-run", *options).stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["--set tua", "--set lam", "--set epochs"]


def test_a_published_configuration_outside_its_space_is_refused(
    sclsearch: Call, space: Path
) -> None:
    space.write_text(space.read_text().replace("tau: 0.3", "tau: 0.9"))
    result = sclsearch(*SEARCH, "--dry-run", "--space", space.name)
    assert result.returncode == 2
    assert result.stderr == ("mine.yaml: published[0]: tau must be from 0.1 to 0.7, got 0.9\n")


def test_a_space_of_another_method_is_refused(sclsearch: Call, space: Path) -> None:
    result = sclsearch(*SEARCH, "--dry-run", "--space", space.name, "--method", "ce")
    assert result.returncode == 2
    assert "mine.yaml: method: must be 'ce', got 'scl'\n" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--search-seed 1", "--study mine: search_seed must stay 0, got 1. Give another "),
        ("--set epochs=3", "--study mine: epochs must stay None, got 3. Give another --study"),
    ],
)
def test_a_changed_option_of_a_stored_study_is_refused_with_its_name(
    sclsearch: Call, finished: tuple[str, ...], options: str, message: str
) -> None:
    sclsearch(*finished, "--dry-run", *options.split()).assert_refused(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--storage", "/proc/nothing"), "--storage /proc/nothing: is not a folder that can"),
        (
            ("--tracking", "sqlite:////proc/nothing/mlflow.db"),
            "/proc/nothing/mlflow.db: cannot create",
        ),
        (("--tracking", "mysql://me:secret@127.0.0.1/x"), "mysql://***@127.0.0.1/x: cannot load"),
    ],
    ids=lambda part: part[-1] if isinstance(part, tuple) else "",
)
def test_a_dry_run_refuses_an_unusable_storage_or_tracking_address(
    sclsearch: Call, options: tuple[str, ...], message: str
) -> None:
    for last in (("--dry-run",), ()):
        sclsearch(*SEARCH, *options, *last).assert_refused(message)
