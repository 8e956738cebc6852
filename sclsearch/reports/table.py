"""Tables of studies: data frames of several reports, their files, and tables as papers print."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from sclsearch.canonical import one_line, shown
from sclsearch.errors import SclsearchError, lookup
from sclsearch.reports.frames import configuration_frame, seed_run_frame
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.report import Report

if TYPE_CHECKING:
    import pandas as pd

TableRows = Literal["configurations", "seed-runs", "winners"]
TableFormat = Literal["csv", "parquet", "json", "md", "latex"]

_FRAMES: Mapping[str, Callable[[Report], "pd.DataFrame"]] = MappingProxyType(
    {
        "configurations": configuration_frame,
        "seed-runs": seed_run_frame,
        "winners": lambda report: configuration_frame(report).query("winner"),
    }
)
_SETTINGS = ("method", "task", "model", "protocol", "size", "metric", "rule")
Bold = Sequence[Sequence[bool]]
"""True for each cell of a table that is bold, by rows."""
_MISSING = "–"
LONGEST_CELL = 300
"""Most characters of a cell in Markdown and LaTeX. A label may be longer, a study's name is not."""
_LATEX = str.maketrans(
    {
        **{one: f"\\{one}" for one in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
        **{"±": r"$\pm$", _MISSING: "--", "\n": " ", "\r": " "},
    }
)
_MARKDOWN = str.maketrans(
    {**{one: f"\\{one}" for one in "\\|*`"}, "<": "&lt;", "&": "&amp;", "\n": " ", "\r": " "}
)


def study_table(reports: Sequence[Report], rows: TableRows = "configurations") -> "pd.DataFrame":
    """Return the rows of one or more studies as one data frame, in the order of the reports.

    The module `frames` lists the columns.
    """
    import pandas as pd

    make = lookup(_FRAMES, rows, "rows")
    frames = [make(one) for one in reports]
    # An empty frame lacks the hyperparameters and would move their columns to the end.
    return pd.concat([one for one in frames if len(one)] or frames[:1], ignore_index=True)


def table_file(reports: Sequence[Report], rows: TableRows, form: TableFormat) -> bytes:
    """Return the content of a file with the rows of several studies.

    Markdown and LaTeX show configurations and winners as papers print them, see `paper_table` and
    `winner_grid`, with the test scores of the winners, or the best of a column, in bold. LaTeX
    needs the package `booktabs`.
    """
    frame = study_table(reports, rows)
    if frame.empty and form in {"md", "latex"}:
        names = ", ".join(one.study for one in reports)
        raise SclsearchError(f"{names}: has no rows for a table yet. Wait for a seed run.")
    if form == "csv":
        return frame.to_csv(index=False).encode()
    if form == "parquet":
        return _one_type_per_column(frame).to_parquet(index=False)
    if form == "json":
        records = frame.astype(object).where(frame.notna(), None).to_dict("records")
        return f"{json.dumps(records, indent=2, ensure_ascii=False)}\n".encode()
    if rows == "winners":
        cells, bold = winner_grid(reports)
    elif rows == "configurations":
        cells = paper_table(reports)
        bold = [[*[False] * (cells.shape[1] - 1), wins] for wins in frame["winner"]]
    else:
        cells = frame.astype(object).map(shown).where(frame.notna(), _MISSING)
        bold = [[False] * cells.shape[1]] * len(cells)
    return {"md": _markdown, "latex": _latex}[form](cells, bold).encode()


def paper_table(reports: Sequence[Report]) -> "pd.DataFrame":
    """Return the configurations of several studies as text cells, best first within each study.

    Columns: the settings in which the studies differ, the configuration's number, the searched
    hyperparameters, finished seeds, validation score, and mean and standard deviation of the
    reported test scores. Scores are in points (hundredths) with one decimal.
    """
    import pandas as pd

    settings = _differing(reports)
    searched = dict.fromkeys(
        name for one in reports for line in one.configurations for name in line.values
    )
    of_metric = "" if "metric" in settings else f" {reports[0].metric}"
    return pd.DataFrame(
        [
            {
                **{name: str(getattr(one, name) or _MISSING) for name in settings},
                "#": str(line.number),
                **{
                    name: shown(line.values[name]) if name in line.values else _MISSING
                    for name in searched
                },
                "seeds": f"{len(line.seeds) - line.failed}/{one.seeds}",
                f"validation{of_metric}": _points(line.score),
                f"test{of_metric}": _test_points(line),
            }
            for one in reports
            for line in one.configurations
        ]
    )


def winner_grid(reports: Sequence[Report]) -> tuple["pd.DataFrame", Bold]:
    """Return the winners' test scores, one row per method and one column per task.

    A row is named by its method, and by the model if models differ. The scores of a column have the
    same data set and metric, and the same training set size, protocol and rule. Its heading names
    the rule, unless it is the mean of all seeds. If two studies have the same row and column, each
    study has a row of its own.

    Returns:
        Mean and standard deviation in points as text cells, and True at the best cell of each
        column with several scores.
    """
    import pandas as pd

    def of(names: Sequence[str]) -> list[tuple[str, ...]]:
        return [tuple(str(getattr(one, name) or "all") for name in names) for one in reports]

    differing = _unequal(reports)
    in_heading = ["task", *(name for name in ("size", "protocol") if name in differing), "metric"]
    if any(one.rule != "mean" for one in reports):
        in_heading.append("rule")
    in_row = ["method", "model"] if "model" in differing else ["method"]
    columns = of([*in_heading, "data"])
    if len(set(zip(of(in_row), columns, strict=True))) < len(reports):
        in_row = ["study", *in_row]
    places = zip(of(in_row), columns, strict=True)
    winners = dict(zip(places, (one.winner for one in reports), strict=True))
    rows, columns = list(dict.fromkeys(of(in_row))), list(dict.fromkeys(columns))
    found = [[winners.get((row, column)) for column in columns] for row in rows]
    means = np.array([[_test_mean(line) for line in row] for row in found])
    rivals = np.isfinite(means).sum(0) > 1
    best = ((means == np.fmax.reduce(means)) & rivals).tolist()
    cells = [
        [*row, *(_test_points(line) if line else _MISSING for line in lines)]
        for row, lines in zip(rows, found, strict=True)
    ]
    headings = [*in_row, *(", ".join(column[:-1]) for column in columns)]
    bold = [[*[False] * len(in_row), *row] for row in best]
    return pd.DataFrame(cells, columns=headings), bold


def _differing(reports: Sequence[Report]) -> list[str]:
    """Return the settings in which the studies differ; the study's name if these do not suffice."""
    differing = _unequal(reports)
    distinct = {tuple(getattr(one, name) for name in differing) for one in reports}
    return differing if len(distinct) == len(reports) else ["study", *differing]


def _unequal(reports: Sequence[Report]) -> list[str]:
    return [name for name in _SETTINGS if len({getattr(one, name) for one in reports}) > 1]


def _points(score: float | None) -> str:
    return _MISSING if score is None else f"{100 * score:.1f}"


def _test_points(line: ConfigurationLine) -> str:
    """Return mean ± standard deviation of the reported test scores of a finished configuration."""
    mean = None if line.score is None else line.test_mean
    spread = "" if mean is None or line.test_std is None else f" ± {_points(line.test_std)}"
    return _points(mean) + spread


def _test_mean(line: ConfigurationLine | None) -> float:
    return math.nan if line is None or line.test_mean is None else line.test_mean


def _one_type_per_column(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return the frame with text in columns of several types, which Parquet does not have."""
    mixed = [name for name in frame if frame[name].dropna().map(type).nunique() > 1]
    return frame.assign(**{str(name): frame[name].dropna().map(str) for name in mixed})


def _markdown(cells: "pd.DataFrame", bold: Bold) -> str:
    header, rows = _escaped(cells, bold, _MARKDOWN, "**{}**")
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _latex(cells: "pd.DataFrame", bold: Bold) -> str:
    header, rows = _escaped(cells, bold, _LATEX, r"\textbf{{{}}}")
    lines = [f"{' & '.join(line)} \\\\" for line in (header, *rows)]
    begin = f"\\begin{{tabular}}{{{'l' * len(header)}}}"
    rules = (begin, "\\toprule", lines[0], "\\midrule", *lines[1:], "\\bottomrule")
    return "\n".join([*rules, "\\end{tabular}\n"])


def _escaped(
    cells: "pd.DataFrame", bold: Bold, special: Mapping[int, str], emphasis: str
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of escaped lines of text, with the cells to emphasize in bold."""

    def escaped(text: str) -> str:
        return one_line(text, LONGEST_CELL).translate(special)

    return [escaped(str(name)) for name in cells], [
        [
            emphasis.format(escaped(cell)) if strong else escaped(cell)
            for cell, strong in zip(row, strengths, strict=True)
        ]
        for row, strengths in zip(cells.values.tolist(), bold, strict=True)
    ]
