"""Model card of an export: the file README.md, with the evidence behind the winner.

The card names data, search space, every configuration and seed, and how to load the classifier.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import counted, settings, shown
from sclsearch.encoders.models import ALIASES, ENCODER
from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import ComparedStudy, compare_studies
from sclsearch.reports.export_record import ExportRecord
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner, report
from sclsearch.reports.terminal import rule_in_words, with_spread
from sclsearch.store.records import StudyRecord
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore, study_names

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

CARD_FILE = "README.md"
BASELINE = "ce"
MOST_CONFIGURATIONS = 50
HUB_METRICS = {
    "mcc": "matthews_correlation",
    "macro_f1": "f1",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
"""Names of metrics on the hub, where they differ from ours."""

TEMPLATE = """\
---
{{ card_data }}
---

# {{ record.method }} on {{ record.task }}

{{ base }} fine-tuned by `{{ record.method }}` on {{ record.task }}. The configuration is the winner
of a hyperparameter search with sclsearch.

## Load it

{% for heading, code in loading %}{{ heading }}

```python
{{ code }}
```

{% endfor %}{{ elsewhere }}

## Data

{% for name, text in data %}- {{ name }}: {{ text }}
{% endfor %}
## Search

Rule `{{ record.rule }}`: a configuration's score is the validation {{ record.metric }},
{{ rule }}. The test rows played no part in the choice.

{{ space }}

{{ configurations }}

{{ race }}

## Results

Winner: configuration {{ winner.number }}, `{{ values }}`.

| seed | validation {{ record.metric }} | test {{ record.metric }} | exported |
|---|---|---|---|
{% for row in seeds %}| {{ row | join(" | ") }} |
{% endfor %}
{{ summary }}

{{ comparison }}

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
    study: StudyRecord,
    storage: Storage,
    begun: Path,
) -> None:
    """Write the model card of an export.

    Args:
        folder: Folder of the export; its name appears in the examples.
        record: Description of the export.
        found: Report of the study.
        study: Record of the study.
        storage: Storage of the study, in which a study of the baseline `ce` is looked up.
        begun: Folder of the encoder that was fine-tuned; its card may name a license.
    """
    from huggingface_hub import ModelCard

    winner = finished_winner(found)
    license_ = _license(record.base, begun)
    card = ModelCard.from_template(
        _card_data(record, winner, license_),
        template_str=TEMPLATE,
        record=record,
        base=_hub_name(record.base) or Path(record.base).name,
        loading=list(_loading(folder.name, record)),
        elsewhere=_elsewhere(folder.name, record),
        data=list(_data(record, found, study, winner, storage)),
        rule=rule_in_words(found.rule.partition("/")[0], found.seeds),
        space=_space(study),
        configurations=_configurations(found),
        race=_race(found),
        winner=winner,
        values=settings(winner.values) or "defaults",
        seeds=list(_seeds(record, winner)),
        summary=_summary(found, winner),
        comparison=_comparison(found, study, storage),
        fields=json.dumps(record.fields, indent=2, ensure_ascii=False),
        limits=list(_limits(record, found, license_)),
    )
    (folder / CARD_FILE).write_text(str(card).rstrip() + "\n", encoding="utf-8")


def _card_data(
    record: ExportRecord, winner: ConfigurationLine, license_: str | None
) -> "ModelCardData":
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="text-classification",
            dataset_type=record.task,
            dataset_name=record.task,
            dataset_split="test",
            metric_type=HUB_METRICS.get(record.metric, record.metric),
            metric_name=f"{record.metric}, mean of {counted(len(winner.seeds), 'seed')}",
            metric_value=record.mean_test,
        )
    ]
    return ModelCardData(
        license=license_,
        library_name=record.format,
        base_model=_hub_name(record.base),
        pipeline_tag="text-classification",
        tags=["sclsearch", record.method, *(["ensemble"] if record.members else [])],
        model_name=f"{record.method}-{record.task}",
        eval_results=results if record.mean_test is not None else None,
    )


def _hub_name(base: str) -> str | None:
    """Return the name of an encoder on the hub; None for a folder."""
    if base in ALIASES:
        return ALIASES[base].hub
    folder = Path(base).expanduser()
    return base if base.count("/") == 1 and base[0].isalnum() and not folder.is_dir() else None


def _license(base: str, begun: Path) -> str | None:
    """Return the license in the encoder's own card, or that of a known encoder; else None."""
    from huggingface_hub import ModelCard

    own = begun / CARD_FILE
    known = ALIASES[base].license if base in ALIASES else None
    if not own.is_file():
        own = begun.parent / CARD_FILE if begun.name == ENCODER else own
    try:
        found = ModelCard.load(own, ignore_metadata_errors=True).data.to_dict().get("license")
    except (OSError, ValueError):
        return known
    return str(found) if found else known


def _loading(name: str, record: ExportRecord) -> Iterator[tuple[str, str]]:
    """Yield a heading and Python code for each way to load the classifier, the main one first."""
    texts = '[("A fine film.", "A good film.")]' if record.pair else '["A fine film."]'
    call = f"classifier.predict({texts})"
    yield (
        "With sclsearch:",
        f'import sclsearch\n\nclassifier = sclsearch.load("{name}"{_own_method(record)})\n'
        f"print({call})",
    )
    if record.members:
        return
    if record.format == "transformers":
        texts = '{"text": "A fine film.", "text_pair": "A good film."}' if record.pair else texts
        yield (
            "With transformers alone, with the same predictions:",
            "from transformers import pipeline\n\n"
            f'classifier = pipeline("text-classification", model="{name}")\n'
            f"print(classifier({texts}, truncation=True))",
        )
        return
    if record.format == "sentence-transformers" and not record.pair:
        yield (
            "With sentence-transformers, whose `encode` returns the class scores, in the order of "
            "the labels:",
            "from sentence_transformers import SentenceTransformer\n\n"
            f'classifier = SentenceTransformer("{name}")\nprint(classifier.encode({texts}))',
        )
    yield (
        "The fine-tuned encoder alone:",
        "from transformers import AutoModel, AutoTokenizer\n\n"
        f'encoder = AutoModel.from_pretrained("{name}", subfolder="{ENCODER}")\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{name}", subfolder="{ENCODER}")',
    )


def _own_method(record: ExportRecord) -> str:
    name = Path(record.place.rpartition(":")[0]).name
    return f', method="{name}:{record.method}"' if record.method_digest else ""


def _elsewhere(name: str, record: ExportRecord) -> str:
    predict = f"On the command line: `sclsearch predict {name} FILE`."
    if record.format == "transformers" and not record.members:
        return predict
    why = "averages several models" if record.members else "has a head that transformers lacks"
    return (
        f"{predict} `AutoModelForSequenceClassification` cannot load this folder, because the "
        f"classifier {why}."
    )


def _data(
    record: ExportRecord,
    found: Report,
    study: StudyRecord,
    winner: ConfigurationLine,
    storage: Storage,
) -> Iterator[tuple[str, str]]:
    size = record.size or "all"
    yield "task", f"{record.task}, protocol {record.protocol}"
    yield "training rows", f"{size} of the training split" if record.size else "all that it has"
    run = RunStore(storage).get(winner.seeds[winner.reported[0]].key)
    for kind, evaluation in (
        ("validation", run.validation if run else None),
        ("test", run.test if run else None),
    ):
        if evaluation and "confusion" in evaluation:
            yield f"{kind} rows", str(sum(map(sum, evaluation["confusion"])))
    if record.labels:
        yield "labels", ", ".join(f"`{label}`" for label in record.labels)
    else:
        yield "labels", "a score (regression)"
    yield "SHA-256 of texts and labels", f"`{found.data}`"
    for kind in found.rows[0] if found.rows else ():
        hashes = list(dict.fromkeys(rows[kind] for rows in found.rows))
        which = "the same in all seeds" if len(hashes) == 1 else "in the order of the seeds"
        short = ", ".join(f"`{one[:12]}`" for one in hashes)
        yield f"SHA-256 of the {kind} rows, {which}", short
    if notes := study.origin.get("notes"):
        yield "notes", "; ".join(notes)


def _space(study: StudyRecord) -> str:
    space = study.identity["space"]
    rows = [f"| {one['name']} | {_range(one)} |" for one in space["parameters"]]
    if not rows:
        return "No hyperparameter was searched."
    fixed = settings(space.get("fixed") or {})
    note = f"\n\nFixed by the space: `{fixed}`." if fixed else ""
    head = "| searched hyperparameter | values |\n|---|---|\n"
    return f"{head}{chr(10).join(rows)}{note}"


def _range(parameter: Mapping[str, Any]) -> str:
    condition = parameter.get("when")
    only = f", if {settings(condition)}" if condition else ""
    if parameter["type"] == "choice":
        return ", ".join(map(shown, parameter["values"])) + only
    scale = " (log scale)" if parameter["type"] == "log" else ""
    return f"{shown(parameter['low'])} to {shown(parameter['high'])}{scale}{only}"


def _configurations(found: Report) -> str:
    """Return the table of the configurations tried, best first."""
    lines = [
        f"| {line.number} | {'–' if line.score is None else f'{line.score:.4f}'} | "
        f"{_test(line)} | {len(line.seeds) - line.failed}/{found.seeds} | "
        f"`{settings(line.values) or 'defaults'}` |"
        for line in found.configurations[:MOST_CONFIGURATIONS]
    ]
    more = len(found.configurations) - MOST_CONFIGURATIONS
    rest = f"\n\n{more} more configurations are not shown." if more > 0 else ""
    return (
        f"{counted(len(found.configurations), 'configuration')} tried, best first:\n\n"
        f"| # | validation {found.metric} | test {found.metric} | seeds | configuration |\n"
        f"|---|---|---|---|---|\n{chr(10).join(lines)}{rest}"
    )


def _test(line: ConfigurationLine) -> str:
    return "–" if line.test_mean is None else with_spread(line.test_mean, line.test_std)


def _race(found: Report) -> str:
    missing = sum(line.score is None for line in found.configurations)
    if not missing:
        return "Every configuration has all its seeds."
    return (
        f"{missing} of {len(found.configurations)} configurations lack seeds. The probability that "
        f"one of them would win with all seeds is about {found.risk:.2g}."
    )


def _seeds(record: ExportRecord, winner: ConfigurationLine) -> Iterator[tuple[str, ...]]:
    members = {int(name.rpartition("-")[2]) for name in record.members} or {record.replicate}
    for seed in winner.seeds:
        if seed.failure is not None:
            yield str(seed.replicate), "failed", "failed", ""
        else:
            exported = "yes" if seed.replicate in members else ""
            yield str(seed.replicate), f"{seed.validation:.4f}", f"{seed.test:.4f}", exported


def _summary(found: Report, winner: ConfigurationLine) -> str:
    lines = [
        f"- Validation {found.metric} {winner.score:.4f} by the rule.",
        f"- Test {found.metric} {_test(winner)} over the {len(winner.reported)} reported seeds.",
    ]
    if winner.plain:
        every = counted(len(winner.seeds) - winner.failed, "seed")
        lines.append(
            f"- Test {found.metric} {with_spread(*winner.plain)} over {every}, none picked: quote "
            "this."
        )
    lines += [
        f"- Baseline, {line.origin}: test {found.metric} {_test(line)}." for line in found.baselines
    ]
    return "\n".join(lines)


def _comparison(found: Report, study: StudyRecord, storage: Storage) -> str:
    """Return the comparison with a finished study of cross-entropy alone, if there is one."""
    if found.method == BASELINE:
        return ""
    for name in study_names(storage):
        other = _baseline(found, study, storage, name)
        if other is not None:
            return _compared(other)
    return (
        f"The storage has no finished study of `{BASELINE}` (cross-entropy alone) for this task, "
        "size, model and protocol to compare with."
    )


def _baseline(
    found: Report, study: StudyRecord, storage: Storage, name: str
) -> tuple[ComparedStudy, ComparedStudy] | None:
    """Return the winners of a study of the baseline and of ours, or None if they do not match."""
    try:
        record = StudyStore(storage, name).record()
        if record is None or record.training["method"] != BASELINE or record.repeats:
            return None
        same = ("task", "size", "model", "protocol")
        if any(record.identity[key] != study.identity[key] for key in same):
            return None
        first, second = compare_studies([report(storage, name), found]).studies
    except SclsearchError:  # unfinished, damaged, or of other rows
        return None
    return first, second


def _compared(winners: tuple[ComparedStudy, ComparedStudy]) -> str:
    base, own = winners
    if own.comparison is None:
        return ""
    found = own.comparison
    interval = ""
    if found.interval is not None:
        low, high = (f"{100 * bound:+.1f}" for bound in found.interval)
        interval = f" (95 % interval {low} to {high})"
    return (
        f"Against `{base.method}` (study `{base.study}`, test "
        f"{with_spread(base.test_mean, base.test_std)}): {100 * found.difference:+.1f} points"
        f"{interval} over {counted(found.n, 'paired seed')}, p = {found.p:.3f} by Wilcoxon's "
        "signed ranks."
    )


def _limits(record: ExportRecord, found: Report, license_: str | None) -> Iterator[str]:
    length = record.fields.get("max_length")
    yield f"Texts are truncated to {length} tokens, as in training."
    if not record.members:
        yield (
            "The weights are those of the seed with the best validation score; its own scores are "
            "higher than those of a new training. Quote the mean over all seeds."
        )
    yield (
        "The scores hold for rows like those of the task. Other domains and languages, and biases "
        "of the encoder or the data, were not examined."
    )
    yield f"License of the base model: {license_ or 'unknown'}."
    yield from found.notes
