"""Training rows of one's own file may have no label; they stand behind those that have one."""

from pathlib import Path

import numpy as np
import pytest

from sclsearch.tasks.own import OwnFiles, load_own

ROWS = {
    False: "text,label\n" + "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(40)),
    True: "text,label\n" + "".join(f"row {n},{n / 4}\n" for n in range(40)),
}


@pytest.mark.parametrize("regression", [False, True])
def test_rows_without_a_label_are_training_rows_behind_the_others(
    tmp_path: Path, regression: bool
) -> None:
    own = OwnFiles(tmp_path / "rows.csv", ("text",), "label", regression=regression)
    own.path.write_text(ROWS[regression])
    labelled = load_own(own)
    own.path.write_text(ROWS[regression].replace("label\n", "label\nunseen, \n") + "unheard,\n")
    loaded = load_own(own)
    train = loaded.splits["train"]
    assert (len(train), train.labelled, train.unlabelled) == (34, 32, 2)
    assert train.texts == (*labelled.splits["train"].texts, ("unseen",), ("unheard",))
    assert np.array_equal(train.y[:32], labelled.splits["train"].y)
    assert (np.isnan(train.y[32:]) if regression else train.y[32:] == -1).all()
    assert {name: len(split) for name, split in loaded.splits.items() if name != "train"} == {
        "validation": 4,
        "test": 4,
    }
    assert loaded.digest == labelled.digest
    assert loaded.notes == labelled.notes
    assert loaded.bare_digest
    assert not labelled.bare_digest
    taken = train.take(np.array([0, 31, 32]))
    assert (taken.labelled, taken.unlabelled) == (2, 1)
