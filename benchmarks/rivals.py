"""Rivals of comparison.md on the same rows: logistic regression and SetFit, as its users run it.

    SCLSEARCH_DATA=DATA python -m benchmarks.rivals CACHE minilm bert-4x256 --only sst2/20

Adds lines to `comparison.jsonl` and resumes. `pip install --no-deps setfit==1.2.0 evaluate
accelerate` installs SetFit beside sclsearch. A rival is tuned like the methods: the setting with
the best mean validation accuracy over the searches' seeds is trained with the new ones. Settings
are C on the mean over the frozen encoder's tokens, and SetFit's learning rate with 20 iterations;
2e-5 and 20 are what its authors recommend for few examples.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from benchmarks import comparison as common
from benchmarks.comparison import CONDITIONS, LENGTH, LOGISTIC, SETFIT

SETTINGS: Mapping[str, Sequence[tuple[float, ...]]] = {
    LOGISTIC: [(10.0**power,) for power in range(-3, 6)],
    SETFIT: [(rate, 20) for rate in (5e-6, 2e-5, 1e-4, 5e-4)],
}
PACKAGES = {LOGISTIC: ("scikit-learn", "torch"), SETFIT: ("setfit", "torch")}
Encoder = tuple[str, int]  # folder, and tokens at which texts are cut


def embedded(encoder: Encoder, texts: Sequence[str]) -> tuple[Any, float]:
    """Return the means over the tokens of a frozen encoder, and the seconds."""
    from sentence_transformers import SentenceTransformer

    model, started = SentenceTransformer(encoder[0], device="cpu"), time.perf_counter()
    model.max_seq_length = encoder[1]
    return model.encode(texts, show_progress_bar=False), time.perf_counter() - started


def contrasted(
    encoder: Encoder, texts: list[str], y: list[int], tested: list[str], *setting: Any
) -> tuple[Any, float]:
    """Train SetFit and return the predictions, and the seconds of training."""
    import datasets
    import setfit  # type: ignore[import-not-found]

    model, started = setfit.SetFitModel.from_pretrained(encoder[0]), time.perf_counter()
    model.model_body.max_seq_length = encoder[1]
    chosen = dict(zip(("body_learning_rate", "num_iterations", "seed"), setting, strict=True))
    quiet = {"save_strategy": "no", "report_to": "none", "show_progress_bar": False}
    arguments = setfit.TrainingArguments(**chosen, **quiet)
    data = datasets.Dataset.from_dict({"text": texts, "label": y})
    setfit.Trainer(model=model, args=arguments, train_dataset=data).train()
    seconds = time.perf_counter() - started
    return model.predict(tested, use_labels=False).tolist(), seconds


def record(cache: Path, name: str, encoder: str, task: str, examples: int) -> dict[str, Any]:
    """Tune a rival, train it with the new seeds, and return its record."""
    from sklearn.linear_model import LogisticRegression

    from sclsearch.study.resolve import resolve
    from sclsearch.study.spec import RunOptions, StudySpec

    fields = {**common.fields_of(encoder, task, examples), "method": "ce", "searched": False}
    specs = StudySpec(**fields), StudySpec(**fields, fresh=common.FRESH, first_fresh=common.SEEDS)
    study, new = (resolve(spec, RunOptions(gpus_per_trial=0)) for spec in specs)
    search = [study.splits(n) for n in range(common.SEEDS)]
    fresh = [new.splits(n) for n in range(common.FRESH)]
    memory, place = joblib.Memory(cache, verbose=0), (str(study.model), LENGTH)
    embed, contrast = memory.cache(embedded), memory.cache(contrasted)

    def texts(rows: Any) -> tuple[list[str], list[int]]:
        return [" ".join(row) for row in rows.texts(study.data)], rows.labels(study.data).tolist()

    def run(train: Any, tested: Any, seed: int, setting: tuple[float, ...]) -> tuple[Any, float]:
        (x, y), (others, expected) = texts(train), texts(tested)
        if name == SETFIT:
            predicted, seconds = contrast(place, x, y, others, *setting, seed)
        else:
            (features, seconds), (unseen, _) = embed(place, x), embed(place, others)
            started, model = time.perf_counter(), LogisticRegression(C=setting[0], max_iter=1_000)
            predicted = model.fit(features, y).predict(unseen)
            seconds += time.perf_counter() - started
        return np.equal(predicted, expected), seconds

    settings, means = SETTINGS[name], []
    for setting in settings:
        runs = [run(one.train, one.validation, n, setting)[0] for n, one in enumerate(search)]
        means.append(float(np.mean(runs)))
    best = settings[int(np.argmax(means))]
    found = [run(one.train, one.test, common.SEEDS + n, best) for n, one in enumerate(fresh)]
    correct, seconds = np.array([right for right, _ in found]), [one for _, one in found]
    return {
        "setting": best,
        "edge": best[0] in (settings[0][0], settings[-1][0]),
        "searched": len(settings) * common.SEEDS,
        "validation": max(means),
        "accuracy": correct.mean(),
        "seconds": round(float(np.median(seconds)), 2),
        "data": common.digest_of(one.digests for one in fresh),
        "digest": study.model_digest[:12],
        "versions": {one: version(one) for one in PACKAGES[name]},
        "correct": common.packed(correct),
    }


def main() -> None:
    """Record the rivals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cache", type=Path, help="folder for finished runs")
    parser.add_argument("encoders", nargs="+")
    parser.add_argument("--only", nargs="+", metavar="TASK/EXAMPLES")
    parser.add_argument("--rivals", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    given = parser.parse_args()
    for name, encoder, (task, examples) in product(given.rivals, given.encoders, CONDITIONS):
        key = (Path(encoder).name, task, examples, name)
        if key not in common.read() and (not given.only or f"{task}/{examples}" in given.only):
            print(*key, flush=True)
            common.write(key, record(given.cache, name, encoder, task, examples))


if __name__ == "__main__":
    main()
