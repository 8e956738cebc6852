"""Tests of the plan of a reproduction: a study or a reason for each cell."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sclsearch.canonical import canonical
from sclsearch.encoders.models import EncoderTraits
from sclsearch.errors import SclsearchError
from sclsearch.methods import method_class
from sclsearch.methods.fields import typed
from sclsearch.papers.reproduce import (
    NO_TEMPERATURE,
    SHARED,
    PlannedCell,
    distinct_studies,
    plan_cells,
)
from sclsearch.papers.tables import Table, published_tables, select_cells
from sclsearch.spaces.load import load_space, practical_file, practical_space
from sclsearch.spaces.space import Space
from sclsearch.study.spec import RunOptions

Planned = Callable[..., list[PlannedCell]]


@pytest.fixture(params=published_tables())
def table(request: pytest.FixtureRequest) -> Table:
    return published_tables()[request.param]


@pytest.fixture
def planned(options: RunOptions) -> Planned:
    """Return a function that plans the selected cells of a published table."""

    def planned(name: str, *selectors: str, **changes: Any) -> list[PlannedCell]:
        found = published_tables()[name]
        cells = select_cells(found, selectors)
        return plan_cells(found, cells, changes.pop("options", options), **changes)

    return planned


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of paraphrases that were sampled at temperature 0.5."""
    path = tmp_path / "paraphrases.jsonl"
    path.write_text('{"paraphrases": 1, "source": "a test", "temperature": 0.5}\n')
    return path


@cache
def practical(method: str) -> Space:
    traits = EncoderTraits(384, 6, "bert", 512, pooler=True, sentence_pooling="mean")
    space = load_space(practical_file(method), method)
    return practical_space(space, method_class(method), traits, 64, 0.0)


def test_each_cell_has_a_valid_study_with_the_settings_of_the_table_or_a_reason(
    table: Table, options: RunOptions
) -> None:
    searched, studies = set(), []
    paper, laptop = (plan_cells(table, table.cells, options, scale=s) for s in (None, "laptop"))
    for one, small in zip(paper, laptop, strict=True):
        assert (one.spec is None) == (small.spec is None) == bool(one.reason)
        if one.spec is None or small.spec is None:
            continue
        assert one.spec.protocol == table.blocks[one.cell.block].get("protocol", table.protocol)
        assert (one.spec.settings, one.spec.model) == (one.cell.settings, one.cell.model)
        assert (one.spec.searched, one.options.configs) == (False, None)
        assert one.weights == table.name.startswith("gunel/figure")
        assert one.options.rule == (table.rule and str(table.rule))
        assert (small.spec.searched, small.spec.scale, small.spec.model) == (True, "laptop", None)
        # All rows search the same two learning rates.
        left = practical(str(small.spec.method)).with_settings(small.spec.settings)
        assert left.parameters.keys() == {"learning_rate"}
        rates = asdict(left.parameters["learning_rate"])
        searched.add((canonical(rates), canonical(left.published)))
        for name in one.cell.settings.keys() - SHARED:
            assert small.spec.settings[name] == one.cell.settings[name]
        studies += [(one.cell, one.spec), (small.cell, small.spec)]
    assert len(searched) == bool(table.cells)
    for _, spec in studies:
        typed(method_class(str(spec.method)), spec.settings, "")  # raises for an invalid one
        twins = [cell for cell, other in studies if other == spec]
        # Without a paraphrase file, conditions that differ only in temperature share a study.
        conditions = {c.temperature is not None or c.block for c in twins}
        assert len({cell.row for cell in twins}) == len(conditions) == 1


def test_a_cell_without_a_study_has_a_reason(planned: Planned, options: RunOptions) -> None:
    remote = replace(options, storage="s3://bucket/folder")
    folder = "its fine-tuned encoder needs a --storage folder that all machines can read"
    for name, reasons in (
        ("gunel/table-2", {"": 12, "a mean of other cells": 2}),
        ("lacon/table-7", {"": 15, "not a method of sclsearch": 5}),
        ("cmlm/table-1", {"": 120}),
        ("gunel/table-7", {folder: 4}),
    ):
        assert Counter(one.reason for one in planned(name, options=remote)) == reasons


def test_a_transfer_first_fine_tunes_an_encoder_as_in_another_table(planned: Planned) -> None:
    own = {
        one.cell.row: (one.spec, replace(one.options, rule=None))
        for one in planned("gunel/table-2", "SST-2", scale="laptop")
    }
    cells = planned("gunel/table-7", scale="laptop")
    for one in cells:
        assert one.spec is not None
        assert one.first is not None
        assert (one.first.spec, one.first.options) == own[one.cell.row]
        assert (one.spec.protocol, one.spec.shots) == ("gunel-fewshot", 20)
    trained = [(one.cell.row, one.spec.task) for one in distinct_studies(cells) if one.spec]
    tasks = ("sst2", "amazon2", "yelp2")
    assert trained == [(row, task) for row in ("CE", "CE + SCL") for task in tasks]


def test_only_methods_that_read_paraphrases_get_them(planned: Planned, file: Path) -> None:
    cells = planned("cmlm/table-2", paraphrases=file)
    given = {one.cell.row: one.spec.paraphrases for one in cells if one.spec}
    assert given == {"FT": None, "SCL": None, "CSSL": file, "TAPT": None, "CMLM": None}
    with pytest.raises(SclsearchError, match=r"^--paraphrases .*: no selected cell reads"):
        planned("gunel/table-5", "Original", paraphrases=file)


def test_a_file_reproduces_only_the_conditions_of_its_temperature(
    planned: Planned, file: Path
) -> None:
    cells = planned("gunel/table-5", paraphrases=file)
    found = [one for one in cells if one.spec]
    assert Counter(one.cell.block for one in found) == {"Original": 6, "T=0.5": 6}
    assert {one.note for one in found} == {""}
    reasons = Counter(one.reason for one in cells if one.cell.temperature)
    others = (f"needs paraphrases at T={t}, but the file has T=0.5" for t in (0.3, 0.7, 0.9))
    assert reasons == {"": 6, **dict.fromkeys(others, 6)}
    # Without a temperature all noisy conditions are one study with a note.
    file.write_text('{"paraphrases": 1, "source": "a test"}\n')
    for given in (None, file):
        cells = planned("gunel/table-5", paraphrases=given)
        assert Counter(one.reason for one in cells) == {"": 30, "a mean of other cells": 6}
        assert len(list(distinct_studies(cells))) == 12
        for one in cells:
            noisy = one.cell.temperature is not None
            if one.spec:
                assert one.note == (NO_TEMPERATURE if noisy else "")
                assert one.spec.paraphrases == (given if noisy else None)
