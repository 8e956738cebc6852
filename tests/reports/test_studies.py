"""Tests of the list of studies: settings, progress and best score."""

from pathlib import Path

import pytest

from sclsearch.reports.studies import StudyLine, studies
from tests.reports.conftest import WriteStudy


def summaries(storage: Path) -> dict[str, str]:
    return {line.name: str(line) for line in studies(storage)}


def test_a_study_is_listed_with_its_settings_and_progress(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(1, 2), None, None], [(3, 4), None, None])
    (line,) = studies(storage)
    assert isinstance(line, StudyLine)
    size = sum(file.stat().st_size for file in storage.rglob("*.json"))
    assert (line.best, line.winner, line.bytes) == (None, None, size)
    assert summaries(storage) == {
        "made-up": "scl on cola (100), minilm, gunel-fewshot; 2 configurations x 3 seeds, "
        f"2 seed runs stored; {size / 1000:.1f} kB; 1970-01-01"
    }


def test_the_best_score_follows_the_rule_of_the_study(write_study: WriteStudy) -> None:
    configurations = [(50, 1), (52, 1)], [(40, 1), (70, 1)], [(99, 1), None], [(30, 1), "failed"]
    (line,) = studies(write_study(*configurations, rule="mean"))
    assert isinstance(line, StudyLine)
    assert (line.best, line.winner) == (0.55, 1)


@pytest.mark.parametrize(
    ("configurations", "text"),
    [([["it", "broke"]], "; all failed; "), ([[(50, 1), "it"]], "; 1 failed; best ")],
)
def test_failed_seed_runs_are_counted(
    write_study: WriteStudy, configurations: list[list[object]], text: str
) -> None:
    (line,) = studies(write_study(*configurations))
    assert text in str(line)
    assert ("best" in str(line)) == ("best" in text)


def test_a_damaged_study_does_not_hide_other_studies(write_study: WriteStudy) -> None:
    storage = write_study([(1, 2)])
    before = summaries(storage)
    path = storage / "studies" / "bad" / "study.json"
    path.parent.mkdir()
    path.touch()
    found = summaries(storage)
    assert found.pop("bad").startswith(f"cannot be read: {path}: is not a JSON object")
    assert found == before
    assert summaries(storage / "not there") == {}
