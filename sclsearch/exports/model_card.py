"""Model card of an exported classifier (README.md); its words are in `model_card.md.jinja`."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import counted, one_line, settings
from sclsearch.encoders.models import ALIASES, ENCODER
from sclsearch.exports.calibration import calibration_lines
from sclsearch.exports.loading import loading
from sclsearch.exports.predictor import CARD_FILE, ExportRecord
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.comparison import ConfirmedScore, confirmed_score
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner
from sclsearch.reports.summary import summarize
from sclsearch.reports.words import (
    order_of,
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

TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
MOST_CONFIGURATIONS = 50
HUB_METRICS = {
    "mcc": "matthews_correlation",
    "macro_f1": "f1",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
"""Names of metrics on the hub, where they differ from ours."""


def write_model_card(folder: Path, record: ExportRecord, found: Report, base_folder: Path) -> None:
    """Write the model card of an export to its folder.

    `base_folder` has the encoder before fine-tuning; its card may name a license.
    """
    from jinja2 import Environment, StrictUndefined

    from sclsearch.exports.refit import linear_baseline

    winner, fresh = finished_winner(found), confirmed_score(found)
    if record.baseline:
        winner, fresh, found = linear_baseline(found), None, replace(found, estimate=None)
    run = RunStore(found.storage).get(record.key)
    license_ = _license(record.base, base_folder)
    record = replace(record, task=_escaped(record.task))
    summary, space = summarize(found, fresh), found.record.identity["space"]
    exported = {int(name.rpartition("-")[2]) for name in record.members} or {record.replicate}
    counts = np.array(run.test["confusion"], float) if run and "confusion" in run.test else None
    cards = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    cards.filters |= {"counted": counted, "score": _score, "text": _escaped, "code": _code}
    words = (values_of, test_result, with_spread)
    text = cards.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        {function.__name__: function for function in words},
        card_data=_card_data(record, found, winner, fresh, license_),
        base=_hub_name(record.base) or Path(record.base).name,
        license=license_,
        record=record,
        found=found,
        metric=found.metric,
        on=found.tested_on,
        winner=winner,
        fresh=fresh,
        exported=set() if record.refit else exported,
        summary=[one for one in (summary.answer, summary.certainty) if one],
        loading=loading(folder.name, record),
        training_rows=(found.record.origin.get("training_rows") or [None])[0],
        counted=run.counted if run else {},
        labels=[_code(one_line(label)) for label in record.labels],
        no_test_rows=NO_TEST_ROWS,
        rule=rule_of(found),
        space={one["name"]: searched_values(one) for one in space["parameters"]},
        fixed=_fixed(found),
        most=MOST_CONFIGURATIONS,
        order=order_of(found),
        race=race_statement(found),
        classes=[] if record.baseline or counts is None else _classes(record, counts),
        sampling=_sampling(winner, counts) if found.metric == "accuracy" else None,
        further=[*calibration_lines(record), *record.onnx_lines],
        versions="" if run is None else _versions(run),
        fields=json.dumps(record.fields, indent=2, ensure_ascii=False),
    )
    (folder / CARD_FILE).write_text(text, encoding="utf-8")


def _fixed(found: Report) -> dict[str, str]:
    """Return the hyperparameters that the space fixes, and those set by hand, as text."""
    every = (found.record.identity["space"].get("fixed") or {}).items()
    fixed = {name: value for name, value in every if name not in found.settings}
    return {"Fixed by the space": settings(fixed), "Set by hand": settings(found.settings)}


def _versions(run: SeedRun) -> str:
    """Return the packages that trained a seed run, and the commit, with their versions."""
    environment = run.environment
    packages = {**environment.get("packages", {}), "commit": environment.get("commit")}
    return ", ".join(f"{name} {version}" for name, version in packages.items() if version)


def _escaped(text: str) -> str:
    """Return a text without Markdown and HTML, and without the folders of paths."""
    text = re.sub(r"(?<![\w/:.])~?/(?:[^\s/]+/)+", "", one_line(text, 10_000))
    return re.sub(r"[\\`*\[\]<>|&]", r"\\\g<0>", text)


def _code(text: str) -> str:
    """Return a text of one line as code."""
    return f"`{one_line(text, 10_000).replace('`', chr(39))}`"


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _card_data(
    record: ExportRecord,
    found: Report,
    winner: ConfigurationLine,
    fresh: ConfirmedScore | None,
    license_: str | None,
) -> "ModelCardData":
    from huggingface_hub import EvalResult, ModelCardData

    test, source = record.mean_test, f"mean of {counted(winner.succeeded, 'seed')}"
    if record.refit:
        source += " of the search"
    if found.estimate is not None:
        test, source = found.estimate.score, "estimate from folds, corrected for the choice"
    elif fresh is not None:
        test, source = fresh.mean, f"mean of {counted(fresh.seeds, 'new seed')}"
    result = EvalResult(
        task_type="text-classification",
        dataset_type=record.task,
        dataset_name=record.task,
        dataset_split="test" if found.tests_apart else "validation",
        metric_type=HUB_METRICS.get(record.metric, record.metric),
        metric_name=f"{record.metric}, {source}",
        metric_value=test and round(test, 6),
    )
    return ModelCardData(
        license=license_,
        library_name=record.format.partition("-")[0],
        base_model=_hub_name(record.base),
        pipeline_tag="text-classification",
        tags=["sclsearch", record.method, *(["ensemble"] if record.members else [])],
        model_name=f"{record.method}-{record.task}",
        eval_results=[result] if test is not None else None,
    )


def _hub_name(base: str) -> str | None:
    if base in ALIASES:
        return ALIASES[base].hub
    folder = Path(base).expanduser()
    return base if base.count("/") == 1 and base[0].isalnum() and not folder.is_dir() else None


def _license(base: str, folder: Path) -> str | None:
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    card, found = folder / CARD_FILE, None
    if folder.name == ENCODER and not card.is_file():
        card = folder.parent / CARD_FILE
    with suppress(OSError, ValueError, YAMLError):
        found = ModelCard.load(card, ignore_metadata_errors=True).data.to_dict().get("license")
    if found:
        return str(found)
    return ALIASES[base].license if base in ALIASES else None


def _classes(record: ExportRecord, counts: Any) -> list[tuple[str, Any, str]]:
    """Return label, precision, recall and F1, and number of test rows of each class."""
    scores = zip(record.labels, scores_by_class(counts).tolist(), counts.sum(1), strict=True)
    return [(one_line(label), of_class, f"{rows:g}") for label, of_class, rows in scores]


def _sampling(winner: ConfigurationLine, counts: Any) -> tuple[int, float] | None:
    """Return the number of test rows, and half the 95 % interval of an accuracy in points.

    The interval of a share of n rows is that of Agresti and Coull (1998).
    """
    if counts is None or winner.plain is None:
        return None
    rows = int(counts.sum())
    share = (winner.plain[0] * rows + 2) / (rows + 4)
    return rows, 196 * (share * (1 - share) / (rows + 4)) ** 0.5
