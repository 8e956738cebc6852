"""`export` writes the winner's encoder and says what it is."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sclsearch.reports.export import describe_winner
from sclsearch.reports.loading_examples import loading_note
from sclsearch.reports.report import report
from sclsearch.store.studies import StudyStore
from tests.cli.conftest import Call


@pytest.fixture
def weights(place: Path, finished: tuple[str, ...]) -> Path:
    """Returns the weights of the winner's best seed, as if it had been trained."""
    storage = place / "sclsearch-storage"
    winner = report(storage, "mine").winner
    assert winner is not None
    path = Path(str(StudyStore(storage, "mine").weights(winner.seeds[winner.reported[0]].key)))
    path.parent.mkdir()
    save_file({"encoder.model.x": torch.ones(1), "parts.y": torch.zeros(2)}, path)
    return path


def test_an_export_says_what_it_is_and_how_it_is_used(
    sclsearch: Call, place: Path, weights: Path
) -> None:
    done = sclsearch("export", "mine", "my encoder")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "my encoder: ./encoder fine-tuned on demo by scl: seed 1, the best of 2 by "
        "validation, "
        "accuracy 0.6200, test 0.6200\n"
        "Over all seeds, none picked, test accuracy is 0.6100. Quote that, or better the score on "
        "fresh seeds of `sclsearch confirm`.\n"
        "Use it: sclsearch predict 'my encoder' FILE, or --model 'my encoder'\n"
        "transformers cannot load this classifier; sclsearch.load can.\n"
    )
    assert load_file(place / "my encoder" / "encoder" / "model.safetensors").keys() == {"x"}
    assert load_file(place / "my encoder" / "parts.safetensors").keys() == {"y"}
    files = [file for file in (place / "my encoder").rglob("*") if file.is_file()]
    modes = {file.stat().st_mode for file in files}
    assert modes == {(place / "my encoder" / "sclsearch.json").stat().st_mode}


def test_the_hints_for_a_custom_method_name_its_file(
    place: Path, finished: tuple[str, ...]
) -> None:
    record = describe_winner(report(place / "sclsearch-storage", "mine"))
    own = replace(record, place="my file.py:Mine", method="Mine", method_digest="1")
    assert "sclsearch predict out FILE --method 'my file.py:Mine'`" in loading_note("out", own)
    assert "sclsearch predict out FILE`" in loading_note("out", record)


def test_what_cannot_be_exported_is_exit_code_2(
    sclsearch: Call, place: Path, weights: Path
) -> None:
    done = sclsearch("export", "mine", ".")
    assert done.returncode == 2
    assert done.stderr.startswith(f"{place}: exists and is not an empty folder.")
    (place / "taken").touch()
    done = sclsearch("export", "mine", "taken/within")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{place}/taken: is not writable: ")
    weights.unlink()
    done = sclsearch("export", "mine", "out")
    assert done.returncode == 2
    assert f"`sclsearch rerun {weights.stem[:12]} --weights {weights}` writes" in done.stderr
    assert not (place / "out").exists()
