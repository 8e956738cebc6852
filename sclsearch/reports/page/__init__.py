"""Report of studies as a folder: a self-contained HTML page, its figures and its tables.

`template.html` has the words of the page and their order; the other modules make its tables and
figures.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports import comparison_tables
from sclsearch.reports.commands import study_command
from sclsearch.reports.comparison import StudyComparison, compare_studies, confirmed_score
from sclsearch.reports.encoder_costs import encoder_name
from sclsearch.reports.page import figures, results, winner
from sclsearch.reports.page.results import StudyResults, read_results
from sclsearch.reports.page.trend import find_trend, summary_of_trend
from sclsearch.reports.report import Report
from sclsearch.reports.summary import Summary, name_of, summarize, summarize_comparison
from sclsearch.reports.table import table_file
from sclsearch.reports.words import rule_of
from sclsearch.store.storage import LocalPath, check_writable, new_folder
from sclsearch.tasks.metrics import BINS

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from sclsearch.methods.base import Method

PAGE = "index.html"
FILES = ".files"
"""List of the files of a page, which a later page may delete."""
LONGEST, SHORT = 300, 34
"""Characters of a cell, and those up to which it is not wrapped."""


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Options of a page: whether to show texts of the task, and where its files are.

    `data_dir` is the folder of the task's files, if they moved; `method` the custom method of the
    studies, if it is in a file.
    """

    texts: bool = True
    data_dir: Path | None = None
    method: "str | type[Method] | None" = None


@dataclass(slots=True)
class Content:
    """Tables, figures and sections that the template places on the page, by name."""

    tables: "dict[str, pd.DataFrame]" = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)

    def table(self, name: str, cells: "pd.DataFrame", *, first: bool = False) -> "Markup":
        """Return a table as HTML; `first` emphasizes its first row."""
        from markupsafe import Markup

        self.tables[name] = cells
        row, cell = Markup("<tr>{}</tr>"), Markup("<td{}>{}</td>")
        short = Markup(' class="short"')

        def shown(value: object) -> Markup:
            if isinstance(value, Markup):
                return cell.format("", value)
            text = str(value)
            text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
            return cell.format(short if len(text) < SHORT else "", text)

        head = Markup().join(map(Markup('<th scope="col">{}</th>').format, cells.columns))
        rows = [row.format(Markup().join(map(shown, one))) for one in cells.to_numpy().tolist()]
        return Markup('<div class="scroll"><table{}><thead>{}</thead>{}</table></div>').format(
            Markup(' class="first"') if first else "", row.format(head), Markup().join(rows)
        )

    def figure(self, name: str, figure: "Figure", caption: str) -> "Markup":
        """Return a figure as HTML with its caption."""
        from markupsafe import Markup

        self.figures[name] = figures.as_svg(figure, name)
        label = Markup('<figure role="img" aria-label="{0}">{1}<figcaption>{0}</figcaption>')
        return label.format(caption, Markup(self.figures[name])) + Markup("</figure>")

    def section(self, name: str, title: str) -> str:
        """Add a section to the list of contents; return an empty text."""
        self.sections[name] = title
        return ""


def write_page(reports: Sequence[Report], folder: Path, options: PageOptions) -> Path:
    """Write the page of studies with their figures and tables; return the path of the page.

    Equal stored results give equal files. The folder is missing, empty, or has an earlier page,
    which is replaced.

    Raises:
        SclsearchError: A study has no winner, or the folder has other content.
    """
    folder = folder.expanduser().resolve()
    _check_folder(folder)
    found = _read(reports)
    check_writable(LocalPath(folder.parent))
    with new_folder(folder, replace=True) as part:
        page, content = _page(found, options)
        (part / PAGE).write_text(page, encoding="utf-8")
        (part / "figures").mkdir()
        for name, text in content.figures.items():
            (part / "figures" / f"{_file_name(name)}.svg").write_text(text, encoding="utf-8")
        (part / "tables").mkdir()
        for rows in ("configurations", "seed-runs"):
            (part / "tables" / f"{rows}.csv").write_bytes(table_file(reports, rows, "csv"))
        for name, cells in content.tables.items():
            own = [column for column in cells if "…" not in str(column)]  # without the dots
            cells[own].to_csv(part / "tables" / f"{_file_name(name)}.csv", index=False)
        (part / FILES).write_text("\n".join(sorted(_files(part))), encoding="utf-8")
        _check_folder(folder)  # its content is deleted now, and may have changed meanwhile
    return folder / PAGE


def page_html(reports: Sequence[Report], options: PageOptions) -> str:
    """Return the page of studies as HTML text; it equals that of `write_page`."""
    return _page(_read(reports), options)[0]


def _read(reports: Sequence[Report]) -> list[StudyResults]:
    names = [report.study for report in reports]
    if not names or len(set(names)) < len(names):
        raise SclsearchError(
            f"report: needs one or more different studies, got {', '.join(names) or 'none'}. "
            "`sclsearch ls studies` lists them."
        )
    return read_results(reports)


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        return
    record = folder / FILES
    ours = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    if foreign := _files(folder) - {*ours, FILES}:
        raise SclsearchError(
            f"--output {folder}: must be missing, empty or an earlier report, got "
            f"{', '.join(sorted(foreign)[:5])}. Name another folder."
        )


def _files(folder: Path) -> set[str]:
    """Return the paths of the files and links in a folder, relative to it."""
    if not folder.is_dir():
        return {folder.name}
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in files}


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _page(found: Sequence[StudyResults], options: PageOptions) -> tuple[str, Content]:
    """Return the page and its content."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = files(__name__).joinpath("template.html").read_text(encoding="utf-8")
    trend = find_trend(found)
    found = found if trend is None else trend.named()
    reports = [one.report for one in found]
    compared, fault = None, ""
    if len(found) > 1 and trend is None:
        try:
            compared = compare_studies(reports)
        except SclsearchError as error:
            fault = f"The studies cannot be compared. {error}"
    if trend is not None:
        question, summary = trend.question, summary_of_trend(trend)
    elif fault:
        question = " and ".join(one.name for one in found)
        summary = Summary("There is no answer for these studies together.", fault, "", "")
    else:
        question, summary = _question(found, compared)
    content = Content()
    restored = {
        one.report.study: winner.restore_winner(
            one.report,
            one.runs[winner.best_seed(one.report).key],
            options.data_dir,
            options.method,
        )
        for one in found
    }
    with figures.style():
        page = environment.from_string(text).render(
            content=content,
            question=question,
            summary=summary,
            trend=trend,
            compared=compared,
            studies=found,
            encoders=dict.fromkeys(map(encoder_name, reports)),
            restored=restored,
            tested=all(one.report.has_test for one in found),
            warnings=_warnings(found, compared),
            texts=options.texts,
            report_command=f"{study_command('report', *reports)} --output FOLDER",
            NO_TEST_ROWS=NO_TEST_ROWS,
            BINS=BINS,
            name_of=name_of,
            rule_of=rule_of,
            study_command=study_command,
            figures=figures,
            results=results,
            winner=winner,
            tables=comparison_tables,
        )
    return page, content


def _question(
    found: Sequence[StudyResults], compared: StudyComparison | None
) -> tuple[str, Summary]:
    report = found[0].report
    size = f" with {report.size} training examples" if report.size else ""
    if compared is None:
        question = f"Which configuration of {report.method} is best on {report.task}{size}?"
        return question, summarize(report, confirmed_score(report))
    kind = "method" if len({one.report.method for one in found}) == len(found) else "study"
    kind = "encoder" if compared.of_encoders else kind
    question = f"Which {kind} is best on {report.task}{size}?"
    return question, summarize_comparison(compared)


def _warnings(found: Sequence[StudyResults], compared: StudyComparison | None) -> list[str]:
    """Return the warnings of all studies, each once."""
    texts: dict[str, list[str]] = {}
    for one in found:
        for note in one.report.notes:
            if note.kind not in {"fact", "seeds"}:  # the settings state the seeds
                texts.setdefault(note.text, []).append(one.name)
    own = [
        text if len(names) == len(found) else f"{', '.join(names)}: {text}"
        for text, names in texts.items()
    ]
    return own + [note.text for note in (compared.notes if compared else ()) if note.kind != "fact"]
