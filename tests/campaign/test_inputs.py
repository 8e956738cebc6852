"""Tests of malformed options, data, paraphrases and search spaces: a short message refuses each."""

import json
import os
from pathlib import Path

import pytest

from tests.conftest import Call

DEEP = 10_000
TUNE = ("tune", "--method", "scl", "--gpus-per-trial", "0", "--dry-run")
DEMO = ("--task", "demo", "--train-size", "20")
ROWS = "text,label\n" + "".join(f"a good film {n},good\na bad film {n},bad\n" for n in range(40))


@pytest.fixture(autouse=True)
def model(folder: Path, tiny_encoder: Path) -> None:
    (folder / "tiny").symlink_to(tiny_encoder)


def nested(kind: str) -> str:
    return "[" * DEEP + "]" * DEEP if kind == "list" else '{"a":' * DEEP + "1" + "}" * DEEP


OPTIONS = [
    *(("--method", value) for value in ("", "scll", "x.py:Y", "nothing.py", "\0", "../scl")),
    *(("--task", value) for value in ("", "colla", "nothing.csv", "/", ".", "\0", "~nobody/x")),
    *(("--protocol", value) for value in ("", "plane", "lacon-classes:99")),
    ("--scale", "desktop"),
    *(("--train-size", value) for value in ("0", "-1", "x", "1e3", "", "99999999999999999999")),
    *(("--shots", value) for value in ("0", "-1", "x", "1000000")),
    *(("--unlabeled", value) for value in ("-1", "x", "1.5", "")),
    *(("--rule", value) for value in ("", "top", "top-0", "top-99", "mean/worst", "best/best/x")),
    *(("--seeds", value) for value in ("0", "-3", "x", "2.5", "")),
    *(("--configs", value) for value in ("0", "-1", "x")),
    *(("--race", value) for value in ("-1", "0", "x", "nan", "inf", "")),
    *(("--study", value) for value in ("", "a/b", "..", "a b", "x" * 200, "é", "\0")),
    *(("--storage", value) for value in ("", "S3://", "s3://", "gs:/x", "ftp://x/y", "a\0b")),
    *(("--tracking", value) for value in ("http://", "https://", "ftp://x", "sqlite://", "\0")),
    *(("--data-dir", value) for value in ("nothing", "", "\0")),
    *(("--address", value) for value in ("", "ray://x:1", "nowhere", "x:y", "host:")),
    *(("--cpus-per-trial", value) for value in ("0", "-1", "x", "100000")),
    *(("--gpus-per-trial", value) for value in ("-1", "2", "0.7", "nan", "inf", "x")),
    *(("--folds", value) for value in ("0", "1", "-1", "x")),
    *(("--concurrency", value) for value in ("0", "-1", "x")),
    *(("--sampler", value) for value in ("", "tpee", "GRID")),
    *(("--time-budget", value) for value in ("", "0", "-5m", "5y", "nan", "inf", "1e999")),
    *(("--trial-timeout", value) for value in ("0", "x", "-1h")),
    *(("--search-seed", value) for value in ("x", "1.5", "")),
    *(("--paraphrases", value) for value in ("nothing.jsonl", "", "/", "\0", "pipe.csv")),
    *(("--space", value) for value in ("nothing.yaml", "/", "tiny", "pipe.csv")),
    *(("--task", value) for value in ("pipe.csv", "loop.csv")),
    *(("--metric", value) for value in ("accurate", "")),
    *(("--fractions", value) for value in ("1", "0.5,0.5,0.5", "a,b,c")),
]
OWN = {"--task": "rows.csv", "--text": "text", "--label": "label"}
# Without these, an option is refused whatever its value.
NEEDED = {
    "--folds": {"--protocol": "plain"},
    "--unlabeled": {"--method": "simcse"},
    "--paraphrases": {"--method": "cssl"},
    "--data-dir": {"--task": "cola"},
    "--metric": OWN,
    "--fractions": OWN,
}
SETTINGS = [
    *("", "=", "tau", "=3", "tau=", "tau=x", "tau=-1", "tau=0", "tau=nan", "tau=inf", "tau=[1]"),
    *("tau=&a [*a]", "tau=*a", "tau={a: 1}", "tau='", "tau=!!python/none x", "tau=2001-99-99"),
    *("epochs=0", "epochs=99999999999999999999", "epochs=1.5", "epochs=-1", "epochs=1e9"),
    *("epochs=2147483647", "batch_size=0", "batch_size=10000000000", "max_length=3"),
    *("max_length=100000", "dropout=1", "dropout=-0.1", "learning_rate=0", "learning_rate=1e400"),
    *("warmup_ratio=2", "weight_decay=-1", "pooling=max", "lam=2", "lam=true", "tua=1"),
    *("class_weights=all", "icl=1", "tau=" + nested("list"), "tau=" + "9" * 5000),
]


@pytest.mark.parametrize(("option", "value"), OPTIONS)
def test_a_malformed_option_is_refused(
    option: str, value: str, folder: Path, sclsearch: Call
) -> None:
    (folder / "rows.csv").write_text(ROWS, encoding="utf-8")
    os.mkfifo(folder / "pipe.csv")
    (folder / "loop.csv").symlink_to("loop.csv")
    given = {"--task": "demo", "--train-size": "20", "--model": "tiny"}
    if option in {"--shots", "--folds"}:
        del given["--train-size"]
    given |= {**NEEDED.get(option, {}), option: value}
    result = sclsearch(*TUNE, *[part for pair in given.items() for part in pair])
    result.assert_refused()
    named = (option, f"Unknown {option[2:]} {value!r}", f"{Path(value)}: cannot be read")
    assert any(text in result.stderr for text in named), result.stderr


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda text: text[:30] or "empty")
def test_a_malformed_setting_is_refused(setting: str, sclsearch: Call) -> None:
    sclsearch(*TUNE, *DEMO, "--model", "tiny", "--set", setting).assert_refused("--set")


JSON = ROWS.splitlines()[1:]
AS_JSON = [json.dumps(dict(zip(("text", "label"), row.split(","), strict=True))) for row in JSON]
OBJECTS = "\n".join(AS_JSON) + "\n"
DATA: dict[str, tuple[str, bytes]] = {
    "csv only a header": ("csv", b"text,label\n"),
    "csv no such column": ("csv", ROWS.replace("label", "lable").encode()),
    "csv long row": ("csv", (ROWS + "a,b,c\n").encode()),
    "csv open quote": ("csv", (ROWS + '"never closed,good\n').encode()),
    "csv latin-1": ("csv", ROWS.replace("good", "g\xf6\xf6d").encode("latin-1")),
    "csv utf-16": ("csv", ROWS.encode("utf-16")),
    "csv one class": ("csv", ROWS.replace("bad\n", "good\n").encode()),
    "csv binary": ("csv", bytes(range(256)) * 50),
    "tsv is CSV": ("tsv", ROWS.encode()),
    "jsonl empty": ("jsonl", b""),
    "jsonl cut": ("jsonl", OBJECTS[:-5].encode()),
    "jsonl lone surrogate": ("jsonl", OBJECTS.replace('"a good', '"\\ud800').encode()),
    "jsonl deep object": ("jsonl", (OBJECTS + nested("object") + "\n").encode()),
    "jsonl long number": ("jsonl", (OBJECTS + '{"text": ' + "9" * 5000 + "}\n").encode()),
    "parquet cut": ("parquet", b"PAR1" + bytes(100) + b"PAR1"),
    "unknown ending": ("xlsx", ROWS.encode()),
}
SPACES: dict[str, str] = {
    "empty": "",
    "open bracket": "space: [",
    "alias to itself": "a: &a [*a]",
    "deep flow": "space: " + nested("list"),
    "not finite": "space: {tau: {type: float, low: .nan, high: .inf}}",
    "python object": "space: !!python/object/apply:os.system [touch MARK]",
    "binary": "space: !!binary aGVsbG8=",
    "number as key": "space: {1: {}}",
    "too long": "# " + "x" * 1_100_000,
}
HEAD = '{"paraphrases": 1, "source": "me"}\n'
LINE = '{"text": ["a"], "paraphrases": [["b"], ["c"]]}\n'
PARAPHRASES = ("", LINE, HEAD + LINE, HEAD + nested("list") + "\n", "".join(map(chr, range(256))))
FILES: dict[str, tuple[str, str, bytes]] = {
    **{f"data, {name}": ("--task", *case) for name, case in DATA.items()},
    **{f"space, {name}": ("--space", "yaml", case.encode()) for name, case in SPACES.items()},
    **{f"text {n}": ("--paraphrases", "jsonl", x.encode()) for n, x in enumerate(PARAPHRASES)},
}


@pytest.mark.parametrize("name", FILES)
def test_a_malformed_file_is_refused_with_its_name(
    name: str, folder: Path, sclsearch: Call
) -> None:
    option, ending, content = FILES[name]
    (folder / f"mine.{ending}").write_bytes(content)
    given = dict(zip(DEMO[::2], DEMO[1::2], strict=True)) | NEEDED.get(option, {})
    given = (OWN if option == "--task" else given) | {option: f"./mine.{ending}"}
    options = [part for pair in given.items() for part in pair]
    sclsearch(*TUNE, "--model", "tiny", *options).assert_refused("mine")
    assert not (folder / "MARK").exists()
