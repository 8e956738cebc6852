"""Tests of `augment`: the paraphrase file, resumption, errors, the suggested command."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.tasks.paraphrases import paraphrase_source
from tests.conftest import Call

DEMO = ("--task", "demo", "--train-size", "20")
OWN = ("--task", "my reviews.csv", "--text", "text", "--label", "label")
FEW = ("--train-size", "20", "--unlabeled", "60", "--replicates", "3")
SPLIT = ("--fractions", "0.8,0.1,0.1")
CASES = {
    "some unlabeled": (*OWN, "--unlabeled", "90", "--replicates", "1"),
    "few": (*OWN, *SPLIT, *FEW),
    "a protocol that joins them": (*DEMO, "--protocol", "gunel-noisy"),
}
Augment = Callable[..., Any]


@pytest.fixture
def augment(sclsearch: Call, workdir: Path) -> Augment:
    """Return a function that runs `augment` with EDA on tasks, one a file of 100 + 50 rows."""
    rows = [f"it was seen by {n} people,{n % 2}" for n in range(100)]
    rows += [f"and {n} of them wrote," for n in range(50)]
    (workdir / OWN[1]).write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    (workdir / "labelled.csv").write_text("\n".join(["text,label", *rows[:100]]), encoding="utf-8")
    return lambda *options: sclsearch("augment", "--backend", "eda", *options)


@pytest.mark.parametrize("case", CASES)
def test_the_output_ends_with_the_command_that_reads_the_file(
    case: str, augment: Augment, sclsearch: Call, workdir: Path
) -> None:
    options = CASES[case]
    result = augment(*options)
    assert result.returncode == 0, result.stderr
    first, *_, use = result.stdout.splitlines()
    command = shlex.split(use.removeprefix("Use it: "))
    rows = paraphrase_source(workdir / command[-1]).rows
    views = 3 if "gunel-noisy" in options else 2
    assert first == f"{command[-1]}: {len(rows)} texts with {views} paraphrases each."
    assert case != "some unlabeled" or len(rows) == 90
    planned = sclsearch(*command[1:], "--model", "./encoder", "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    notes = " ".join(json.loads(planned.stdout)["notes"])
    assert ("each row is joined by 3 paraphrases from EDA" in notes) == (views == 3)
    if case == "few":
        more = sclsearch(*command[1:], "--unlabeled", "61", "--model", "./encoder", "--dry-run")
        more.assert_refused("every text must have 2 paraphrases, ")


def test_invalid_options_are_refused_and_nothing_is_written(
    augment: Augment, sclsearch: Call, workdir: Path
) -> None:
    augment(*DEMO[:2], *FEW[2:4]).assert_refused("--unlabeled 60: needs a training size")
    augment(*OWN[2:], "--task", "labelled.csv", "--unlabeled", "all").assert_refused(
        "--unlabeled all: needs a"
    )
    augment(*DEMO, "--protocol", "gunel-noisy", "--views", "2").assert_refused(
        "--views: must be at least 3"
    )
    augment(*DEMO[:2], "--replicates", "3").assert_refused("--replicates: does not apply")
    augment(*DEMO, "--pivot", "fr").assert_refused("--pivot: does not apply to --backend eda")
    assert not list(workdir.glob("*.jsonl"))
    pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")
    result = sclsearch("augment", "--task", "eprstmt", "--backend", "marian")
    result.assert_refused("--backend marian: needs English texts, but those of eprstmt")
