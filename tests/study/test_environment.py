"""Tests of the commit that is recorded with a seed run."""

from pathlib import Path

import pytest

from sclsearch.study import environment


def test_an_image_records_the_commit_of_its_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "sclsearch/search/environment.py"))
    monkeypatch.setenv("SCLSEARCH_COMMIT", "abc")
    assert environment.commit.__wrapped__() == "abc"
    monkeypatch.setenv("SCLSEARCH_COMMIT", "")  # the default of the build argument
    assert environment.commit.__wrapped__() is None
