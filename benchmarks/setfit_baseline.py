"""SetFit on the rows of benchmarks/evidence.md, trained in a separate environment.

    python -m benchmarks.setfit_baseline --rows rows.jsonl --data-dir FOLDER sst2-20 dbpedia-20
    setfit/bin/python benchmarks/setfit_baseline.py --train rows.jsonl

The first command writes the texts of the fresh seeds of tasks with a number of training examples.
The second one needs the package setfit and not sclsearch; it trains SetFit with its default
settings, writes the test scores to benchmarks/evidence/, and resumes where it stopped.
"""

import argparse
import csv
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sclsearch.study.study import Study

FOLDER = Path("benchmarks/evidence")
COLUMNS = ("kind", "study", "origin", "replicate", "validation", "test", "seconds", "train_rows")
SEEDS, FRESH = 10, 30
"""Seeds of the searches, and fresh seeds after them."""
SHORT = 12


def write_rows(path: Path, data_dir: Path, tasks: list[str]) -> None:
    """Write the encoder's folder, texts and labels of each fresh seed, one JSON object a line."""
    from sclsearch.study.resolve import resolve
    from sclsearch.study.spec import RunOptions, StudySpec

    with path.open("w", encoding="utf-8") as file:
        for name in tasks:
            task, _, size = name.rpartition("-")
            spec = StudySpec(
                method="ce",
                task=task,
                model="minilm",
                protocol="gunel-fewshot",
                scale="laptop",
                train_size=int(size),
                searched=False,
                fresh=FRESH,
                first_fresh=SEEDS,
            )
            study = resolve(spec, RunOptions(data_dir=data_dir, gpus_per_trial=0))
            for number in range(FRESH):
                line = {"name": name, "replicate": number, **_line(study, number)}
                file.write(f"{json.dumps(line)}\n")


def _line(study: "Study", number: int) -> dict[str, Any]:
    splits = study.splits(number)
    line: dict[str, Any] = {"model": str(study.model), "rows": splits.digests["train"][:SHORT]}
    for name, rows in (
        ("train", splits.train),
        ("validation", splits.validation),
        ("test", splits.test),
    ):
        texts = study.data.splits[rows.split].texts
        line[name] = {
            "text": [texts[place][0] for place in rows.index],
            "label": rows.labels(study.data).tolist(),
        }
    return line


def train(path: Path, threads: int) -> None:
    """Train SetFit on each line of a file and append its scores to the page's files."""
    import torch

    torch.set_num_threads(threads)
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        file = FOLDER / f"setfit-{line['name']}.csv"
        if not file.exists():
            file.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
        with file.open(encoding="utf-8", newline="") as stored:
            done = {row["replicate"] for row in csv.DictReader(stored)}
        if str(line["replicate"]) in done:
            continue
        started = time.perf_counter()
        validation, test = scores(line)
        seconds = round(time.perf_counter() - started, 1)
        row = ("baseline", file.stem, "SetFit", line["replicate"], validation, test, seconds)
        with file.open("a", encoding="utf-8", newline="") as stored:
            csv.writer(stored, lineterminator="\n").writerow([*row, line["rows"]])
        print(line["name"], line["replicate"], test, seconds, flush=True)


def scores(line: dict[str, Any]) -> tuple[float, float]:
    """Return the accuracies of SetFit on the validation and test texts of a line."""
    import datasets
    import setfit  # type: ignore[import-not-found]

    model = setfit.SetFitModel.from_pretrained(line["model"])
    options = {"save_strategy": "no", "report_to": "none", "show_progress_bar": False}
    arguments = setfit.TrainingArguments(seed=line["replicate"], **options)
    data = datasets.Dataset.from_dict(line["train"])
    setfit.Trainer(model=model, args=arguments, train_dataset=data).train()
    found = []
    for name in ("validation", "test"):
        predicted = model.predict(line[name]["text"], use_labels=False).tolist()
        pairs = zip(predicted, line[name]["label"], strict=True)
        found.append(sum(ours == label for ours, label in pairs) / len(predicted))
    return found[0], found[1]


def main() -> None:
    """Write the rows, or train SetFit on them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=Path, help="file of rows to write")
    parser.add_argument("--train", type=Path, help="file of rows to train on")
    parser.add_argument("--data-dir", type=Path, help="folder with the tasks' folders")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("tasks", nargs="*", metavar="TASK-SIZE", help="such as sst2-20")
    options = parser.parse_args()
    if options.rows and not options.tasks:
        parser.error("--rows: needs tasks with a number of examples, such as sst2-20.")
    if options.rows:
        write_rows(options.rows, options.data_dir, options.tasks)
    if options.train:
        train(options.train, options.threads)


if __name__ == "__main__":
    main()
