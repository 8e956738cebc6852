"""Tests of the program that writes paraphrase files: files, errors, the suggested command."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from sclsearch.papers.augmentation import main
from sclsearch.tasks.paraphrases import paraphrase_source
from tests.conftest import Call

DEMO = ("--task", "demo", "--train-size", "20")
OWN = ("--task", "my reviews.csv", "--text", "text", "--label", "label")
FEW = ("--train-size", "20", "--unlabeled", "60", "--seeds", "3")
SPLIT = ("--fractions", "0.8,0.1,0.1")
CASES = {
    "some unlabeled": (*OWN, "--unlabeled", "90", "--seeds", "1"),
    "few": (*OWN, *SPLIT, *FEW),
    "a protocol that joins them": (*DEMO, "--protocol", "gunel-noisy"),
}


@pytest.fixture
def workdir(folder: Path, tiny_encoder: Path) -> Path:
    """Return the current folder, with an encoder, and tasks of 100 + 50 and 100 rows."""
    workdir = Path(shutil.copytree(tiny_encoder, folder / "encoder")).parent
    rows = [f"it was seen by {n} people,{n % 2}" for n in range(100)]
    rows += [f"and {n} of them wrote," for n in range(50)]
    (workdir / OWN[1]).write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    (workdir / "labelled.csv").write_text("\n".join(["text,label", *rows[:100]]), encoding="utf-8")
    return workdir


@pytest.mark.parametrize("case", CASES)
def test_the_output_ends_with_the_command_that_reads_the_file(
    case: str, sclsearch: Call, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = CASES[case]
    main(["--backend", "eda", *options])
    first, *_, use = capsys.readouterr().out.splitlines()
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*DEMO[:2], *FEW[2:4]), "--unlabeled 60: needs a training size"),
        ((*OWN[2:], "--task", "labelled.csv", "--unlabeled", "all"), "--unlabeled all: needs a"),
        ((*DEMO, "--protocol", "gunel-noisy", "--views", "2"), "--views: must be at least 3"),
        ((*DEMO[:2], "--seeds", "3"), "--seeds: needs a training size or a protocol"),
        ((*DEMO, "--pivot", "fr"), "--pivot: does not apply to --backend eda"),
    ],
)
def test_invalid_options_are_refused_and_nothing_is_written(
    options: tuple[str, ...], message: str, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--backend", "eda", *options])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(message)
    assert not list(workdir.glob("*.jsonl"))


def test_marian_needs_english_texts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--task", "eprstmt", "--backend", "marian"])
    assert "--backend marian: needs English texts, but those of eprstmt" in capsys.readouterr().err
