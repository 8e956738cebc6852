"""SetFit on the rows of benchmarks/evidence.md, trained in a separate environment.

    python -m benchmarks.setfit_baseline rows.jsonl sst2-20 dbpedia-20
    setfit/bin/python benchmarks/setfit_baseline.py rows.jsonl

The first command writes the rows; the folder SCLSEARCH_DATA has the tasks. The second one needs the
package setfit and not sclsearch: it trains SetFit with its default settings and stores the scores.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

HEADER = "kind,study,origin,replicate,validation,test,seconds,train_rows\n"


def write(path: Path, task: str, size: str) -> None:
    """Append encoder, texts and labels of each fresh seed to a file, one JSON object a line."""
    from benchmarks.evidence.claims import FEWSHOT, FRESH, MODEL, SEEDS
    from benchmarks.evidence.records import SHORT
    from sclsearch.study.resolve import resolve
    from sclsearch.study.spec import RunOptions, StudySpec

    fields: dict[str, Any] = {"method": "ce", "model": MODEL, "protocol": FEWSHOT}
    fields |= {"task": task, "train_size": int(size), "scale": "laptop"}
    fields |= {"searched": False, "fresh": FRESH, "first_fresh": SEEDS}
    study = resolve(StudySpec(**fields), RunOptions(gpus_per_trial=0))
    for replicate in range(FRESH):
        splits = study.splits(replicate)
        line: dict[str, Any] = {"file": f"setfit-{task}-{size}.csv", "replicate": replicate}
        line |= {"model": str(study.model), "train_rows": splits.digests["train"][:SHORT]}
        for split in ("train", "validation", "test"):
            own = getattr(splits, split)
            texts = study.data.splits[own.split].texts
            line[split] = {"text": [texts[n][0] for n in own.index]}
            line[split]["label"] = own.labels(study.data).tolist()
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")


def train(line: dict[str, Any]) -> None:
    """Train SetFit on a line of the file and append its scores; do nothing if they are there."""
    import datasets
    import setfit  # type: ignore[import-not-found]

    file = Path("benchmarks/evidence", line["file"])
    stored = file.read_text(encoding="utf-8") if file.exists() else HEADER
    start = f"baseline,{file.stem},SetFit,{line['replicate']},"
    if start in stored:
        return
    started = time.perf_counter()
    model = setfit.SetFitModel.from_pretrained(line["model"])
    arguments = setfit.TrainingArguments(
        seed=line["replicate"], save_strategy="no", report_to="none", show_progress_bar=False
    )
    data = datasets.Dataset.from_dict(line["train"])
    setfit.Trainer(model=model, args=arguments, train_dataset=data).train()
    scores: list[object] = []
    for split in ("validation", "test"):
        predicted = model.predict(line[split]["text"], use_labels=False).tolist()
        pairs = zip(predicted, line[split]["label"], strict=True)
        scores.append(sum(ours == label for ours, label in pairs) / len(predicted))
    scores += [round(time.perf_counter() - started, 1), line["train_rows"]]
    file.write_text(f"{stored}{start}{','.join(map(str, scores))}\n", encoding="utf-8")


def main() -> None:
    """Write the rows, or train SetFit on them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="rows, one JSON object a line")
    parser.add_argument("tasks", nargs="*", metavar="TASK-SIZE", help="rows to write: sst2-20")
    options = parser.parse_args()
    for name in options.tasks:
        write(options.file, *name.rsplit("-", 1))
    if not options.tasks:
        for line in options.file.read_text(encoding="utf-8").splitlines():
            train(json.loads(line))


if __name__ == "__main__":
    main()
