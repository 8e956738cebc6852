"""Tests of `verify`: recorded scores, changed files, agreement with transformers."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.encoders.models import CARD
from sclsearch.errors import SclsearchError
from sclsearch.reports.export_record import DIGESTS, read_record, write_digests
from sclsearch.reports.report import finished_winner, report
from sclsearch.reports.verification import _with_files
from sclsearch.tasks.custom import CustomTask
from sclsearch.training.device import Backend
from tests.reports.trained import Trained, study_on


def test_an_export_is_verified_against_its_recorded_score(trained: Trained, exported: Path) -> None:
    winner = finished_winner(report(trained.storage, "mine"))
    best = winner.seeds[winner.reported[0]]
    verification = sclsearch.verify(exported)
    (one,) = verification.members
    assert verification.verified
    assert (one.replicate, one.recorded, one.found) == (best.replicate, best.test, best.test)
    assert one.agreeing == one.rows == 500
    result = CliRunner().invoke(app, ["verify", str(exported)])
    assert (result.exit_code, result.stdout) == (
        0,
        f"seed {one.replicate}: test accuracy {best.test:.4f} on 500 rows, recorded "
        f"{best.test:.4f}\n"
        "  transformers alone predicts the same for 500 of 500 rows\n"
        f"{exported}: verified\n",
    )


def test_an_ensemble_is_verified_by_its_members(trained: Trained, tmp_path: Path) -> None:
    sclsearch.export("mine", tmp_path / "both", storage=trained.storage, ensemble=True, force=True)
    verification = sclsearch.verify(tmp_path / "both")
    assert verification.verified
    assert len(verification.members) == 2
    assert verification.ensemble is not None
    assert 0 < verification.ensemble < 1
    result = CliRunner().invoke(app, ["verify", str(tmp_path / "both")])
    assert f"ensemble of 2 seeds: test accuracy {verification.ensemble:.4f}\n" in result.stdout


def test_a_different_score_gives_exit_code_3_unless_it_is_within_tolerance(exported: Path) -> None:
    record = read_record(exported)
    confusion = [list(row) for row in record.evaluation["confusion"]]
    confusion[0][0] += 1
    confusion[0][1] -= 1
    replace(record, evaluation={"confusion": confusion}).write(exported)
    write_digests(exported)
    result = CliRunner().invoke(app, ["verify", str(exported)])
    assert result.exit_code == 3
    assert result.stdout.endswith(
        f"{exported}: NOT verified: a file, a score or a prediction differs\n"
    )
    result = CliRunner().invoke(app, ["verify", str(exported), "--tolerance", "0.002", "--json"])
    verification = json.loads(result.stdout)
    assert (result.exit_code, verification["verified"]) == (0, True)
    assert abs(verification["members"][0]["found"] - verification["members"][0]["recorded"]) > 0.001


def test_a_transformers_head_that_differs_from_ours_is_detected(exported: Path) -> None:
    weights = load_file(exported / "model.safetensors")
    weights["classifier.bias"] += torch.tensor([100.0, -100.0])
    save_file(weights, exported / "model.safetensors", {"format": "pt"})
    write_digests(exported)
    verification = sclsearch.verify(exported)
    (one,) = verification.members
    assert one.found == one.recorded
    assert one.agreeing is not None
    assert one.agreeing < one.rows
    assert not verification.verified


def test_the_code_of_an_export_never_runs(tiny_bert: Path, tmp_path: Path) -> None:
    study_on(tiny_bert, tmp_path / "storage", pooling="mean").export(tmp_path / "winner")
    verification = sclsearch.verify(tmp_path / "winner")
    (one,) = verification.members
    assert one.agreeing == one.rows == 500
    assert verification.verified
    code = tmp_path / "winner" / "pooled_classifier.py"
    code.write_text("raise SystemExit\n", encoding="utf-8")
    verification = sclsearch.verify(tmp_path / "winner")
    assert verification.members == (one,)
    assert verification.changed == ("pooled_classifier.py",)


def test_transformers_is_compared_in_float32_after_training_in_bf16(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = read_record(exported)
    replace(record, numerics="cpu-bf16").write(exported)
    used: list[Backend] = []
    monkeypatch.setattr("sclsearch.training.device.fast_bf16", lambda _: True)

    def float32(backend: Backend) -> nullcontext[None]:
        used.append(backend)
        return nullcontext()

    monkeypatch.setattr(Backend, "autocast", float32)
    (one,) = sclsearch.verify(exported).members
    assert [backend.bf16 for backend in dict.fromkeys(used)] == [True, False]
    assert one.agreeing == one.rows


def test_code_of_the_folder_never_runs(exported: Path) -> None:
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    config |= {
        "model_type": "bert-generation",
        "auto_map": {"AutoModelForSequenceClassification": "hostile.Hostile"},
    }
    (exported / "config.json").write_text(json.dumps(config), encoding="utf-8")
    marker = exported.parent / "it ran"
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Hostile: pass\n"
    (exported / "hostile.py").write_text(code, encoding="utf-8")
    write_digests(exported)
    result = CliRunner().invoke(app, ["verify", str(exported)], input="y\n" * 9)
    assert result.exit_code != 0
    assert isinstance(result.exception, SclsearchError | SystemExit)
    assert not marker.exists()


def test_different_labels_or_test_rows_are_refused(exported: Path) -> None:
    record = read_record(exported)
    replace(record, labels=record.labels[::-1]).write(exported)
    with pytest.raises(SclsearchError, match="labels: must be"):
        sclsearch.verify(exported)
    replace(record, data="0" * 64).write(exported)
    with pytest.raises(SclsearchError) as raised:
        sclsearch.verify(exported)
    assert str(raised.value).startswith(
        f"{exported / CARD}: the test rows of demo must be those of the study, but "
    )
    replace(record, test_rows="").write(exported)
    with pytest.raises(SclsearchError, match="names no test rows, because an older version"):
        sclsearch.verify(exported)


def test_every_changed_file_is_named(exported: Path) -> None:
    replace(read_record(exported), validation=0.99, seeds=9).write(exported)
    settings = (exported / "tokenizer_config.json").read_bytes()
    (exported / "tokenizer_config.json").unlink()
    (exported / "README.md").write_text("A card of the user's own")
    result = CliRunner().invoke(app, ["verify", str(exported)])
    assert result.exit_code == 3, result.output
    assert [line for line in result.stdout.splitlines() if "missing, or" in line] == [
        f"{name}: missing, or not as `sclsearch export` wrote it"
        for name in (CARD, "tokenizer_config.json")
    ]
    (exported / DIGESTS).write_text("")
    assert sclsearch.verify(exported).changed == (CARD,)
    (exported / DIGESTS).unlink()
    (exported / "tokenizer_config.json").write_bytes(settings)
    result = CliRunner().invoke(app, ["verify", str(exported)])
    assert result.exit_code == 0
    assert f"{DIGESTS} is missing, so the files were not compared with it\n" in result.stdout


def test_a_damaged_weights_file_is_reported_as_changed(exported: Path) -> None:
    with (exported / "model.safetensors").open("ab") as file:
        file.write(b"more")
    verification = sclsearch.verify(exported)
    assert (verification.members, verification.changed, verification.verified) == (
        (),
        ("model.safetensors",),
        False,
    )


def test_an_export_has_no_local_paths_and_finds_its_data_file_by_name(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, files = tmp_path / "private", tmp_path / "files"
    private.mkdir()
    rows = [f"a {word} film {n},{word}\n" for n in range(20) for word in ("good", "bad")]
    (private / "mine.csv").write_text(f"body,verdict\n{''.join(rows)}")
    task = CustomTask(private / "mine.csv", "body", "verdict", fractions=(0.6, 0.2, 0.2))
    study_on(tiny_bert, tmp_path / "storage", task).export(tmp_path / "winner")
    texts = [path for path in (tmp_path / "winner").rglob("*") if path.suffix in {".json", ".md"}]
    for path in texts:
        assert str(tmp_path) not in path.read_text(), path
        assert str(tiny_bert) not in path.read_text(), path
    private.rename(files)
    with pytest.raises(SclsearchError) as raised:
        sclsearch.verify(tmp_path / "winner")
    assert str(raised.value) == (
        f"{tmp_path / 'winner' / CARD}: names the data file mine.csv, which is not in the current "
        "folder. Pass data_dir with the folder of the file."
    )
    assert sclsearch.verify(tmp_path / "winner", data_dir=files).verified
    monkeypatch.chdir(files)
    assert sclsearch.verify(tmp_path / "winner").verified
    with pytest.raises(SclsearchError, match=r"mine\.csv, which is not in "):
        sclsearch.verify(tmp_path / "winner", data_dir=tmp_path)


def test_paraphrases_of_a_published_task_need_not_be_in_its_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.jsonl").touch()
    origin = {"task": "cola", "paraphrases": "mine.jsonl"}
    assert _with_files(origin, tmp_path / "glue", tmp_path) == origin
