"""FewGLUE's RTE takes its training rows from FewGLUE and validation from SuperGLUE."""

import json
from pathlib import Path

from sclsearch.tasks import load_task

ROWS = [
    {"premise": "It \u2014 rains.", "hypothesis": "It is wet. ", "label": "entailment", "idx": 3},
    {"premise": "It rains.", "hypothesis": "It is dry.", "label": "not_entailment", "idx": 0},
]


def test_the_premise_comes_first_and_unlabelled_rows_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "FewGLUE" / "RTE"
    folder.mkdir(parents=True)
    for name, rows in {"train": ROWS, "val": ROWS[1:]}.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "unlabeled.jsonl").write_text('{"premise": "It rains.", "hypothesis": "Why?"}\n')
    splits = load_task("fewglue-rte", tmp_path).splits
    assert set(splits) == {"train", "validation"}
    assert splits["train"].texts[0] == ("It — rains.", "It is wet.")
    assert splits["train"].y.tolist() == [0, 1]
    assert splits["validation"].y.tolist() == [1]
