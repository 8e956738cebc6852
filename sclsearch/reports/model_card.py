"""Model card of an exported classifier (README.md): data, search, scores, limits, and loading."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted, one_line, settings
from sclsearch.encoders.models import ALIASES, ENCODER
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.calibration import calibration_lines
from sclsearch.reports.commands import loading_examples, loading_note
from sclsearch.reports.comparison import ConfirmedScore, confirmed_score
from sclsearch.reports.comparison_tables import baseline_comparison
from sclsearch.reports.estimate import Estimate
from sclsearch.reports.predictor import CARD_FILE, ExportRecord
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner
from sclsearch.reports.summary import summarize
from sclsearch.reports.words import (
    race_statement,
    rule_of,
    test_result,
    values_of,
    with_spread,
)
from sclsearch.spaces.space import searched_values
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.tasks.metrics import scores_by_class

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

MOST_CONFIGURATIONS = 50
PRIVATE = ("--storage", "--data-dir", "--paraphrases")
"""Options of the next command whose values are folders and files of this machine."""
HUB_METRICS = {
    "mcc": "matthews_correlation",
    "macro_f1": "f1",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
"""Names of metrics on the hub, where they differ from ours."""

TEMPLATE = """\
{% macro table(headings, rows) %}| {{ headings | join(" | ") }} |
|{{ "---|" * headings | length }}
{% for row in rows %}| {{ row | join(" | ") }} |
{% endfor %}{% endmacro %}---
{{ card_data }}
---

# {{ record.method }} on {{ record.task }}

{{ introduction }}

{{ summary_quote }}

## Use

Intended use: classification of texts like those of {{ record.task }}. The score is that of the test
rows below. It is not a score on other sources, languages or times, and it says nothing about single
texts: look at examples of yours before you rely on it.

## Load it

{% for heading, code in loading %}{{ heading }}

```python
{{ code }}
```

{% endfor %}{{ loading_note }}

## Data

{% for name, text in data %}- {{ name }}: {{ text }}
{% endfor %}{% if not record.baseline %}
## Search

Rule `{{ record.rule }}`: a configuration's score is its validation {{ record.metric }}, {{ rule }}.
{{ choice }}

{% if not space %}No hyperparameter was searched.

{% else %}{% if found.space_note %}Search space: {{ found.space_note }}.

{% endif %}{{ table(["searched hyperparameter", "values"], space) }}
{% for by, values in fixed.items() if values %}{{ by }}: `{{ values }}`.

{% endfor %}{% endif %}{{ tried }} tried, best first:

{{ table(["#", "validation " ~ record.metric, "test " ~ record.metric, "seeds", "configuration"],
configurations) }}
{% if more > 0 %}{{ more }} more configurations are not shown.

{% endif %}{{ race }}
{% endif %}
## Results

{% if not record.baseline %}Winner: configuration {{ winner.number }}, `{{ values }}`.

{% endif %}{{ table(["seed", "validation " ~ record.metric, "test " ~ record.metric], seeds) }}
{% if classes %}{{ table(["class", "precision", "recall", "F1", "test rows"], classes) }}
{% endif %}{% for line in summary %}- {{ line }}
{% endfor %}
{% if comparison %}{{ comparison }}

{% endif %}{{ training }}

All hyperparameters:

```json
{{ fields }}
```

## Limits

{% for limit in limits %}- {{ limit }}
{% endfor %}"""


def write_model_card(
    folder: Path,
    record: ExportRecord,
    found: Report,
    base_folder: Path,
) -> None:
    """Write the model card of an export to its folder.

    `base_folder` has the encoder before fine-tuning; its card may name a license.
    """
    from huggingface_hub import ModelCard

    from sclsearch.reports.refit import linear_baseline

    winner, fresh = finished_winner(found), confirmed_score(found)
    if record.baseline:
        winner, fresh, found = linear_baseline(found), None, replace(found, estimate=None)
    run = RunStore(found.storage).get(record.key)
    license_ = _license(record.base, base_folder)
    task = re.sub(r"[\\`*\[\]<>|&]", r"\\\g<0>", one_line(record.task))  # no Markdown, no HTML
    record = replace(record, task=task)
    space = found.record.identity["space"]
    fixed = (space.get("fixed") or {}).items()
    card = ModelCard.from_template(
        _card_data(record, winner, fresh, license_, found.estimate),
        template_str=TEMPLATE,
        record=record,
        found=found,
        summary_quote=_summary_quote(found, fresh),
        introduction=_introduction(record, winner),
        loading=list(loading_examples(folder.name, record)),
        loading_note=loading_note(folder.name, record),
        data=list(_data(record, found, run)),
        rule=rule_of(found),
        choice=found.choice if found.has_test else f"There are {NO_TEST_ROWS}.",
        space=[(one["name"], searched_values(one)) for one in space["parameters"]],
        fixed={
            "Fixed by the space": settings({n: v for n, v in fixed if n not in found.settings}),
            "Set by hand": settings(found.settings),
        },
        tried=counted(len(found.configurations), "configuration"),
        configurations=[
            (
                line.number,
                "–" if line.score is None else f"{line.score:.4f}",
                test_result(line),
                f"{line.succeeded}/{found.seeds}",
                f"`{values_of(found, line)}`",
            )
            for line in found.configurations[:MOST_CONFIGURATIONS]
        ],
        more=len(found.configurations) - MOST_CONFIGURATIONS,
        race=race_statement(found),
        winner=winner,
        values=values_of(found, winner),
        seeds=list(_seeds(record, winner)),
        classes=list(_classes(record, run)),
        summary=[
            *_summary(found, winner, fresh, run),
            *calibration_lines(record),
            *record.onnx_lines,
        ],
        comparison="" if record.baseline else baseline_comparison(found),
        training=_training(record, run),
        fields=json.dumps(record.fields, indent=2, ensure_ascii=False),
        limits=list(_limits(record, found, license_)),
    )
    (folder / CARD_FILE).write_text(str(card).rstrip() + "\n", encoding="utf-8")


def _summary_quote(found: Report, fresh: ConfirmedScore | None) -> str:
    """Return the summary as a quote, without folders of this machine."""
    summary = summarize(found, fresh)
    words, public = iter(shlex.split(summary.command)), list[str]()
    for word in words:
        if word in PRIVATE:
            next(words)
        else:
            public.append(Path(word).name if Path(word).is_absolute() else word)
    lines = replace(summary, command=shlex.join(public)).lines
    return "> " + "  \n> ".join(lines)


def _card_data(
    record: ExportRecord,
    winner: ConfigurationLine,
    fresh: ConfirmedScore | None,
    license_: str | None,
    estimate: Estimate | None,
) -> "ModelCardData":
    from huggingface_hub import EvalResult, ModelCardData

    test, source = record.mean_test, f"mean of {counted(winner.succeeded, 'seed')}"
    if record.refit:
        source += " of the search"
    if estimate is not None:
        test, source = estimate.score, "estimate from folds, corrected for the choice"
    elif fresh is not None:
        test, source = fresh.mean, f"mean of {counted(fresh.seeds, 'new seed')}"
    results = [
        EvalResult(
            task_type="text-classification",
            dataset_type=record.task,
            dataset_name=record.task,
            dataset_split="test",
            metric_type=HUB_METRICS.get(record.metric, record.metric),
            metric_name=f"{record.metric}, {source}",
            metric_value=test and round(test, 6),
        )
    ]
    return ModelCardData(
        license=license_,
        library_name=record.format.partition("-")[0],
        base_model=_hub_name(record.base),
        pipeline_tag="text-classification",
        tags=["sclsearch", record.method, *(["ensemble"] if record.members else [])],
        model_name=f"{record.method}-{record.task}",
        eval_results=results if test is not None else None,
    )


def _hub_name(base: str) -> str | None:
    if base in ALIASES:
        return ALIASES[base].hub
    folder = Path(base).expanduser()
    return base if base.count("/") == 1 and base[0].isalnum() and not folder.is_dir() else None


def _license(base: str, folder: Path) -> str | None:
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    own = folder / CARD_FILE
    known = ALIASES[base].license if base in ALIASES else None
    if not own.is_file():
        own = folder.parent / CARD_FILE if folder.name == ENCODER else own
    try:
        found = ModelCard.load(own, ignore_metadata_errors=True).data.to_dict().get("license")
    except (OSError, ValueError, YAMLError):
        return known
    return str(found) if found else known


def _introduction(record: ExportRecord, winner: ConfigurationLine) -> str:
    base = _hub_name(record.base) or Path(record.base).name
    text = (
        f"{base} fine-tuned by `{record.method}` on {record.task}. The configuration is the winner "
        "of a hyperparameter search with sclsearch."
    )
    if record.baseline:
        text = (
            f"{base}, not fine-tuned, and {winner.origin} for {record.task}. It reads the mean "
            "over the tokens and is a baseline of a hyperparameter search with sclsearch."
        )
    if record.refit is None:
        return text
    each = f"Each of its {len(record.members)} models was" if record.members else "It was"
    return (
        f"{text}\n\n{each} trained after the search on {record.refit}. All scores below are those "
        "of the search: they estimate the score of this model, which itself was not tested."
    )


def _data(record: ExportRecord, found: Report, run: SeedRun | None) -> Iterator[tuple[str, str]]:
    yield "task", f"{record.task}, protocol {record.protocol}"
    rows = (found.record.origin.get("training_rows") or [None])[0]
    if record.refit is None and rows is not None:
        yield "training rows", str(rows)
    for kind, evaluation in (run.counted if run else {}).items():
        if "confusion" in evaluation:
            yield f"{kind} rows", str(sum(map(sum, evaluation["confusion"])))
    labels = ", ".join(f"`{one_line(label).replace('`', chr(39))}`" for label in record.labels)
    yield "labels", labels or "a score (regression)"
    yield "SHA-256 of texts and labels", f"`{found.data}`"
    for kind in found.rows[0] if found.rows else ():
        hashes = list(dict.fromkeys(rows[kind] for rows in found.rows))
        which = "the same in all seeds" if len(hashes) == 1 else "in the order of the seeds"
        short = ", ".join(f"`{one[:12]}`" for one in hashes)
        yield f"SHA-256 of the {kind} rows, {which}", short


def _seeds(record: ExportRecord, winner: ConfigurationLine) -> Iterator[tuple[str, ...]]:
    members = {int(name.rpartition("-")[2]) for name in record.members} or {record.replicate}
    for seed in winner.seeds:
        exported = " (exported)" if seed.replicate in members and not record.refit else ""
        name = f"{seed.replicate}{exported}"
        if seed.failure is not None:
            yield name, "failed", "failed"
        else:
            test = "–" if seed.test is None else f"{seed.test:.4f}"
            yield name, f"{seed.validation:.4f}", test


def _classes(record: ExportRecord, run: SeedRun | None) -> Iterator[tuple[str, ...]]:
    """Yield the test scores of each class of the seed run that the export describes."""
    if record.baseline or run is None or "confusion" not in run.test:
        return
    counts = np.array(run.test["confusion"], float)
    scores = zip(record.labels, scores_by_class(counts), counts.sum(1), strict=True)
    for label, of_class, rows in scores:
        yield f"`{one_line(label)}`", *(f"{score:.4f}" for score in of_class), f"{rows:g}"


def _sampling_error(metric: str, accuracy: float, run: SeedRun | None) -> str:
    """Return a sentence with the 95 % interval on other test rows; empty but for accuracy.

    The interval of a share of n rows is that of Agresti and Coull (1998).
    """
    if metric != "accuracy" or run is None or "confusion" not in run.test:
        return ""
    rows = sum(map(sum, run.test["confusion"]))
    share = (accuracy * rows + 2) / (rows + 4)
    points = 196 * (share * (1 - share) / (rows + 4)) ** 0.5
    return (
        f" The ± is over seeds. With other test rows than these {rows}, the score may differ by "
        f"{points:.0f} points (95 %)."
    )


def _summary(
    found: Report, winner: ConfigurationLine, fresh: ConfirmedScore | None, run: SeedRun | None
) -> Iterator[str]:
    test = f"Test {found.metric}"
    yield f"Validation {found.metric} {winner.score:.4f}, {rule_of(found)}."
    if winner.plain and len(winner.reported) < winner.succeeded:
        reported = counted(len(winner.reported), "reported seed")
        yield f"{test} {test_result(winner)} over the {reported}."
    if found.estimate is not None:
        yield f"Estimated {found.metric} on new texts: {found.estimate}. Report this number."
    if winner.plain:
        quote = ": report this number" if fresh is None and found.estimate is None else ""
        error = "" if found.estimate else _sampling_error(found.metric, winner.plain[0], run)
        yield (
            f"{test} {with_spread(*winner.plain)} over all {counted(winner.succeeded, 'seed')}"
            f"{quote}.{error}"
        )
    if fresh is not None:
        rows = "new initial weights and orders, but rows that also chose the winner"
        use = rows if fresh.same_rows else "not used to choose the winner"
        yield (
            f"{test} {with_spread(fresh.mean, fresh.std)} over "
            f"{counted(fresh.seeds, 'new seed')}: {use}."
            f"{' Report this number.' if found.estimate is None else ''}"
        )
    for line in found.baselines:
        if line.plain:
            yield (
                f"Baseline, {line.origin}: test {found.metric} {with_spread(*line.plain)} over "
                f"{counted(len(line.seeds), 'seed')}."
            )


def _limits(record: ExportRecord, found: Report, license_: str | None) -> Iterator[str]:
    length = record.fields.get("max_length")
    yield f"Texts are truncated to {length} tokens, as in training."
    if record.refit:
        yield "The scores were not measured on this model, but on seed runs with fewer rows."
    elif not record.members:
        yield (
            "The weights are those of the seed with the best validation score, so its validation "
            "score is optimistic."
        )
    yield (
        "The scores hold for rows like those of the task. Other domains and languages, and biases "
        "of the encoder or the data, were not examined."
    )
    yield f"License of the base model: {license_ or 'unknown'}."
    # The messages about damaged files have the paths of this machine.
    hidden = {"damage", "doubt"} if record.baseline else {"damage"}
    for note in found.notes:
        if note.kind not in hidden:
            yield f"{note.text[0].upper()}{note.text[1:].rstrip('.')}."


def _training(record: ExportRecord, run: SeedRun | None) -> str:
    if record.baseline:
        return f"Fitted by scikit-learn; scores of study `{record.study}`."
    if record.refit:
        return f"Trained after study `{record.study}`, on {record.refit}."
    environment = {} if run is None else run.environment
    packages = {**environment.get("packages", {}), "commit": environment.get("commit")}
    versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    return f"Seed run `{record.key[:12]}` of study `{record.study}`" + (
        f", trained with {versions}." if versions else "."
    )
