"""Tests of `confirm`: new replicates, plans, printed scores and errors."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import sclsearch
from sclsearch.errors import SclsearchError
from sclsearch.papers.augmentation import drawn_texts
from sclsearch.papers.confirm import confirm, prepare_confirmation
from sclsearch.protocols import find_protocol
from sclsearch.protocols.base import Size
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.search.plan import plan_prepared
from sclsearch.search.run import rerun, run
from sclsearch.spaces.load import load_space, practical_file
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import load_task
from sclsearch.tasks.base import Texts
from tests.papers.conftest import QUIET
from tests.studies import Confusion, finish, in_process, repeated_spec

Repeat = Callable[..., str]

FIELDS = {"epochs": 2, "batch_size": 8, "max_length": 16}


@pytest.fixture
def spec(small: Path) -> StudySpec:
    given = {"space": "paper", "settings": FIELDS, "sampler": "grid"}
    return StudySpec(method="scl", task="demo", model=str(small), train_size=20, **given)  # type: ignore[arg-type]


@pytest.fixture
def chosen(spec: StudySpec, options: RunOptions) -> str:
    """Return a study of two configurations on twelve replicates; the second is better."""
    options = replace(options, configs=2, seeds=12)
    return finish(
        spec, options, lambda number, r: [[20 + r, 30 - r], [10 - 5 * number, 40 + 5 * number]]
    )


@pytest.fixture
def repeat(options: RunOptions, chosen: str) -> Repeat:
    """Return a function that finishes a repetition of the winner, 70 % right, without training."""

    def repeat(count: int) -> str:
        def counts(_: int, replicate: int) -> Confusion | None:
            return [[30 + replicate, 20 - replicate], [10, 40]]

        spec = repeated_spec(options.storage, chosen, fresh=count, first_fresh=12)
        return finish(spec, options, counts)

    return repeat


def confirmed(study: str, options: RunOptions, count: int = 3) -> tuple[Report, Report]:
    return confirm(study, count, options, QUIET)


def stored(options: RunOptions) -> dict[str, bytes]:
    """Return the files of all seed runs by key."""
    return {path.stem: path.read_bytes() for path in Path(options.storage, "runs").glob("*.json")}


def planned(study: str, options: RunOptions, count: int) -> tuple[int, int]:
    """Return the numbers of all and of stored seed runs of a confirmation."""
    found = plan_prepared(prepare_confirmation(study, count, options, dry=True)[1])
    return found["seed_runs"], found["stored"]


def test_a_winner_is_confirmed_on_replicates_after_those_of_its_search(
    options: RunOptions, chosen: str, repeat: Repeat
) -> None:
    assert planned(chosen, options, 3) == (3, 0)
    name = repeat(3)
    assert planned(chosen, options, 4) == (4, 3)
    search, repetition = confirmed(chosen, options)
    own, fresh = (StudyStore(options.storage, study).replicates() for study in (chosen, name))
    assert repetition.study == name
    assert [replicate.seeds["order"] for replicate in fresh] == [12, 13, 14]
    assert not {r.rows["train"] for r in own} & {r.rows["train"] for r in fresh}
    winner, again = finished_winner(search), finished_winner(repetition)
    assert winner.number == 1
    assert winner.test_mean == pytest.approx(0.75)  # the three best of 0.65 … 0.76
    assert winner.plain == pytest.approx((0.705, 0.036056), abs=1e-6)
    assert repetition.rule == "mean"
    assert again.test_mean == pytest.approx(0.71)
    assert again.fields == winner.fields
    beside = compare_studies([search, repetition]).studies[0].confirmed
    assert beside is not None
    assert (beside.study, beside.mean, beside.seeds) == (name, again.test_mean, 3)
    with pytest.raises(SclsearchError, match=rf"^{name}: repeats the winner of another"):
        confirmed(name, options)
    with in_process():
        fewer = sclsearch.confirm(chosen, 2, storage=options.storage, progress=False)
    assert fewer.seeds == 2
    assert finished_winner(fewer).test_mean == pytest.approx(0.705)


@pytest.mark.slow
def test_a_confirmation_trains_new_seed_runs_once(options: RunOptions, tiny_bert: Path) -> None:
    spec = StudySpec(method="ce", task="demo", model=str(tiny_bert), train_size=20, settings=FIELDS)
    with in_process():
        tuned = run(spec, replace(options, configs=2, seeds=3), QUIET)
        before = stored(options)
        _, fresh = confirm(tuned.name, 3, options, QUIET)
    after = stored(options)
    keys = {seed.key for seed in finished_winner(fresh).seeds}
    assert (len(before), len(keys), keys) == (6, 3, after.keys() - before.keys())
    assert {key: after[key] for key in before} == before
    assert confirm(tuned.name, 3, options, QUIET)[1] == fresh
    assert stored(options) == after
    # Fresh replicates follow the protocol's ten, although the search used three.
    replicates = StudyStore(options.storage, fresh.study).replicates()
    assert [replicate.seeds["order"] for replicate in replicates] == [10, 11, 12]
    assert rerun(options.storage, min(keys)).differing == ()


def test_a_paraphrase_file_may_gain_texts_but_not_change(
    spec: StudySpec, options: RunOptions, tmp_path: Path
) -> None:
    file = tmp_path / "paraphrases.jsonl"
    noisy = replace(spec, protocol="gunel-noisy", paraphrases=file)
    rules = (load_task("demo"), find_protocol("gunel-noisy"), Size(20))
    every, some = (drawn_texts(*rules, replicates) for replicates in (13, 10))

    def write(texts: Iterable[Texts], word: str) -> None:
        written = [{"text": text, "paraphrases": [[word], ["b"], ["c"]]} for text in texts]
        header = {"paraphrases": 1, "source": "a test"}
        file.write_text("\n".join(map(json.dumps, [header, *written])))

    write(some, "a")
    name = finish(noisy, replace(options, configs=1, seeds=10))
    with pytest.raises(SclsearchError, match="--seeds 13"):
        confirmed(name, options)
    write(every, "a")
    finish(repeated_spec(options.storage, name, fresh=3, first_fresh=10), options)
    assert confirmed(name, options)[1].seeds == 3
    write(every, "changed")
    with pytest.raises(SclsearchError, match=rf"^{name}: paraphrases "):
        confirmed(name, options)


def test_the_winner_of_a_gpu_study_is_confirmed_on_cpus(
    spec: StudySpec, options: RunOptions
) -> None:
    on_gpu = replace(options, configs=1, seeds=3, gpus_per_trial=1)
    name = finish(replace(spec, precision="tf32"), on_gpu)
    assert planned(name, options, 2) == (2, 0)


def test_a_confirmation_keeps_a_default_that_differs_from_the_spaces_start(
    spec: StudySpec, options: RunOptions
) -> None:
    assert load_space(practical_file("scl"), "scl").published[0]["head_lr_mult"] != 1
    options = replace(options, configs=1, seeds=3)
    settings = {**FIELDS, "head_lr_mult": 1.0}
    spec = replace(spec, model="minilm", space="practical", sampler="random", settings=settings)
    study = finish(spec, options)
    again = finish(repeated_spec(options.storage, study, fresh=2, first_fresh=3), options)
    first, second = (finished_winner(report(options.storage, one)) for one in (study, again))
    assert first.fields == second.fields
    record = StudyStore(options.storage, again).record()
    assert record is not None
    assert record.identity["space"]["fixed"] == first.fields
