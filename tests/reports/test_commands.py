"""Tests of the commands that reports suggest: each names all that its repetition needs."""

import shlex
from dataclasses import replace
from typing import Any

import typer.main

from sclsearch.cli import app
from sclsearch.reports.commands import rerun_command, search_command, study_command
from sclsearch.reports.report import report
from tests.made_up import WriteStudy


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
        "folds": 3,
        "train_size": 100,
        "unlabeled": 60,
        "paraphrases": "p.jsonl",
        "precision": "tf32",
        "metric": "mcc",
        "data_dir": "my data",
    }
    storage = write_study(*[[(70, 60)] * 3] * 4, settings={"dropouts": [0, 0.1]})
    found = report(storage, "made-up")
    origin = {**found.record.origin, **given, "space_option": "mine.yaml"}
    record = replace(found.record, origin=origin)
    command = search_command(replace(found, record=record))
    assert command.startswith("sclsearch tune --method scl --task cola --model 'my bert' ")
    words = shlex.split(command)
    options = {name: words[place + 1] for place, name in enumerate(words) if name[:2] == "--"}
    expected = {f"--{name.replace('_', '-')}": str(value) for name, value in given.items()}
    expected |= {
        "--rule": "mean",
        "--configs": "4",
        "--seeds": "3",
        "--study": "made-up",
        "--space": "mine.yaml",
    }
    assert expected.items() <= options.items()
    assert (options["--set"], options["--storage"]) == ("dropouts=[0,0.1]", str(storage))
    assert parsed(command)
    raced = replace(found, record=record, race="exact")
    assert "--race" not in command
    assert "--race exact" in search_command(raced)
    automatic = replace(record, origin={**record.origin, "precision": "auto"})
    assert "--precision" not in search_command(replace(found, record=automatic))


def test_commands_on_a_study_name_only_a_custom_method_and_another_rule(
    write_study: WriteStudy,
) -> None:
    found = report(write_study([(70, 60)], rule="top-1"), "made-up")
    for method, rule in (("scl", "mean"), ("/my files/mine.py:Mine", found.rule)):
        one = replace(found, method_place=method, rule=rule)
        again = parsed(rerun_command(one, "0123456789abcdef"))
        confirm = parsed(study_command("confirm", one))
        assert (again["key"], confirm["studies"]) == ("0123456789ab", ["made-up"])
        own = None if method == "scl" else method
        assert again.get("method") == confirm.get("method") == own
        assert confirm.get("rule") == ("mean" if rule == "mean" else None)
        assert str(again["storage"]) == str(confirm["storage"]) == found.storage
