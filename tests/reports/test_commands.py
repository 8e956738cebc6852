"""Tests of the suggested rerun and confirm commands."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
import typer.main

from sclsearch.cli import app
from sclsearch.reports.commands import rerun_command
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.comparison_tables import confirmations
from sclsearch.reports.report import report
from tests.reports.conftest import WriteStudy


@pytest.mark.parametrize("method", ["scl", "/my files/mine.py:Mine"])
def test_a_rerun_command_names_storage_and_only_a_custom_method(
    write_study: WriteStudy, method: str
) -> None:
    storage = write_study([(70, 60)])
    found = replace(report(storage, "made-up"), method_place=method)
    program, name, *words = shlex.split(rerun_command(found, "0123456789abcdef"))
    group: Any = typer.main.get_command(app)
    parsed = group.commands[name].make_context(name, words).params
    assert (program, parsed["key"]) == ("sclsearch", "0123456789ab")
    assert str(parsed["storage"]) == str(storage)
    assert parsed["method"] == (None if method == "scl" else method)


def test_a_confirm_command_names_only_a_custom_method_and_another_rule(
    write_study: WriteStudy,
) -> None:
    write_study([(70, 60)], name="base", rule="top-1")
    storage = write_study([(70, 60)], name="mine")
    base, mine = (report(storage, name) for name in ("base", "mine"))
    found = compare_studies([base, replace(mine, method_place="mine.py:Mine", rule="best")])
    assert confirmations(found)[1] == [
        f"sclsearch confirm base --storage {storage}",
        f"sclsearch confirm mine --method mine.py:Mine --rule best --storage {storage}",
    ]
