"""Tests of paraphrase files: a seed run's key depends only on the paraphrases that it reads."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.studies import seed_run_key
from sclsearch.tasks.base import Texts
from tests.workspace import MakeSpec, Prepare, Resolved

CSSL: dict[str, Any] = {"method": "cssl", "task": "demo", "space": None, "train_size": 20}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paraphrases.jsonl"


def write(file: Path, texts: Iterable[Texts], changed: Texts | None = None) -> None:
    """Write two paraphrases of each text, different ones for `changed`."""
    lines: list[Any] = [{"paraphrases": 1, "source": "a test"}]
    for text in sorted(texts):
        view = "other" if text == changed else "so"
        lines.append({"text": text, "paraphrases": [[f"{text[0]} {view}"], ["it"]]})
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def drawn(resolved: Resolved) -> Callable[[int], set[Texts]]:
    """Return a function that returns the texts of the first replicates."""
    study = resolved(**CSSL)
    texts = study.data.splits["train"].texts

    def drawn(replicates: int) -> set[Texts]:
        return {texts[row] for n in range(replicates) for row in study.splits(n).train.index}

    return drawn


def keys(prepared: Scheduler) -> list[str]:
    study, splits = prepared.study, prepared.splits
    return [study.seed_run_spec({}, number, splits[number]).key for number in range(study.seeds)]


def test_paraphrases_for_more_seeds_do_not_change_finished_seed_runs(
    make_spec: MakeSpec, prepare: Prepare, drawn: Callable[[int], set[Texts]], file: Path
) -> None:
    spec = make_spec(**CSSL, paraphrases=file)
    write(file, drawn(2))
    before = prepare(spec, seeds=2)
    before.begin()
    write(file, drawn(4))
    after = prepare(spec, seeds=4)
    assert after.record == before.record
    assert keys(after)[:2] == keys(before)
    assert len({*keys(after)}) == 4
    configuration = after.study.configuration(0, {}, "given")
    assert keys(after) == [
        seed_run_key(after.record, configuration, replicate) for replicate in after.replicates
    ]


def test_changed_paraphrases_of_a_text_that_is_read_give_another_study(
    make_spec: MakeSpec, prepare: Prepare, drawn: Callable[[int], set[Texts]], file: Path
) -> None:
    spec = make_spec(**CSSL, paraphrases=file)
    write(file, drawn(2))
    before = prepare(spec, study="mine", seeds=2)
    before.begin()
    write(file, drawn(2), changed=min(drawn(1)))
    assert prepare(spec, seeds=2).study.default_name() != before.study.default_name()
    with pytest.raises(
        SclsearchError,
        match=rf"^--study mine: paraphrases \({file}\) changed since the study began. Give anot",
    ):
        prepare(spec, study="mine", seeds=2)
    write(file, drawn(2), changed=min(drawn(2) - drawn(1)))
    assert keys(prepare(spec, study="other", seeds=2))[0] == keys(before)[0]
    with pytest.raises(
        SclsearchError, match=r"^--study mine: paraphrases of replicate 1 \(.*\) changed"
    ):
        prepare(spec, study="mine", seeds=2)
