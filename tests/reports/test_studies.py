"""One line a study says what it searches and how far it is."""

from collections.abc import Callable
from pathlib import Path

from sclsearch.reports.studies import study_summaries


def test_a_study_is_summed_up_by_what_it_searches_and_its_size(
    write_study: Callable[..., Path],
) -> None:
    storage = write_study([(1, 2), None, None], [(3, 4), None, None])
    assert study_summaries(storage) == {
        "made-up": "scl on cola (100), minilm, gunel-fewshot; 2 configurations x 3 seeds, "
        "2 of 6 seed runs stored"
    }


def test_a_folder_without_studies_has_none(tmp_path: Path) -> None:
    assert study_summaries(tmp_path / "not there") == {}


def test_a_study_that_is_damaged_hides_no_other(write_study: Callable[..., Path]) -> None:
    storage = write_study([(1, 2)])
    whole = study_summaries(storage)
    path = storage / "studies" / "bad" / "study.json"
    path.parent.mkdir()
    path.touch()
    found = study_summaries(storage)
    assert found.pop("bad").startswith(f"cannot be read: {path}: it must hold a JSON object, but")
    assert found == whole
