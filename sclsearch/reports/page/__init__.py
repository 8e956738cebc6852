"""Report of studies as a folder: a self-contained HTML page, its figures and its tables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.page import sections as parts
from sclsearch.reports.page import trend as trends
from sclsearch.reports.page import winner
from sclsearch.reports.page.answer import Answer
from sclsearch.reports.page.answer import answer as answer_of
from sclsearch.reports.page.plots import (
    COLORS,
    ON_DARK,
    Section,
    Table,
    as_png,
    as_svg,
    inline_svg,
    style,
)
from sclsearch.reports.page.sections import StudyResults, read_results
from sclsearch.reports.report import Report
from sclsearch.reports.table import TableFormat, TableRows, table_file
from sclsearch.store.storage import LocalPath, check_writable, new_folder

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

PAGE = "index.html"
FILES = ".files"
"""List of the files of a page, which a later page may delete."""
_FILES: Mapping[TableFormat, str] = {"csv": "csv", "md": "md", "latex": "tex", "parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Options of a page: whether to show texts of the task, and where its files are.

    `data_dir` is the folder of the task's files, if they moved; `method` the custom method of the
    studies, if it is in a file.
    """

    texts: bool = True
    data_dir: Path | None = None
    method: "str | type[Method] | None" = None


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
        (part / "figures").mkdir()
        (part / "tables").mkdir()
        page, tables = _page(found, options, part / "figures")
        _write_tables(reports, tables, part / "tables")
        (part / PAGE).write_text(page, encoding="utf-8")
        (part / FILES).write_text("\n".join(sorted(_files(part))), encoding="utf-8")
        _check_folder(folder)  # its content is deleted now, and may have changed meanwhile
    return folder / PAGE


def page_html(reports: Sequence[Report], options: PageOptions) -> str:
    """Return the page of studies as HTML text; it equals that of `write_page`."""
    return _page(_read(reports), options)[0]


def _page(
    found: Sequence[StudyResults], options: PageOptions, folder: Path | None = None
) -> tuple[str, list[Table]]:
    """Return the page and its tables; write the figures as SVG and PNG to a folder, if any."""
    inline = {}
    trend = trends.find_trend(found)
    compared = parts.compare_results(found) if len(found) > 1 and trend is None else None
    with style():
        answer = answer_of(found, compared) if trend is None else trends.answer(trend)
        found = found if trend is None else trend.named()
        sections = list(_sections(found, compared, options))
        shown = [*sections, *chain.from_iterable(one.parts for one in sections)]
        figures = [plot for section in shown for plot in section.plots]
        for plot in filter(None, (answer.plot, *figures)):
            name, content = _file_name(plot.name), as_svg(plot.figure)
            inline[plot.name] = inline_svg(content, name)
            if folder is not None:
                (folder / f"{name}.svg").write_bytes(content)
                (folder / f"{name}.png").write_bytes(as_png(plot.figure))
    tables = [answer.table, *(table for section in shown for table in section.tables)]
    return _rendered(answer, sections, inline), tables


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


def _sections(
    found: Sequence[StudyResults], compared: StudyComparison | str | None, options: PageOptions
) -> Iterator[Section]:
    restored = [winner.restore_winner(one, options.data_dir, options.method) for one in found]
    tested = all(one.report.has_test for one in found)
    warnings = parts.warnings(found, compared)
    if warnings.notes:
        yield warnings
    if isinstance(compared, StudyComparison):
        yield parts.comparison(compared)
    details = [_study_sections(*one, options) for one in zip(found, restored, strict=True)]
    if len(found) == 1:
        yield from details[0]
    yield parts.settings_table(found, compared)
    if tested:
        yield from winner.of_classes(found, restored)
        yield parts.reported_scores(found)
    if len(found) == 1:
        yield parts.hyperparameters(found[0])
    for one, sections in zip(found, details if len(found) > 1 else (), strict=False):
        title = f"Details of {one.name}"
        inner = [*sections, parts.hyperparameters(one)]
        yield Section(f"{one.prefix}study", title, parts=inner, folded=True)
    yield parts.cost(found)
    yield parts.environment(found)
    yield parts.commands(found)


def _study_sections(
    results: StudyResults, restored: winner.Restored, options: PageOptions
) -> list[Section]:
    sections = [parts.ranking(results), parts.seeds(results), parts.curves(results)]
    if not results.report.has_test:
        name = f"{results.prefix}test"
        return [*sections, Section(name, "Test rows", [f"The study has {NO_TEST_ROWS}."])]
    if not results.labels:
        return [*sections, winner.true_and_predicted(results)]
    mistakes = winner.wrong_texts(results, restored, texts=options.texts)
    return [*sections, winner.classes(results), winner.reliability(results), mistakes]


def _write_tables(reports: Sequence[Report], tables: Sequence[Table], folder: Path) -> None:
    for form, suffix in _FILES.items():
        kinds: dict[TableRows, str] = {"configurations": "configurations"}
        if form in {"csv", "parquet"}:
            kinds["seed-runs"] = "seed-runs"
        elif len(reports) > 1:
            kinds["winners"] = "methods-by-tasks"
        for rows, name in kinds.items():
            (folder / f"{name}.{suffix}").write_bytes(table_file(reports, rows, form))
    for table in tables:
        table.cells.to_csv(folder / f"{_file_name(table.name)}.csv", index=False)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _rendered(answer: Answer, sections: Sequence[Section], figures: Mapping[str, str]) -> str:
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = files(__name__).joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(text).render(
        answer=answer,
        sections=sections,
        figures=figures,
        colors=COLORS,
        on_dark=ON_DARK,
    )
