"""Each cell of a table has the study that makes it, or a reason why none can."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods import method_class
from sclsearch.methods.fields import field_errors
from sclsearch.papers.base import Table
from sclsearch.papers.plan import (
    SHARED,
    PlannedCell,
    Wishes,
    plan_cells,
    studies_of,
)
from sclsearch.papers.tables import published_tables
from sclsearch.protocols import PROTOCOLS
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from sclsearch.tasks import TASKS

NAMES = (
    *(f"cmlm/table-{number}" for number in (1, 2, 3)),
    *(f"gunel/table-{number}" for number in (2, 3, 4, 5, 7)),
    *(f"lacon/table-{number}" for number in (2, 3, 4, 5, 6, 7)),
    *(f"supcl-seq/table-{number}" for number in (1, 2, 3, 4)),
)


@pytest.fixture(params=NAMES)
def table(request: pytest.FixtureRequest) -> Table:
    return published_tables()[request.param]


@pytest.fixture
def paper(options: RunOptions) -> Wishes:
    return Wishes(options=options)


@pytest.fixture
def laptop(options: RunOptions) -> Wishes:
    return Wishes(options=options, scale="laptop")


def planned(name: str, wishes: Wishes) -> list[PlannedCell]:
    found = published_tables()[name]
    return plan_cells(found, found.cells, wishes)


def test_all_tables_are_looked_at() -> None:
    assert set(NAMES) == set(published_tables())


@pytest.mark.parametrize("scale", [None, "laptop"])
def test_a_cell_has_a_study_that_can_be_asked_for_or_a_reason(
    table: Table, options: RunOptions, scale: str | None
) -> None:
    few_shot = PROTOCOLS[table.protocol].few_shot
    for one in plan_cells(table, table.cells, Wishes(options=options, scale=scale)):
        assert (one.spec is None) == bool(one.reason)
        if one.spec is None:
            continue
        assert isinstance(one.spec.method, str)
        assert one.cell.trainable
        assert one.spec.task in TASKS
        assert field_errors(method_class(one.spec.method), one.spec.settings) == []
        sizes = (one.spec.train_size, one.spec.shots)
        assert sum(size is not None for size in sizes) == int(few_shot)
        noisy = one.cell.block.augmentation is not None
        assert one.spec.protocol == ("gunel-noisy" if noisy else table.protocol)


def test_at_the_papers_scale_all_is_the_tables(table: Table, paper: Wishes) -> None:
    for one in plan_cells(table, table.cells, paper):
        if one.spec is not None:
            assert (one.spec.settings, one.spec.model) == (one.cell.settings, one.cell.model)
            assert (one.spec.searched, one.spec.scale) == (False, None)
            assert one.options.rule == (table.rule and str(table.rule))
            assert one.options.configs is None


def test_at_laptop_scale_two_configurations_have_only_what_makes_the_method(
    table: Table, laptop: Wishes
) -> None:
    for one in plan_cells(table, table.cells, laptop):
        if one.spec is not None and table.name != "gunel/table-3":
            assert SHARED.isdisjoint(one.spec.settings)
            assert one.spec.settings.items() <= one.cell.settings.items()
            assert one.cell.settings.keys() - one.spec.settings.keys() <= SHARED
            assert (one.spec.searched, one.spec.scale, one.spec.model) == (True, "laptop", None)
            assert one.options.configs == 2


@pytest.mark.parametrize("scale", [None, "laptop"])
def test_no_two_rows_or_conditions_share_a_study(
    table: Table, options: RunOptions, scale: str | None
) -> None:
    made = [
        one
        for one in plan_cells(table, table.cells, Wishes(options=options, scale=scale))
        if one.spec
    ]
    for one in made:
        twins = [other.cell for other in made if other.spec == one.spec]
        # Without a file of paraphrases there is no temperature to differ in.
        conditions = {c.block.augmentation is not None or c.block.name for c in twins}
        assert len({cell.row.name for cell in twins}) == len(conditions) == 1


def test_what_alone_tells_conditions_apart_is_set_at_a_scale_too(laptop: Wishes) -> None:
    made = [one.spec for one in planned("gunel/table-3", laptop) if one.spec]
    assert Counter(spec.settings["batch_size"] for spec in made) == {16: 3, 64: 3, 256: 3}
    assert all(spec.settings.keys() == {"tau", "lam", "batch_size"} for spec in made)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("gunel/table-2", {"": 12, "a mean of others": 2}),
        ("gunel/table-5", {"": 30, "a mean of others": 6}),
        ("gunel/table-7", {"": 4}),
        ("lacon/table-7", {"": 15, "published only": 5}),
        ("cmlm/table-1", {"": 120}),
    ],
)
def test_what_cannot_be_made_says_why(name: str, reasons: dict[str, int], paper: Wishes) -> None:
    assert Counter(one.reason for one in planned(name, paper)) == reasons


@pytest.mark.parametrize("scale", [None, "laptop"])
def test_an_encoder_is_first_fine_tuned_by_the_study_of_another_table(
    options: RunOptions, scale: str | None
) -> None:
    wishes = Wishes(options=options, scale=scale)
    own = {
        one.cell.row.name: (one.spec, replace(one.options, rule=None))
        for one in planned("gunel/table-2", wishes)
        if one.cell.column.name == "SST-2"
    }
    cells = planned("gunel/table-7", wishes)
    for one in cells:
        assert one.spec is not None
        assert one.first is not None
        assert (one.first.spec, one.first.options) == own[one.cell.row.name]
        assert (one.spec.protocol, one.spec.shots) == ("gunel-fewshot", 20)
    trained = [(one.cell.row.name, one.spec.task) for one in studies_of(cells) if one.spec]
    tasks = ("sst2", "amazon2", "yelp2")
    assert trained == [(row, task) for row in ("CE", "CE + SCL") for task in tasks]


def test_an_encoder_cannot_be_handed_on_in_an_object_store(paper: Wishes) -> None:
    elsewhere = replace(paper, options=replace(paper.options, storage="s3://bucket/folder"))
    assert {one.reason for one in planned("gunel/table-7", elsewhere)} == {
        "its encoder is kept in the storage, which must be a folder that all machines have"
    }
    assert all(one.spec for one in planned("gunel/table-4", elsewhere))


def test_a_model_of_ones_own_stands_above_tables_and_scales(paper: Wishes, laptop: Wishes) -> None:
    for wishes in (paper, laptop):
        cells = planned("gunel/table-4", replace(wishes, model="distilbert"))
        assert {one.spec.model for one in cells if one.spec} == {"distilbert"}


def test_a_rule_is_the_tables_at_the_papers_scale_alone(paper: Wishes, laptop: Wishes) -> None:
    cells = planned("gunel/table-7", paper)
    assert {(one.options.rule, one.first and one.first.options.rule) for one in cells} == {
        ("top-3", None)
    }
    for name, wishes in (("gunel/table-7", laptop), ("lacon/table-4", paper)):
        assert {one.options.rule for one in planned(name, wishes)} == {None}


def test_all_methods_have_the_rate_of_full_training_sets_in_both_phases(
    paper: Wishes, laptop: Wishes, small: Path, glue: Path
) -> None:
    wishes = replace(paper, options=replace(paper.options, data_dir=glue), model=str(small))
    rates: dict[str, list[object]] = {}
    for one in planned("cmlm/table-2", wishes):
        if one.spec is not None and one.spec.task == "rte":
            fields = resolve(one.spec, one.options).fields({})
            found = [value for name, value in fields.items() if name.endswith("learning_rate")]
            rates[one.cell.row.name] = found
    single, double = [3e-5], [3e-5, 3e-5]
    both = dict.fromkeys(("CSSL", "TAPT", "CMLM"), double)
    assert rates == {"FT": single, "SCL": single, **both}
    scaled = [one.spec for one in planned("cmlm/table-2", laptop) if one.spec]
    assert not any(name.endswith("learning_rate") for spec in scaled for name in spec.settings)


def test_bert_is_fine_tuned_as_devlin_et_al_do(paper: Wishes, small: Path, glue: Path) -> None:
    wishes = replace(paper, options=replace(paper.options, data_dir=glue), model=str(small))
    (spec,) = {
        one.spec.task: one.spec
        for one in planned("supcl-seq/table-2", wishes)
        if one.spec and (one.cell.row.name, one.spec.task) == ("Standard", "rte")
    }.values()
    fields = resolve(spec, wishes.options).fields({})
    shared = {"warmup_ratio": 0.1, "weight_decay": 0.01, "max_grad_norm": 1.0, "epochs": 3}
    assert shared.items() <= fields.items()


def test_paraphrases_go_to_the_methods_that_read_them(paper: Wishes) -> None:
    file = Path("paraphrases.jsonl")
    cells = planned("cmlm/table-2", replace(paper, paraphrases=file))
    given = {one.cell.row.name: one.spec.paraphrases for one in cells if one.spec}
    assert given == {"FT": None, "SCL": None, "CSSL": file, "TAPT": None, "CMLM": None}
    with pytest.raises(
        SclsearchError, match=r"^--paraphrases paraphrases.jsonl: it must come with"
    ):
        planned("gunel/table-2", replace(paper, paraphrases=file))


def test_an_unknown_scale_is_refused_once_and_not_for_each_cell(paper: Wishes) -> None:
    with pytest.raises(SclsearchError, match=r"^Unknown scale 'laptp'. Did you mean 'laptop'\?"):
        planned("gunel/table-4", replace(paper, scale="laptp"))


def test_two_metrics_of_a_task_are_one_study(paper: Wishes) -> None:
    table = published_tables()["lacon/table-5"]
    cells = plan_cells(table, table.cells, paper)
    assert [len(cells), len(list(studies_of(cells)))] == [8, 4]
