"""Rivals of comparison.md on the same rows: logistic regression and SetFit, as its users run it.

    SCLSEARCH_DATA=DATA python -m benchmarks.rivals write ROWS minilm bert-4x256 [--only sst2/20]
    python -m benchmarks.rivals logistic ROWS
    setfit/bin/python -m benchmarks.rivals setfit ROWS

The first command writes texts and labels to the folder ROWS. The others train on them, add lines to
`comparison.jsonl`, and resume. SetFit needs older packages, so it has its own environment:
`python -m venv setfit && setfit/bin/pip install setfit==1.2.0 'transformers<5' 'pyarrow<26'`.

A rival is tuned like the methods: the setting with the best mean validation accuracy over the 5
seeds of the searches is trained with the 30 new ones. Settings are C on the mean over the frozen
encoder's tokens, and SetFit's learning rate and iterations; its documentation has 2e-5 and 20.
"""

import argparse
import base64
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt

LOGISTIC, SETFIT = "logistic regression", "SetFit"
SETTINGS: Mapping[str, Sequence[tuple[float, int]]] = {
    LOGISTIC: [(10.0**power, 0) for power in range(-3, 6)],
    SETFIT: list(product((5e-6, 2e-5, 1e-4, 5e-4), (5, 20))),
}
PACKAGES = {LOGISTIC: ("scikit-learn", "torch"), SETFIT: ("setfit", "torch")}
RECORDS = Path(__file__).with_name("comparison.jsonl")
Correct = npt.NDArray[np.bool_]
Key = tuple[str, str, int, str]
"""Encoder, task, examples and method."""
Texts = tuple[list[str], list[int]]
"""Texts and labels."""


def packed(correct: Correct) -> str:
    """Return which rows are right, `[seeds, rows]`, as text."""
    bits = zlib.compress(np.packbits(correct).tobytes(), 9)
    return f"{len(correct)}x{correct.shape[1]} {base64.b85encode(bits).decode()}"


def unpacked(text: str) -> Correct:
    """Return the rows of `packed`."""
    shape, _, bits = text.partition(" ")
    seeds, rows = map(int, shape.split("x"))
    found = np.frombuffer(zlib.decompress(base64.b85decode(bits)), np.uint8)
    return np.unpackbits(found, count=seeds * rows).reshape(seeds, rows).astype(bool)


def read() -> dict[Key, dict[str, Any]]:
    """Return the records."""
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    found = map(json.loads, lines)
    return {(one["encoder"], one["task"], one["examples"], one["method"]): one for one in found}


def write(key: Key, record: Mapping[str, Any]) -> None:
    """Store a record in the place of an earlier one of the same key."""
    named = dict(zip(("encoder", "task", "examples", "method"), key, strict=True))
    text = "".join(f"{json.dumps(one)}\n" for one in {**read(), key: named | record}.values())
    RECORDS.with_suffix(".new").write_text(text, encoding="utf-8")
    RECORDS.with_suffix(".new").replace(RECORDS)


def write_rows(folder: Path, encoder: str, task: str, examples: int) -> None:
    """Write the rows of an encoder and a condition; all seeds share validation and test rows."""
    from benchmarks.comparison import FRESH, LENGTHS, SEEDS, digest_of, fields_of
    from sclsearch.study.resolve import resolve
    from sclsearch.study.spec import RunOptions, StudySpec

    fields = {**fields_of(encoder, task, examples), "method": "ce", "searched": False}
    own = resolve(StudySpec(**fields), RunOptions(gpus_per_trial=0))
    new = StudySpec(**fields, fresh=FRESH, first_fresh=SEEDS)
    other = resolve(new, RunOptions(gpus_per_trial=0))
    search = [own.splits(number) for number in range(SEEDS)]
    fresh = [other.splits(number) for number in range(FRESH)]

    def texts(rows: Any) -> Texts:
        return [" ".join(row) for row in rows.texts(own.data)], rows.labels(own.data).tolist()

    rows = {
        **{"key": (Path(encoder).name, task, examples), "digest": own.model_digest[:12]},
        **{"encoder": (str(own.model), LENGTHS[task])},
        **{
            "search": [texts(one.train) for one in search],
            "fresh": [texts(o.train) for o in fresh],
        },
        **{"validation": texts(search[0].validation), "test": texts(fresh[0].test)},
        "data": digest_of([one.digests for one in fresh]),
    }
    file = folder / f"{Path(encoder).name}-{task}-{examples}.json"
    file.write_text(json.dumps(rows), encoding="utf-8")


def embedded(encoder: tuple[str, int], texts: Sequence[str]) -> tuple[Any, float]:
    """Return the means over the tokens of a frozen encoder, and the seconds."""
    from sentence_transformers import SentenceTransformer

    model, started = SentenceTransformer(encoder[0], device="cpu"), time.perf_counter()
    model.max_seq_length = encoder[1]
    return model.encode(texts, show_progress_bar=False), time.perf_counter() - started


def setfit(
    encoder: tuple[str, int],
    train: Texts,
    texts: Sequence[str],
    setting: tuple[float, int],
    seed: int,
) -> tuple[Any, float]:
    """Train SetFit and return the predictions, and the seconds of training."""
    import datasets
    import setfit as package  # type: ignore[import-not-found]

    model, started = package.SetFitModel.from_pretrained(encoder[0]), time.perf_counter()
    model.model_body.max_seq_length = encoder[1]
    chosen = {"body_learning_rate": setting[0], "num_iterations": setting[1], "seed": seed}
    quiet = {"save_strategy": "no", "report_to": "none", "show_progress_bar": False}
    data = datasets.Dataset.from_dict(dict(zip(("text", "label"), train, strict=True)))
    arguments = package.TrainingArguments(**chosen, **quiet)
    package.Trainer(model=model, args=arguments, train_dataset=data).train()
    seconds = time.perf_counter() - started
    return np.array(model.predict(texts, use_labels=False)), seconds


def record(name: str, rows: Mapping[str, Any], memory: joblib.Memory) -> dict[str, Any]:
    """Tune a rival, train it with the new seeds, and return its record."""
    from sklearn.linear_model import LogisticRegression

    embed, contrast = memory.cache(embedded), memory.cache(setfit)

    def run(part: str, seed: int, setting: tuple[float, int]) -> tuple[Any, float]:
        train, (texts, y) = rows[part][seed], rows["test" if part == "fresh" else "validation"]
        if name == SETFIT:
            predicted, seconds = contrast(rows["encoder"], train, texts, setting, seed)
        else:
            (x, seconds), (tested, _) = (embed(rows["encoder"], some) for some in (train[0], texts))
            started, model = time.perf_counter(), LogisticRegression(C=setting[0], max_iter=1_000)
            predicted = model.fit(x, train[1]).predict(tested)
            seconds += time.perf_counter() - started
        return predicted == np.array(y), seconds

    settings, seeds = SETTINGS[name], range(len(rows["search"]))
    means = [float(np.mean([run("search", s, one)[0] for s in seeds])) for one in settings]
    best = settings[int(np.argmax(means))]
    found = [run("fresh", seed, best) for seed in range(len(rows["fresh"]))]
    right, seconds = np.array([one for one, _ in found]), [one for _, one in found]
    return {
        **{"learning_rate" if name == SETFIT else "C": best[0], "iterations": best[1]},
        **{"edge": best[0] in (settings[0][0], settings[-1][0]), "validation": max(means)},
        **{"searched": len(settings) * len(seeds), "accuracy": right.mean(), "data": rows["data"]},
        **{"seconds": round(float(np.mean(seconds)), 2), "digest": rows["digest"]},
        **{"versions": {one: version(one) for one in PACKAGES[name]}, "correct": packed(right)},
    }


def main() -> None:
    """Write rows, or train a rival on them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("step", choices=("write", "logistic", "setfit"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("encoders", nargs="*")
    parser.add_argument("--only", nargs="+", metavar="TASK/EXAMPLES")
    given = parser.parse_args()
    if given.step == "write":
        from benchmarks.comparison import CONDITIONS

        given.folder.mkdir(parents=True, exist_ok=True)
        for encoder, (task, examples) in product(given.encoders, CONDITIONS):
            if not given.only or f"{task}/{examples}" in given.only:
                write_rows(given.folder, encoder, task, examples)
        return
    name = LOGISTIC if given.step == "logistic" else SETFIT
    for file in sorted(given.folder.glob("*.json")):
        rows = json.loads(file.read_text(encoding="utf-8"))
        if (key := (*rows["key"], name)) not in read():
            print(*key, flush=True)
            write(key, record(name, rows, joblib.Memory(given.folder / "runs", verbose=0)))


if __name__ == "__main__":
    main()
