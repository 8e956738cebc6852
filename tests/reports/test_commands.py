"""Tests of the commands that reports suggest: each names all that its repetition needs."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
import typer.main

from sclsearch.cli import app
from sclsearch.reports.commands import rerun_command, search_command, study_command
from sclsearch.reports.report import report
from tests.reports.conftest import WriteStudy


def parsed(command: str) -> dict[str, Any]:
    """Return the values of a command's parameters, as the command line reads them."""
    program, name, *words = shlex.split(command)
    assert program == "sclsearch"
    group: Any = typer.main.get_command(app)
    params: dict[str, Any] = group.commands[name].make_context(name, words).params
    return {option: value for option, value in params.items() if value not in (None, [], ())}


def test_the_command_of_a_search_has_every_option_that_determines_it(
    write_study: WriteStudy,
) -> None:
    given = {
        "model": "my bert",
        "protocol": "plain",
        "scale": "laptop",
        "splits": 3,
        "train_size": 100,
        "unlabeled": 60,
        "paraphrases": "p.jsonl",
        "precision": "tf32",
        "data_dir": "my data",
        "rule": "top-2",
    }
    storage = write_study(*[[(70, 60)] * 3] * 4, settings={"dropouts": [0, 0.1]})
    found = report(storage, "made-up")
    record = replace(found.record, origin={**found.record.origin, **given})
    command = search_command(replace(found, record=record))
    assert command.startswith("sclsearch tune --method scl --task cola --model 'my bert' ")
    words = shlex.split(command)
    options = {name: words[place + 1] for place, name in enumerate(words) if name[:2] == "--"}
    expected = {f"--{name.replace('_', '-')}": str(value) for name, value in given.items()}
    expected |= {"--configs": "4", "--seeds": "3", "--study": "made-up"}
    assert expected.items() <= options.items()
    assert (options["--set"], options["--storage"]) == ("dropouts=[0,0.1]", str(storage))
    assert parsed(command)
    automatic = replace(record, origin={**record.origin, "precision": "auto"})
    assert "--precision" not in search_command(replace(found, record=automatic))


@pytest.mark.parametrize("method", ["scl", "/my files/mine.py:Mine"])
def test_commands_on_a_study_name_storage_and_only_a_custom_method_and_another_rule(
    write_study: WriteStudy, method: str
) -> None:
    storage = write_study([(70, 60)], rule="top-1")
    found = replace(report(storage, "made-up"), method_place=method)
    given = {} if method == "scl" else {"method": method}
    given["storage"] = str(storage)

    def named(command: str) -> dict[str, str]:
        names = ("method", "rule", "storage")
        return {name: str(value) for name, value in parsed(command).items() if name in names}

    assert parsed(rerun_command(found, "0123456789abcdef"))["key"] == "0123456789ab"
    assert named(rerun_command(found, "0123456789abcdef")) == given
    assert parsed(study_command("confirm", found))["studies"] == ["made-up"]
    assert named(study_command("confirm", found)) == given
    assert named(study_command("confirm", replace(found, rule="mean"))) == {**given, "rule": "mean"}
