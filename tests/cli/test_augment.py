"""The command writes a file, goes on where it was stopped, and says how to use the file."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from sclsearch.cli.augment import BackendName
from sclsearch.errors import STOPPED
from sclsearch.papers.augmentation import BACKENDS
from sclsearch.papers.augmentation.backends import EDA
from sclsearch.tasks.paraphrases import paraphrase_source
from tests.cli.conftest import Call

DEMO = ("augment", "--task", "demo", "--train-size", "20", "--backend", "eda")
NOISY = (*DEMO, "--protocol", "gunel-noisy")
FILE = "paraphrases-demo-20-eda.jsonl"
OWN = ("--task", "my reviews.csv", "--text", "text", "--label", "label")
FEW = ("--train-size", "20", "--unlabeled", "60", "--replicates", "3")


def test_the_command_knows_every_back_end() -> None:
    assert get_args(BackendName) == tuple(BACKENDS)


def test_it_ends_by_the_command_that_reads_the_file(sclsearch: Call, place: Path) -> None:
    done = sclsearch(*DEMO)
    assert (done.returncode, done.stderr.split(" ", 1)[1]) == (
        0,
        "texts of demo (sclsearch itself): EDA\n",
    )
    rows = len(paraphrase_source(place / FILE).rows)
    first, counts, note, use = done.stdout.splitlines()
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


def test_paraphrases_that_join_training_rows_end_by_the_command_that_joins_them(
    sclsearch: Call, place: Path
) -> None:
    done = sclsearch(*NOISY)
    assert done.stdout.startswith("paraphrases-demo-20-gunel-noisy-eda.jsonl: ")
    assert " texts with 3 paraphrases each.\n" in done.stdout
    command = shlex.split(done.stdout.splitlines()[-1].removeprefix("Use it: "))
    assert command[:4] == ["sclsearch", "tune", "--method", "scl"]
    planned = sclsearch(*command[1:], "--model", "./encoder", "--dry-run")
    assert planned.returncode == 0
    assert "protocol gunel-noisy, rule top-3, metric accuracy\n" in planned.stdout
    assert "training: each row is joined by 3 paraphrases from EDA\n" in planned.stdout


@pytest.fixture
def reviews(place: Path) -> None:
    """Writes 100 rows with a label and 50 without."""
    rows = [f"it was seen by {n} people,{n % 2}" for n in range(100)]
    rows += [f"and {n} of them wrote," for n in range(50)]
    (place / OWN[1]).write_text("\n".join(["text,label", *rows]), encoding="utf-8")


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        ((), 80),
        (("--unlabeled", "100", "--replicates", "1"), 100),
        (("--unlabeled", "all"), 130),
        (FEW, None),
    ],
    ids=["plain", "some", "all", "few"],
)
@pytest.mark.usefixtures("reviews")
def test_texts_of_ones_own_file_end_by_the_command_that_reads_them(
    sclsearch: Call, place: Path, told: tuple[str, ...], texts: int | None
) -> None:
    done = sclsearch("augment", *OWN, *told, "--backend", "eda")
    assert done.returncode == 0
    command = shlex.split(done.stdout.splitlines()[-1].removeprefix("Use it: "))
    rows = paraphrase_source(place / command[-1]).rows
    assert texts in {None, len(rows)}
    planned = sclsearch(*command[1:], "--model", "./encoder", "--dry-run")
    assert planned.returncode == 0
    if told == FEW:
        more = sclsearch(*command[1:], "--unlabeled", "61", "--model", "./encoder", "--dry-run")
        assert "every text must have 2 paraphrases, " in more.stderr


def test_a_stopped_command_says_so_and_goes_on(
    sclsearch: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sclsearch(*DEMO, "--out", "whole.jsonl")
    monkeypatch.setattr(EDA, "at_once", 30)
    make = EDA.paraphrases

    def stopped(self: EDA, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if (place / FILE).read_bytes().count(b"\n") > 30:
            raise KeyboardInterrupt
        return make(self, texts)

    monkeypatch.setattr(EDA, "paraphrases", stopped)
    done = sclsearch(*DEMO)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith(f"{STOPPED}\n")
    monkeypatch.setattr(EDA, "paraphrases", make)
    assert " paraphrases each, 30 of them from before.\n" in sclsearch(*DEMO).stdout
    assert (place / FILE).read_bytes() == (place / "whole.jsonl").read_bytes()


def test_where_nothing_is_live_it_tells_now_and_then(
    sclsearch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As an attribute of its package the module's name is the command's.
    monkeypatch.setattr(sys.modules["sclsearch.cli.augment"], "PLAIN_SECONDS", -1.0)
    lines = sclsearch(*DEMO).stderr.splitlines()[1:]
    wanted = lines[0].removeprefix("0/")
    assert lines == [f"0/{wanted}", f"{wanted.split()[0]}/{wanted}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "mine", "--backend", "eda"), "Unknown task 'mine'."),
        ((*DEMO[1:3], *FEW[2:], "--backend", "eda"), "--unlabeled 60: needs a training size"),
        (
            (*DEMO[1:], "--unlabeled", "most"),
            "--unlabeled: must be a number of texts or all",
        ),
        ((*NOISY[1:], "--views", "2"), "--views: must be at least 3, the number that"),
        ((*DEMO[1:], "--data-dir", "glue"), "--data-dir glue: must come with a published task"),
    ],
    ids=("task", "unlabeled", "no number", "views", "folder"),
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    sclsearch: Call, place: Path, options: tuple[str, ...], message: str
) -> None:
    done = sclsearch("augment", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(place.glob("*.jsonl"))


@pytest.mark.usefixtures("reviews")
def test_a_file_that_no_study_can_read_is_refused_before_it_is_paraphrased(
    sclsearch: Call, place: Path
) -> None:
    done = sclsearch("augment", *OWN, "--fractions", "1,0,0", "--backend", "eda")
    assert done.returncode == 2
    assert "no validation split" in done.stderr
    (place / OWN[1]).write_text("text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(100)))
    done = sclsearch("augment", *OWN, "--unlabeled", "all", "--backend", "eda")
    assert done.returncode == 2
    assert done.stderr.startswith("--unlabeled all: needs a training size")
    assert not list(place.glob("*.jsonl"))


def test_chinese_texts_are_refused_before_they_are_read(sclsearch: Call) -> None:
    pytest.importorskip("sentencepiece", reason="the extra 'augment' is not installed")
    done = sclsearch("augment", "--task", "eprstmt", "--backend", "marian")
    assert "--backend marian: needs English texts, but those of eprstmt" in done.stderr
