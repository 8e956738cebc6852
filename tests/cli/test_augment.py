"""Tests of `augment`: the paraphrase file, resumption, errors, the suggested command."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from sclsearch.cli.reproduce import BackendName
from sclsearch.errors import STOPPED
from sclsearch.papers.augmentation import BACKENDS, EDA
from sclsearch.tasks.paraphrases import paraphrase_source
from tests.workspace import Call

DEMO = ("augment", "--task", "demo", "--train-size", "20", "--backend", "eda")
NOISY = (*DEMO, "--protocol", "gunel-noisy")
FILE = "paraphrases-demo-20-eda.jsonl"
OWN = ("--task", "my reviews.csv", "--text", "text", "--label", "label")
FEW = ("--train-size", "20", "--unlabeled", "60", "--replicates", "3")
SPLIT = ("--fractions", "0.8,0.1,0.1")


def test_the_command_knows_every_back_end() -> None:
    assert get_args(BackendName) == tuple(BACKENDS)


def test_the_output_ends_with_the_command_that_reads_the_file(
    sclsearch: Call, workdir: Path
) -> None:
    result = sclsearch(*DEMO)
    assert (result.returncode, result.stderr.split(" ", 1)[1]) == (
        0,
        "texts of demo (sclsearch itself): EDA\n",
    )
    rows = len(paraphrase_source(workdir / FILE).rows)
    first, counts, note, use = result.stdout.splitlines()
    assert first == f"{FILE}: {rows} texts with 2 paraphrases each."
    assert counts.startswith(f"Of the {2 * rows} made now ")
    assert (
        note
        == "Reports will say: paraphrases: EDA (random swap and deletion), not back-translation"
    )
    command = shlex.split(use.removeprefix("Use it: "))
    assert command[-2:] == ["--paraphrases", FILE]
    planned = sclsearch(*command[1:], "--model", "./encoder", "--dry-run")
    assert planned.returncode == 0
    assert "EDA (random swap and deletion)" in planned.stdout


def test_the_suggested_command_for_gunel_noisy_joins_the_paraphrases(
    sclsearch: Call, workdir: Path
) -> None:
    result = sclsearch(*NOISY)
    assert result.stdout.startswith("paraphrases-demo-20-gunel-noisy-eda.jsonl: ")
    assert " texts with 3 paraphrases each.\n" in result.stdout
    command = shlex.split(result.stdout.splitlines()[-1].removeprefix("Use it: "))
    assert command[:4] == ["sclsearch", "tune", "--method", "scl"]
    planned = sclsearch(*command[1:], "--model", "./encoder", "--dry-run")
    assert planned.returncode == 0
    assert "protocol gunel-noisy, rule top-3, metric accuracy\n" in planned.stdout
    assert "training: each row is joined by 3 paraphrases from EDA\n" in planned.stdout


@pytest.fixture
def reviews(workdir: Path) -> None:
    """Write 100 rows with a label and 50 without."""
    rows = [f"it was seen by {n} people,{n % 2}" for n in range(100)]
    rows += [f"and {n} of them wrote," for n in range(50)]
    (workdir / OWN[1]).write_text("\n".join(["text,label", *rows]), encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ((), 60),
        (("--unlabeled", "90", "--replicates", "1"), 90),
        (("--unlabeled", "all"), 110),
        (FEW, None),
    ],
    ids=["plain", "some", "all", "few"],
)
@pytest.mark.usefixtures("reviews")
def test_the_suggested_command_for_a_custom_file_reads_the_paraphrases(
    sclsearch: Call, workdir: Path, options: tuple[str, ...], texts: int | None
) -> None:
    splits = SPLIT if options == FEW else ()
    result = sclsearch("augment", *OWN, *splits, *options, "--backend", "eda")
    assert result.returncode == 0
    command = shlex.split(result.stdout.splitlines()[-1].removeprefix("Use it: "))
    rows = paraphrase_source(workdir / command[-1]).rows
    assert texts in {None, len(rows)}
    planned = sclsearch(*command[1:], "--model", "./encoder", "--dry-run")
    assert planned.returncode == 0
    if options == FEW:
        more = sclsearch(*command[1:], "--unlabeled", "61", "--model", "./encoder", "--dry-run")
        assert "every text must have 2 paraphrases, " in more.stderr


def test_an_interrupted_command_reports_it_and_resumes(
    sclsearch: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sclsearch(*DEMO, "--out", "whole.jsonl")
    monkeypatch.setattr(EDA, "at_once", 30)
    make = EDA.paraphrases

    def stopped(self: EDA, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if (workdir / FILE).read_bytes().count(b"\n") > 30:
            raise KeyboardInterrupt
        return make(self, texts)

    monkeypatch.setattr(EDA, "paraphrases", stopped)
    result = sclsearch(*DEMO)
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr.endswith(f"{STOPPED}\n")
    monkeypatch.setattr(EDA, "paraphrases", make)
    assert " paraphrases each, 30 of them from before.\n" in sclsearch(*DEMO).stdout
    assert (workdir / FILE).read_bytes() == (workdir / "whole.jsonl").read_bytes()


def test_progress_is_printed_at_intervals_without_a_terminal(
    sclsearch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package attribute of this name is the command, not the module.
    monkeypatch.setattr(sys.modules["sclsearch.cli.reproduce"], "PLAIN_SECONDS", -1.0)
    lines = sclsearch(*DEMO).stderr.splitlines()[1:]
    rest = lines[0].removeprefix("0/")
    assert lines == [f"0/{rest}", f"{rest.split()[0]}/{rest}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "mine", "--backend", "eda"), "Unknown task 'mine'."),
        ((*DEMO[1:3], *FEW[2:], "--backend", "eda"), "--unlabeled 60: needs a training size"),
        (
            (*DEMO[1:], "--unlabeled", "most"),
            "--unlabeled: must be a valid integer or must be 'all'",
        ),
        ((*NOISY[1:], "--views", "2"), "--views: must be at least 3, the number that"),
        ((*DEMO[1:], "--data-dir", "glue"), "--data-dir glue: must come with a published task"),
    ],
    ids=("task", "unlabeled", "no number", "views", "folder"),
)
def test_invalid_options_are_refused_and_nothing_is_written(
    sclsearch: Call, workdir: Path, options: tuple[str, ...], message: str
) -> None:
    sclsearch("augment", *options).assert_refused(message)
    assert not list(workdir.glob("*.jsonl"))


@pytest.mark.usefixtures("reviews")
def test_a_file_that_no_study_can_read_is_refused_before_paraphrasing(
    sclsearch: Call, workdir: Path
) -> None:
    (workdir / OWN[1]).write_text(
        "text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(100))
    )
    result = sclsearch("augment", *OWN, "--unlabeled", "all", "--backend", "eda")
    assert result.returncode == 2
    assert result.stderr.startswith("--unlabeled all: needs a training size")
    assert not list(workdir.glob("*.jsonl"))


def test_chinese_texts_are_refused_before_they_are_read(sclsearch: Call) -> None:
    pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")
    result = sclsearch("augment", "--task", "eprstmt", "--backend", "marian")
    assert "--backend marian: needs English texts, but those of eprstmt" in result.stderr
