"""A cell whose encoder is fine-tuned first comes from two studies, each trained once."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from sclsearch.encoders.head import Head
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import CARD
from sclsearch.methods.base import Model
from sclsearch.papers.base import Table
from sclsearch.papers.figures import make, work_of
from sclsearch.papers.plan import PlannedCell, Wishes, plan_cells, studies_of
from sclsearch.papers.tables import load_tables, published_tables
from sclsearch.reports.report import report
from sclsearch.search.estimate import STORED, finished
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run
from sclsearch.store.studies import StudyStore, study_names
from sclsearch.study.spec import RunOptions
from tests.in_process import in_process

Fill = Callable[..., str]

QUIET = Console(quiet=True)
TABLE = """
paper: Someone et al. 2020
number: 4
title: The demo after the demo
source: section 3
figure: mean of the top 3
unit: percent
rule: top-3
protocol: gunel-fewshot
model: roberta-large
settings: {batch_size: 8, epochs: 2, max_length: 16, learning_rate: 1.0e-3}
rows:
  CE: {method: ce}
columns:
  Demo: {task: demo, metric: accuracy}
blocks:
  N=20: {train_size: 20, first_task: demo}
cells:
  N=20:
    CE: {Demo: 50.0}
"""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    path = tmp_path / "published" / "some" / "table-4.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(TABLE, encoding="utf-8")
    return load_tables(tmp_path / "published")["some/table-4"]


@pytest.fixture
def one(table: Table, options: RunOptions, small: Path) -> PlannedCell:
    """Returns the cell at laptop scale, on a tiny encoder."""
    wishes = Wishes(options=options, scale="laptop", model=str(small))
    return plan_cells(table, table.cells, wishes)[0]


@pytest.fixture
def kept(one: PlannedCell, fill: Fill, small: Path) -> Path:
    """Returns the weights of what is trained first, as if it had been; replicate 2 is the best."""
    assert one.first is not None
    assert one.first.spec is not None
    name = fill(one.first.spec, one.first.options)
    winner = report(one.options.storage, name).winner
    assert winner is not None
    weights = Path(str(StudyStore(one.options.storage, name).weights(winner.seeds[2].key)))
    weights.parent.mkdir()
    encoder = load_encoder(small, "small")
    splits = torch.nn.ModuleDict({"head": Head(encoder.width, 2, hidden=True)})
    save_file(Model(encoder, splits).state_dict(), weights)
    return weights


def folder_of(options: RunOptions) -> Path:
    (folder,) = Path(options.storage, "encoders").iterdir()
    return folder


def missing(one: PlannedCell) -> list[int]:
    return [work_of(study, list).missing for study in studies_of([one])]


def test_as_long_as_the_encoder_is_not_there_all_of_the_cell_is_missing(
    one: PlannedCell, fill: Fill
) -> None:
    assert missing(one) == [6, 6]
    assert work_of(one, list).study == ""
    # What is stored of the encoder as it was pretrained is of no use.
    assert one.spec is not None
    fill(one.spec, one.options)
    assert missing(one) == [6, 6]
    time = work_of(one, partial(finished, one.options.storage)).time
    assert time is not None
    assert time.seconds == pytest.approx(6 * 60.0, rel=0.01)
    assert time.basis == STORED
    assert not Path(one.options.storage, "encoders").exists()


def test_seed_runs_of_another_study_make_no_encoder_yet(one: PlannedCell, fill: Fill) -> None:
    assert one.first is not None
    assert one.first.spec is not None
    name = fill(one.first.spec, one.first.options)
    assert missing(one) == [0, 6]
    shutil.rmtree(Path(one.options.storage, "studies", name))
    assert missing(one) == [0, 6]


def test_the_best_seed_is_exported_once_and_the_figure_says_so(
    one: PlannedCell, kept: Path, fill: Fill, small: Path
) -> None:
    over = 0.0
    figure = make(one, QUIET, over)
    assert figure.reason == "the time budget is used; the same command goes on"
    folder = folder_of(one.options)
    assert folder.name == f"demo-{kept.stem[:12]}"
    assert missing(one) == [0, 6]
    assert one.spec is not None
    name = fill(replace(one.spec, model=str(folder)), one.options)
    assert (missing(one), work_of(one, list).study) == ([0, 0], name)
    written = (folder / CARD).stat().st_mtime_ns
    figure = make(one, QUIET, over)
    assert (folder / CARD).stat().st_mtime_ns == written
    assert (figure.study, figure.seeds) == (name, 3)
    assert figure.mean == pytest.approx(0.61)
    note = (
        "encoder first fine-tuned on demo by ce: seed 2, the best of 3 by validation, accuracy "
        "0.6200"
    )
    assert {note, f"model {small}, not roberta-large"} <= {*figure.notes}


def test_an_encoder_is_named_by_its_base_in_the_notes(
    table: Table, one: PlannedCell, kept: Path, fill: Fill
) -> None:
    make(one, QUIET, 0.0)
    folder = folder_of(one.options)
    card = json.loads((folder / CARD).read_text())
    for base, told in (("minilm", ["model minilm, not roberta-large"]), ("roberta-large", [])):
        (folder / CARD).write_text(json.dumps({**card, "base": base}))
        assert one.spec is not None
        fill(replace(one.spec, model=str(folder)), one.options)
        notes = make(one, QUIET, 0.0).notes
        assert [note for note in notes if note.startswith("model ")] == told


def test_weights_that_are_not_kept_are_the_reason(one: PlannedCell, kept: Path) -> None:
    kept.unlink()
    figure = make(one, QUIET)
    assert figure.mean is None
    assert f"`sclsearch rerun {kept.stem[:12]} --storage" in figure.reason
    assert not Path(one.options.storage, "encoders").exists()


def test_what_cannot_be_trained_first_is_the_reason(one: PlannedCell) -> None:
    assert one.first is not None
    assert one.first.spec is not None
    wrong = replace(one, first=replace(one.first, spec=replace(one.first.spec, task="dmeo")))
    assert make(wrong, QUIET).reason.startswith("Unknown task 'dmeo'. Did you mean 'demo'?")
    assert work_of(wrong, list).reason == make(wrong, QUIET).reason


@pytest.mark.parametrize("scale", [None, "laptop"])
def test_the_published_table_is_planned_on_real_rows(
    glue: Path, options: RunOptions, small: Path, tmp_path: Path, scale: str | None
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "SST-2").symlink_to(glue / "SST-2")
    (data / "yelp_review_polarity_csv").symlink_to(glue.parent / "yelp_polarity")
    options = replace(options, data_dir=data)
    table = published_tables()["gunel/table-7"]
    wishes = Wishes(options=options, scale=scale, model=str(small))
    cells = plan_cells(table, [c for c in table.cells if c.row.name == "CE"], wishes)
    yelp = next(one for one in cells if one.cell.column.name == "Yelp-2")
    works = [work_of(one, list) for one in studies_of([yelp])]
    assert [(work.missing, work.reason) for work in works] == [(10 if scale is None else 6, "")] * 2
    assert yelp.spec is not None
    prepared = prepare_study(yelp.spec, yelp.options)
    for splits in prepared.splits.values():
        names = splits.train.split, splits.validation.split, splits.test.split
        assert names == ("train", "train", "test")
        assert len(splits.train.index) == 40
        assert not set(splits.train.index) & set(splits.validation.index)


def stored(options: RunOptions) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in Path(options.storage, "runs").glob("*.json")}


@pytest.mark.slow
def test_a_transfer_that_was_begun_goes_on_and_ends_once(
    table: Table, options: RunOptions, tiny_roberta: Path
) -> None:
    wishes = Wishes(options=options, scale="laptop", model=str(tiny_roberta))
    (one,) = plan_cells(table, table.cells, wishes)
    assert one.first is not None
    assert one.first.spec is not None
    with in_process():
        run(one.first.spec, replace(one.first.options, configs=1), QUIET)
        begun = stored(options)
        assert (len(begun), missing(one)) == (3, [3, 6])
        figure = make(one, QUIET)
    whole = stored(options)
    assert (figure.seeds, figure.reason, len(whole)) == (3, "", 12)
    assert {key: whole[key] for key in begun} == begun
    assert (missing(one), len(study_names(options.storage))) == ([0, 0], 2)
    models = {json.loads(text)["origin"]["model"] for text in whole.values()}
    assert models == {str(tiny_roberta), str(folder_of(options))}
    assert make(one, QUIET) == figure
    assert stored(options) == whole
