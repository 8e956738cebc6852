"""Training rows of one's own file may have no label; they stand behind those that have one."""

from pathlib import Path

import numpy as np
import pytest

from sclsearch.tasks.custom import CustomTask, load_custom_task

ROWS = {
    False: "text,label\n" + "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(40)),
    True: "text,label\n" + "".join(f"row {n},{n / 4}\n" for n in range(40)),
}


@pytest.mark.parametrize("regression", [False, True])
def test_rows_without_a_label_are_training_rows_behind_the_others(
    tmp_path: Path, regression: bool
) -> None:
    own = CustomTask(tmp_path / "rows.csv", ("text",), "label", regression=regression)
    own.path.write_text(ROWS[regression])
    labeled = load_custom_task(own)
    own.path.write_text(ROWS[regression].replace("label\n", "label\nunseen, \n") + "unheard,\n")
    loaded = load_custom_task(own)
    train = loaded.splits["train"]
    assert (len(train), train.labeled, train.unlabeled) == (34, 32, 2)
    assert train.texts == (*labeled.splits["train"].texts, ("unseen",), ("unheard",))
    assert np.array_equal(train.y[:32], labeled.splits["train"].y)
    assert (np.isnan(train.y[32:]) if regression else train.y[32:] == -1).all()
    assert {name: len(split) for name, split in loaded.splits.items() if name != "train"} == {
        "validation": 4,
        "test": 4,
    }
    assert loaded.digest == labeled.digest
    assert loaded.notes == labeled.notes
    assert loaded.bare_digest
    assert not labeled.bare_digest
    taken = train.take(np.array([0, 31, 32]))
    assert (taken.labeled, taken.unlabeled) == (2, 1)
