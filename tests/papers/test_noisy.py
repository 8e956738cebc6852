"""Conditions of noise are made by paraphrases of their temperature, or are one figure."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.papers.chosen import chosen_cells
from sclsearch.papers.figures import make
from sclsearch.papers.pairs import pairs
from sclsearch.papers.plan import (
    NO_TEMPERATURE,
    PlannedCell,
    Wishes,
    plan_cells,
    studies_of,
)
from sclsearch.papers.tables import published_tables
from sclsearch.protocols import PROTOCOLS
from sclsearch.study.spec import RunOptions

Fill = Callable[..., str]

TABLE = published_tables()["gunel/table-5"]
TEMPERATURES = ("T=0.3", "T=0.5", "T=0.7", "T=0.9")
SCALES = pytest.mark.parametrize("scale", [None, "laptop"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Returns a file of paraphrases that were sampled at temperature 0.5."""
    path = tmp_path / "paraphrases.jsonl"
    path.write_text('{"paraphrases": 1, "source": "a test", "temperature": 0.5}\n')
    return path


def planned(wishes: Wishes, *wanted: str) -> list[PlannedCell]:
    return plan_cells(TABLE, chosen_cells(TABLE, wanted), wishes)


def test_every_condition_of_noise_joins_as_many_as_the_protocol() -> None:
    blocks = [block for table in published_tables().values() for block in table.blocks.values()]
    views = {block.augmentation.views for block in blocks if block.augmentation}
    assert views == {PROTOCOLS["gunel-noisy"].joined}


@SCALES
def test_without_temperature_all_conditions_of_noise_are_one_study_and_say_so(
    options: RunOptions, file: Path, scale: str | None
) -> None:
    file.write_text('{"paraphrases": 1, "source": "a test"}\n')
    for wishes in (
        Wishes(options=options, scale=scale),
        Wishes(options=options, scale=scale, paraphrases=file),
    ):
        cells = planned(wishes)
        assert Counter(one.reason for one in cells) == {"": 30, "a mean of others": 6}
        assert len(list(studies_of(cells))) == 12
        made = [one for one in cells if one.spec]
        assert {one.cell.block.name for one in made if one.note} == {*TEMPERATURES}
        assert {one.note for one in made if one.spec and one.spec.protocol == "gunel-noisy"} == {
            NO_TEMPERATURE
        }
        read = {one.spec.paraphrases for one in made if one.spec and not one.note}
        assert read == {None}


@SCALES
def test_a_file_makes_the_conditions_of_its_temperature(
    options: RunOptions, file: Path, scale: str | None
) -> None:
    cells = planned(Wishes(options=options, scale=scale, paraphrases=file))
    made = [one for one in cells if one.spec]
    assert Counter(one.cell.block.name for one in made) == {"Original": 6, "T=0.5": 6}
    assert {one.note for one in made} == {""}
    for one in made:
        assert one.spec is not None
        noisy = one.cell.block.name == "T=0.5"
        assert one.spec.protocol == ("gunel-noisy" if noisy else "gunel-fewshot")
        assert one.spec.paraphrases == (file if noisy else None)
    reasons = Counter(one.reason for one in cells if one.cell.block.augmentation)
    assert reasons == {
        "": 6,
        **{f"its paraphrases have T={t}, those of the file T=0.5": 6 for t in (0.3, 0.7, 0.9)},
    }


def test_a_file_is_refused_where_no_cell_reads_it_and_where_it_has_faults(
    options: RunOptions, file: Path
) -> None:
    wishes = Wishes(options=options, paraphrases=file)
    with pytest.raises(SclsearchError, match=r"it must come with a cell that reads paraphrases"):
        planned(wishes, "Original")
    file.write_text("{}\n")
    with pytest.raises(SclsearchError, match=r"line 1: 'paraphrases' of the header must be 1"):
        planned(wishes, "T=0.5")


def test_conditions_that_are_one_figure_are_compared_once(
    options: RunOptions, small: Path, fill: Fill
) -> None:
    wishes = Wishes(options=options, model=str(small))
    cells = [
        replace(one, spec=replace(one.spec, task="demo"))
        for one in planned(wishes, "100,SST-2")
        if one.spec
    ]
    for one in studies_of(cells):
        assert one.spec is not None
        fill(one.spec, one.options)
    figures = [make(one, Console(quiet=True)) for one in cells]
    assert len({figure.study for figure in figures}) == 4
    assert len(figures) == 10
    for figure in figures:
        noisy = figure.cell.block.name != "Original"
        assert (NO_TEMPERATURE in figure.notes) == noisy
        assert any(note.startswith("training: each row is jo") for note in figure.notes) == noisy
    assert [pair.ours.block.name for pair in pairs(figures)] == ["Original", "T=0.3"]
