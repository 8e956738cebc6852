"""Data frames of studies, their files, and tables as papers print.

Rows are configurations, seed runs, winners, values of learning curves, or predictions.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sclsearch.canonical import canonical, one_line, safe_cell, shown
from sclsearch.errors import SclsearchError, lookup
from sclsearch.reports.report import ConfigurationLine, Report
from sclsearch.store.runs import BATCH, SPLITS, RowResults, RunStore, SeedRun
from sclsearch.store.studies import existing_study
from sclsearch.tasks.metrics import METRICS, f1_by_class, value

if TYPE_CHECKING:
    from sclsearch.reports.summary import Summary

TableRows = Literal["configurations", "seed-runs", "winners"]
TableFormat = Literal["csv", "parquet", "json", "md", "latex"]
StoredSeedRun = tuple[ConfigurationLine, int, SeedRun]
"""Line of the configuration, number of the replicate, and seed run."""

STUDY_COLUMNS = ("study", "method", "task", "model", "protocol", "size", "metric")
CONFIGURED = (*STUDY_COLUMNS, "configuration", "origin")
SEED_RUN_COLUMNS = (
    *(*CONFIGURED, "replicate", "validation", "test", "reported", "winner"),
    *("status", "failure", "seconds", "device", "key"),
)
CONFIGURATION_COLUMNS = (
    *(*CONFIGURED, "rule", "score", "test_mean", "test_std", "seeds", "failures", "winner"),
)
TAKEN = frozenset((*SEED_RUN_COLUMNS, *CONFIGURATION_COLUMNS))
CURVE_COLUMNS = (
    *("configuration", "replicate", "key", "stage", "step", "epoch", "kept", "name", "value"),
)
PREDICTION_COLUMNS = ("configuration", "replicate", "key", "split", "row", "predicted")
LAST_STAGE = "final"
MOST = 20
"""Largest number of rows in the HTML of a notebook."""
_SETTINGS = (*STUDY_COLUMNS[1:], "rule")
_MISSING = "–"
LONGEST_CELL = 300
"""Most characters of a cell in Markdown and LaTeX. A label may be longer, a study's name is not."""
_LATEX = str.maketrans(
    {
        **{one: f"\\{one}" for one in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
        **{"±": r"$\pm$", _MISSING: "--"},
    }
)
_MARKDOWN = str.maketrans({**{one: f"\\{one}" for one in "\\|*`"}, "<": "&lt;", "&": "&amp;"})


def seed_run_frame(report: Report) -> pd.DataFrame:
    """Return the rows of `Report.frame`."""
    labels = _labels(report)
    rows = [
        {
            **_configuration(report, line),
            "replicate": replicate,
            **{f"seed_{purpose}": seed for purpose, seed in run.identity["seeds"].items()},
            "validation": run.validated(report.metric),
            "test": run.tested(report.metric),
            **_f1(labels, run),
            "reported": replicate in {line.seeds[place].replicate for place in line.reported},
            "winner": line is report.winner,
            "status": "failed" if run.failure else "finished",
            "failure": str(run.failure) if run.failure else None,
            "seconds": run.seconds,
            "device": run.device,
            "key": run.key,
        }
        for line, replicate, run in stored_seed_runs(report)
    ]
    return pd.DataFrame(rows, columns=None if rows else list(SEED_RUN_COLUMNS))


def configuration_frame(report: Report) -> pd.DataFrame:
    """Return one row per configuration, best first.

    Columns:
        study to origin, and one column per hyperparameter: As in `Report.frame`.
        rule, score: The selection rule and the score under it; missing while seed runs are missing.
        test_mean, test_std: Mean and sample standard deviation of the reported test scores.
        seeds, failures: Numbers of finished and of failed seed runs.
        winner: True for the winner.
    """
    rows = [
        {
            **_configuration(report, line),
            "rule": report.rule,
            "score": line.score,
            "test_mean": line.test_mean,
            "test_std": line.test_std,
            "seeds": line.succeeded,
            "failures": line.failed,
            "winner": line is report.winner,
        }
        for line in report.configurations
    ]
    return pd.DataFrame(rows, columns=None if rows else list(CONFIGURATION_COLUMNS))


def curve_frame(report: Report) -> pd.DataFrame:
    """Return the rows of `Report.curves`."""
    rows = [
        (line.number, replicate, run.key, *point)
        for line, replicate, run in stored_seed_runs(report)
        for point in _curve(run)
    ]
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def prediction_frame(report: Report) -> pd.DataFrame:
    """Return the rows of `Report.predictions`."""
    classes, runs = _labels(report), RunStore(report.storage)
    frames = [pd.DataFrame(columns=list(PREDICTION_COLUMNS))]
    for batch in _batches(report):
        stored = runs.rows([run for _, _, run in batch])
        for (line, replicate, run), rows in zip(batch, stored, strict=True):
            place = {"configuration": line.number, "replicate": replicate, "key": run.key}
            frames += [
                pd.DataFrame({**place, "split": split, **_row_columns(classes, run, rows, split)})
                for split in SPLITS
                if split in run.predictions
            ]
    return pd.concat(frames[1:] or frames, ignore_index=True)


def stored_seed_runs(report: Report) -> Iterator[StoredSeedRun]:
    """Return the stored seed runs of a report by configuration number and replicate."""
    return chain.from_iterable(_batches(report))


def _batches(report: Report) -> Iterator[list[StoredSeedRun]]:
    """Yield the stored seed runs in lists, so that only a few are in memory at a time."""
    existing_study(report.storage, report.study)  # raises if it is gone
    lines = sorted(report.configurations, key=lambda line: line.number)
    seeds = [(line, seed) for line in lines for seed in line.seeds]
    for start in range(0, len(seeds), BATCH):
        batch = seeds[start : start + BATCH]
        stored = RunStore(report.storage).get_all(seed.key for _, seed in batch)
        found = zip(batch, stored, strict=True)
        yield [(line, seed.replicate, run) for (line, seed), run in found if run is not None]


def _labels(report: Report) -> Sequence[str]:
    return [str(label) for label in report.record.origin.get("labels", ())]


def _row_columns(
    classes: Sequence[str], run: SeedRun, rows: RowResults | None, split: str
) -> dict[str, Any]:

    def named(values: Iterable[float]) -> Sequence[str | float]:
        return [classes[int(one)] for one in values] if classes else list(values)

    predicted = run.predictions[split]
    label, probabilities = {}, {}
    if rows is not None and len(rows.labels[split]) == len(predicted):
        label = {"label": named(rows.labels[split])}
        columns = zip(classes, rows.probabilities[split].T, strict=True)
        probabilities = {f"probability_{name}": column for name, column in columns}
    row = {"row": np.arange(len(predicted))}
    return {**row, **label, "predicted": named(predicted), **probabilities}


def _configuration(report: Report, line: ConfigurationLine) -> dict[str, Any]:
    fields = {
        f"hyperparameter_{name}" if name in TAKEN else name: (
            canonical(found) if isinstance(found, list | dict) else found
        )
        for name, found in line.fields.items()
    }
    study = {name: getattr(report, name) for name in STUDY_COLUMNS}
    return {**study, "configuration": line.number, "origin": line.origin, **fields}


def _f1(labels: Sequence[str], run: SeedRun) -> dict[str, float | None]:
    if run.failure or "confusion" not in run.test:
        return {f"f1_{label}": None for label in labels}
    shares = f1_by_class(np.array(run.test["confusion"], np.int64)).tolist()
    return {f"f1_{label}": share for label, share in zip(labels, shares, strict=False)}


def _curve(run: SeedRun) -> Iterator[tuple[str, int, float, bool, str, float]]:
    """Yield stage, step, epoch, kept, name and value of each loss term and validation metric."""
    kept = run.evaluations[run.kept] if run.evaluations else None
    for record in (*run.stages, *run.evaluations):
        place = record.get("stage", LAST_STAGE), record["update"], record["epoch"], record is kept
        for term, loss in record["loss"].items():
            yield *place, f"loss.{term}", loss
        for metric, score in _metrics(record.get("validation", {})).items():
            yield *place, f"validation.{metric}", score


def _metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    if "confusion" not in evaluation:
        return dict(evaluation)
    classes = len(evaluation["confusion"])
    return {
        name: value(name, evaluation)
        for name, metric in METRICS.items()
        if name in evaluation
        or (metric.needs == "classes" and not (metric.binary and classes != 2))
    }


_FRAMES: Mapping[str, Callable[[Report], pd.DataFrame]] = {
    "configurations": configuration_frame,
    "seed-runs": seed_run_frame,
    "winners": lambda report: configuration_frame(report).query("winner"),
}


def study_table(reports: Sequence[Report], rows: TableRows = "configurations") -> pd.DataFrame:
    """Return the rows of one or more studies as one data frame, in the order of the reports."""
    make = lookup(_FRAMES, rows, "rows")
    frames = [make(one) for one in reports]
    # An empty frame lacks the hyperparameters and would move their columns to the end.
    return pd.concat([one for one in frames if len(one)] or frames[:1], ignore_index=True)


def table_file(reports: Sequence[Report], rows: TableRows, form: TableFormat) -> bytes:
    """Return the content of a file with the rows of several studies.

    Markdown and LaTeX show configurations and winners as papers print them, see `paper_table`.
    """
    frame = study_table(reports, rows)
    if form == "csv":
        return as_csv(frame)
    if form == "parquet":
        # Parquet has no columns of several types.
        mixed = [name for name in frame if frame[name].dropna().map(type).nunique() > 1]
        columns = {str(name): frame[name].dropna().map(str) for name in mixed}
        return frame.assign(**columns).to_parquet(index=False)
    if form == "json":
        records = frame.astype(object).where(frame.notna(), None).to_dict("records")
        return f"{json.dumps(records, indent=2, ensure_ascii=False)}\n".encode()
    if frame.empty:
        names = ", ".join(one.study for one in reports)
        raise SclsearchError(f"{names}: has no rows for a table yet. Wait for a seed run.")
    cells = frame.astype(object).map(shown).where(frame.notna(), _MISSING)
    if rows != "seed-runs":
        cells = paper_table(reports, winners=rows == "winners")
    bold = np.zeros(cells.shape, bool)
    bold[:, -1] = frame["winner"] & (rows == "configurations")
    return (markdown if form == "md" else latex)(cells, bold).encode()


def as_csv(frame: pd.DataFrame) -> bytes:
    """Return a table as a CSV file without cells or headings that a spreadsheet computes."""

    def safe(value: object) -> object:
        signed = re.fullmatch(r"[+-]\d+(\.\d+)?", str(value))  # a number
        return value if signed else safe_cell(value)

    return frame.map(safe).rename(columns=safe).to_csv(index=False).encode()


def summary_html(summary: "Summary", cells: pd.DataFrame) -> str:
    """Return a summary as HTML, the answer in bold, and the first rows of a table."""
    first, *rest = map(escape, summary.lines)
    lines = [f"<p><b>{first}</b></p>", *(f"<p>{line}</p>" for line in rest)]
    lines.append(cells.head(MOST).to_html(index=False, border=0))
    if len(cells) > MOST:
        lines.append(f"<p>… and {len(cells) - MOST} more</p>")
    return "\n".join(lines)


def paper_table(reports: Sequence[Report], *, winners: bool = False) -> pd.DataFrame:
    """Return configurations of several studies, or winners, as text cells, best first.

    Columns: the settings in which the studies differ, the configuration's number, the searched
    hyperparameters, finished seeds, validation score, and mean and standard deviation of the
    reported test scores. Scores are in points (hundredths) with one decimal.
    """
    names = _unequal(reports)
    if len({tuple(getattr(one, name) for name in names) for one in reports}) < len(reports):
        names = ["study", *names]
    lines = [
        (one, line)
        for one in reports
        for line in one.configurations
        if not winners or line is one.winner
    ]
    searched = dict.fromkeys(name for _, line in lines for name in line.values)
    of_metric = "" if "metric" in names else f" {reports[0].metric}"
    return pd.DataFrame(
        [
            {
                **{name: str(getattr(one, name) or _MISSING) for name in names},
                "#": str(line.number),
                **{name: shown(line.values.get(name, _MISSING)) for name in searched},
                "seeds": f"{line.succeeded}/{one.seeds}",
                f"validation{of_metric}": score_in_points(line.score),
                f"{reports[0].tested_on}{of_metric}": _test_points(line),
            }
            for one, line in lines
        ]
    )


def _unequal(reports: Sequence[Report]) -> list[str]:
    return [name for name in _SETTINGS if len({getattr(one, name) for one in reports}) > 1]


def score_in_points(mean: float | None, std: float | None = None) -> str:
    """Return a score in points as papers print it, such as `62.6 ± 2.3`."""
    if mean is None:
        return _MISSING
    return f"{100 * mean:.1f}" + ("" if std is None else f" ± {100 * std:.1f}")


def _test_points(line: ConfigurationLine) -> str:
    return score_in_points(None if line.score is None else line.test_mean, line.test_std)


def markdown(cells: pd.DataFrame, bold: ArrayLike) -> str:
    """Return a table in Markdown; `bold` is True for each cell to print in bold, by rows."""
    found = _escaped(cells, bold, _MARKDOWN, "**{}**")
    lines = [[*found], ["---"] * found.shape[1], *found.to_numpy().tolist()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(cells: pd.DataFrame, bold: ArrayLike) -> str:
    """Return a table in LaTeX, which needs the package `booktabs`."""
    # pandas' own escapes leave `<`, `>` and `|`, which fonts of seven bits print as other signs.
    style = _escaped(cells, bold, _LATEX, r"\textbf{{{}}}").style.hide(axis="index")
    return style.to_latex(hrules=True, column_format="l" * cells.shape[1])


def _escaped(
    cells: pd.DataFrame, bold: ArrayLike, special: Mapping[int, str], emphasis: str
) -> pd.DataFrame:

    def escaped(text: object) -> str:
        return one_line(str(text), LONGEST_CELL).translate(special)

    found = cells.map(escaped).set_axis([escaped(name) for name in cells], axis=1)
    return found.mask(np.asarray(bold, bool), found.map(emphasis.format))
