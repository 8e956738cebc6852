"""Report of studies as a folder: a self-contained HTML page, its figures and its tables.

`template.html` has the words of the page and their order; the other modules make its tables and
figures.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports import comparison_tables
from sclsearch.reports.commands import study_command
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.page import figures, results, winner
from sclsearch.reports.page.results import StudyResults, read_results
from sclsearch.reports.page.trend import find_trend, summary_of_trend
from sclsearch.reports.report import Report
from sclsearch.reports.summary import Summary, summarize_comparison, summary_of
from sclsearch.reports.table import as_csv, table_file
from sclsearch.reports.words import order_of, rule_of
from sclsearch.store.storage import LocalPath, check_writable, new_folder
from sclsearch.tasks.metrics import BINS

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

PAGE = "index.html"
FILES = ".files"
"""List of the files of a page, which a later page may delete."""
Content = dict[str, dict[str, Any]]
"""Tables, figures and sections that the template places on the page, by name."""


def write_page(
    reports: Sequence[Report],
    folder: Path,
    *,
    texts: bool = True,
    data_dir: Path | None = None,
    method: "str | type[Method] | None" = None,
) -> Path:
    """Write the page of studies with their figures and tables; return the path of the page.

    Equal stored results give equal files. The folder is missing, empty, or has an earlier page,
    which is replaced. `texts` shows texts of the task, whose files are in `data_dir` if they moved;
    `method` is the custom method of the studies.

    Raises:
        SclsearchError: A study has no winner, or the folder has other content.
    """
    folder = folder.expanduser().resolve()
    _check_folder(folder)
    found = _read(reports)
    check_writable(LocalPath(folder.parent))
    with new_folder(folder, replace=True) as part:
        page, content = _page(found, texts, data_dir, method)
        (part / PAGE).write_text(page, "utf-8", "backslashreplace")  # paths are bytes
        (part / "figures").mkdir()
        for name, text in content["figures"].items():
            (part / "figures" / f"{_file_name(name)}.svg").write_text(text, encoding="utf-8")
        (part / "tables").mkdir()
        for rows in ("configurations", "seed-runs"):
            (part / "tables" / f"{rows}.csv").write_bytes(table_file(reports, rows, "csv"))
        for name, cells in content["tables"].items():
            own = cells[[column for column in cells if column != cells.attrs.get("dots")]]
            (part / "tables" / f"{_file_name(name)}.csv").write_bytes(as_csv(own))
        (part / FILES).write_text("\n".join(sorted(_files(part))), encoding="utf-8")
        _check_folder(folder)  # its content is deleted now, and may have changed meanwhile
    return folder / PAGE


def page_html(reports: Sequence[Report], *, texts: bool = True) -> str:
    """Return the page of studies as HTML text; it equals that of `write_page`."""
    return _page(_read(reports), texts)[0]


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
    ours = record.read_text("utf-8", "replace").splitlines() if record.is_file() else []
    foreign = (name for name in _files(folder) if name not in {*ours, FILES})
    if first := [*islice(foreign, 5)]:  # the folder may have millions of files
        raise SclsearchError(
            f"--output {folder}: must be missing, empty or an earlier report, got "
            f"{', '.join(sorted(first))}. Name another folder."
        )


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of the files and links in a folder, relative to it."""
    if not folder.is_dir():
        yield folder.name
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _page(
    found: Sequence[StudyResults],
    texts: bool,
    data_dir: Path | None = None,
    method: "str | type[Method] | None" = None,
) -> tuple[str, Content]:
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
        summary = summary_of_trend(trend)
    elif fault:
        summary = Summary("There is no answer for these studies together.", fault, "", "")
    else:
        summary = summarize_comparison(compared) if compared else summary_of(reports[0])
    content: Content = {"tables": {}, "figures": {}, "sections": {}}
    restored = {
        one.report.study: winner.restore_winner(one.report, data_dir, method) for one in found
    }
    with figures.style():
        page = environment.from_string(text).render(
            content=content,
            summary=summary,
            trend=trend,
            compared=compared,
            studies=found,
            encoders=dict.fromkeys(one.encoder for one in reports),
            restored=restored,
            tested=all(one.report.has_test for one in found),
            warnings=_warnings(found, compared),
            texts=texts,
            report_command=f"{study_command('report', *reports)} --output FOLDER",
            NO_TEST_ROWS=NO_TEST_ROWS,
            BINS=BINS,
            order_of=order_of,
            rule_of=rule_of,
            study_command=study_command,
            figures=figures,
            results=results,
            winner=winner,
            tables=comparison_tables,
        )
    return page, content


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
