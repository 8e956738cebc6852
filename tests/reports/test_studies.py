"""One line a study says what it searches and how far it is."""

from collections.abc import Callable
from pathlib import Path

from sclsearch.reports.studies import studies
from sclsearch.store.storage import Storage


def summaries(storage: Storage) -> dict[str, str]:
    return {line.name: str(line) for line in studies(storage)}


def test_a_study_is_listed_with_its_settings_and_progress(
    write_study: Callable[..., Path],
) -> None:
    storage = write_study([(1, 2), None, None], [(3, 4), None, None])
    assert summaries(storage) == {
        "made-up": "scl on cola (100), minilm, gunel-fewshot; 2 configurations x 3 seeds, "
        "2 of 6 seed runs stored"
    }


def test_a_folder_without_studies_has_none(tmp_path: Path) -> None:
    assert summaries(tmp_path / "not there") == {}


def test_a_study_that_is_damaged_hides_no_other(write_study: Callable[..., Path]) -> None:
    storage = write_study([(1, 2)])
    whole = summaries(storage)
    path = storage / "studies" / "bad" / "study.json"
    path.parent.mkdir()
    path.touch()
    found = summaries(storage)
    assert found.pop("bad").startswith(f"cannot be read: {path}: is not a JSON object")
    assert found == whole
