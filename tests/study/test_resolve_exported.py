"""An exported encoder is searched as the one that it was fine-tuned from."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from sclsearch.encoders.models import CARD
from sclsearch.study.study import Study

Resolved = Callable[..., Study]


def test_its_section_of_a_space_is_that_of_its_base(
    resolved: Resolved, tiny_bert: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "encoder")
    usual = {"task": "demo", "space": None, "protocol": "gunel-fewshot", "train_size": 20}
    plain = resolved(model=str(folder), **usual)
    assert "learning_rate" not in plain.space.parameters
    (folder / CARD).write_text(json.dumps({"base": "minilm"}))
    exported = resolved(model=str(folder), **usual)
    assert "learning_rate" in exported.space.parameters
    assert exported.space.note == "scaled, not the paper's"
    # Its files and name are its own all the same, and the card is none of the files that train.
    assert (exported.model_name, exported.model) == (str(folder), folder)
    assert exported.model_digest == plain.model_digest
