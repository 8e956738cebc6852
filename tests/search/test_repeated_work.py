"""Tests of the data that trials of a study share: token ids, and no texts."""

from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend.worker import attempt, worker_context
from tests.workspace import MakeSpec, Prepare, WriteSpace

TWO_LENGTHS = """
method: ce
source: a test
published: []
fixed: {epochs: 1, batch_size: 8}
space:
  max_length: {type: choice, values: [8, 16]}
"""


@pytest.fixture
def tokenized_texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of texts in each call of a tokenizer."""
    from transformers import PreTrainedTokenizerBase

    counts: list[int] = []
    call = PreTrainedTokenizerBase.__call__

    def counted(self: Any, texts: list[str], *args: Any, **kwargs: Any) -> Any:
        counts.append(len(texts))
        return call(self, texts, *args, **kwargs)

    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", counted)
    return counts


def test_each_split_is_tokenized_once_per_length_for_all_seed_runs(
    make_spec: MakeSpec,
    prepare: Prepare,
    write_space: WriteSpace,
    tokenized_texts: list[int],
) -> None:
    prepared = prepare(make_spec(method="ce", space=write_space(TWO_LENGTHS)), seeds=2)
    tokenized_texts.clear()  # texts whose lengths were checked
    context = worker_context(prepared, threads=1)
    rows = {len(prepared.study.data.splits[name]) for name in ("train", "validation", "test")}
    lengths = (8, 16, 128)  # 128 is the default
    assert len(tokenized_texts) == 3 * len(lengths)
    assert {*tokenized_texts} == rows
    for number in range(2):
        seed_run_spec = prepared.study.seed_run_spec(
            {"max_length": 8}, number, prepared.splits[number]
        )
        run, _ = attempt(seed_run_spec, context, 0)
        assert run.failure is None
    assert len(tokenized_texts) == 3 * len(lengths)


def test_workers_get_no_texts(make_spec: MakeSpec, prepare: Prepare, tmp_path: Path) -> None:
    spec = make_spec(method="cssl", space=None, settings={"max_length": 16})
    study = prepare(spec).study
    path = tmp_path / "paraphrases.jsonl"
    texts = set(study.data.splits["train"].texts)
    lines = ['{"paraphrases": 1, "source": "by hand"}']
    lines += [f'{{"text": ["{row[0]}"], "paraphrases": [["so"], ["it"]]}}' for row in texts]
    path.write_text("\n".join(lines), encoding="utf-8")
    prepared = prepare(make_spec(method="cssl", space=None, paraphrases=path), study="other")
    context = worker_context(prepared, threads=1)
    assert context.study.data.splits == {}
    assert context.study.paraphrases is not None
    assert not context.study.paraphrases.rows
    before = prepared.study.seed_run_spec({}, 0, prepared.splits[0])
    assert context.study.seed_run_spec({}, 0, prepared.splits[0]).key == before.key
