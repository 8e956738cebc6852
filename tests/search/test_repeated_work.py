"""What a study makes once and its trials share: token ids, and no texts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend.worker import attempt, worker_context
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.spec import StudySpec

Asked = Callable[..., StudySpec]
Preparing = Callable[..., PreparedStudy]

TWO_LENGTHS = """
method: ce
source: a test
published: []
fixed: {epochs: 1, batch_size: 8}
space:
  max_length: {type: choice, values: [8, 16]}
"""


@pytest.fixture
def tokenised_texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns how many texts each call of a tokenizer got."""
    from transformers import PreTrainedTokenizerBase

    seen: list[int] = []
    call = PreTrainedTokenizerBase.__call__

    def noted(self: Any, texts: list[str], *given: Any, **options: Any) -> Any:
        seen.append(len(texts))
        return call(self, texts, *given, **options)

    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", noted)
    return seen


def test_each_split_is_tokenised_once_for_each_length_however_many_seed_runs_there_are(
    asked: Asked,
    preparing: Preparing,
    write_space: Callable[[str], Path],
    tokenised_texts: list[int],
) -> None:
    prepared = preparing(asked(method="ce", space=write_space(TWO_LENGTHS)), seeds=2)
    tokenised_texts.clear()  # the few whose lengths are looked at
    context = worker_context(prepared, threads=1)
    rows = {len(prepared.study.data.splits[name]) for name in ("train", "validation", "test")}
    lengths = (8, 16, 128)  # and the one that a configuration without the parameter has
    assert len(tokenised_texts) == 3 * len(lengths)
    assert {*tokenised_texts} == rows
    for number in range(2):
        seed_run_spec = prepared.study.seed_run_spec(
            {"max_length": 8}, number, prepared.splits[number]
        )
        run, _ = attempt(seed_run_spec, context, 0)
        assert run.failure is None
    assert len(tokenised_texts) == 3 * len(lengths)


def test_workers_get_no_texts(asked: Asked, preparing: Preparing, tmp_path: Path) -> None:
    spec = asked(method="cssl", space=None, settings={"max_length": 16})
    study = preparing(spec).study
    path = tmp_path / "paraphrases.jsonl"
    texts = set(study.data.splits["train"].texts)
    lines = ['{"paraphrases": 1, "source": "by hand"}']
    lines += [f'{{"text": ["{row[0]}"], "paraphrases": [["so"], ["it"]]}}' for row in texts]
    path.write_text("\n".join(lines), encoding="utf-8")
    prepared = preparing(asked(method="cssl", space=None, paraphrases=path), study="other")
    context = worker_context(prepared, threads=1)
    assert context.study.data.splits == {}
    assert context.study.paraphrases is not None
    assert not context.study.paraphrases.rows
    before = prepared.study.seed_run_spec({}, 0, prepared.splits[0])
    assert context.study.seed_run_spec({}, 0, prepared.splits[0]).key == before.key
