"""Result of a study in MLflow: its report, its place in the experiment, and the winner's model."""

from dataclasses import asdict, dataclass
from importlib.metadata import version

from sclsearch.canonical import counted, digest
from sclsearch.errors import SclsearchError
from sclsearch.reports.page import PageOptions, page_html
from sclsearch.reports.report import Report, report
from sclsearch.reports.terminal import tie_statement, with_spread
from sclsearch.selection.rules import parse_rule
from sclsearch.store.lock import check_no_driver
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import DamagedError, Storage
from sclsearch.store.studies import StudyRecord, existing_study
from sclsearch.study.state import stored_state
from sclsearch.tracking.logger import MLflowLogger, failure_reason
from sclsearch.tracking.model import log_winner, register
from sclsearch.tracking.records import RunRecord, experiment_name, json_text, short_settings
from sclsearch.tracking.server import connect, masked, quietly
from sclsearch.tracking.view import write_view
from sclsearch.tracking.writer import Writer

PAGE = "report.html"
PAGE_SOURCE = "sclsearch.page"
"""Tag of a study's run: digest of the data that its page shows."""


@dataclass(frozen=True, slots=True)
class TrackedStudy:
    """Result of logging a study to MLflow.

    Attributes:
        study: Name of the study.
        registered: The registered version as `NAME version N`; None if none was requested.
        warning: Reason why MLflow lacks the HTML page; None if it has the page.
    """

    study: str
    registered: str | None
    warning: str | None


def publish(
    uri: str,
    found: Report,
    storage: Storage,
    page: PageOptions,
    *,
    registered_name: str | None = None,
) -> TrackedStudy:
    """Write the result of a study to MLflow; a repeated call changes nothing.

    The study's run gets the winner, the report and its HTML page; its experiment gets a table of
    all configurations. The winner becomes a model if its weights are stored, its method belongs to
    sclsearch and no other configuration may well win.
    """
    _, record = existing_study(storage, found.study)
    with quietly():
        writer, client = Writer(uri), connect(uri)
        results = _report_record(found, record)
        writer.write(results)
        experiment_id, run_id = writer.run_of(record.mlflow_name)
        write_view(client, experiment_id)
        tags = client.get_run(run_id).data.tags
        warning = _write_page(writer, results, tags.get(PAGE_SOURCE), found, page)
        own_method = bool(record.training.get("method_file"))
        winner = found.winner
        unready = winner is None or winner.untested or not found.weights or not found.finished
        if registered_name is None and (own_method or unready):
            return TrackedStudy(found.study, None, warning)
        if own_method:
            raise SclsearchError(
                f"--register {registered_name}: MLflow cannot load a method that is in a file, "
                f"as {found.method} of {found.study} is. Use `sclsearch export`."
            )
        model_id = log_winner(client, experiment_id, run_id, found, storage)
        if registered_name is None:
            return TrackedStudy(found.study, None, warning)
        number = register(client, registered_name, model_id, run_id)
        return TrackedStudy(found.study, f"{registered_name} version {number}", warning)


def _write_page(
    writer: Writer,
    results: RunRecord,
    source: str | None,
    found: Report,
    options: PageOptions,
) -> str | None:
    """Write the HTML page to a study's run, unless MLflow has a page of the same data.

    `source` is the digest of the data that MLflow's page shows; None without a page.
    """
    if found.winner is None:
        return None
    data = results.artifacts["report.json"]
    shown = digest({"version": version("sclsearch"), "texts": options.texts, "report": data})
    if source == shown:
        return None
    try:
        page = page_html([found], options)
    except Exception as error:  # the study's result does not depend on its page
        return f"MLflow lacks {PAGE} of {found.study}: {failure_reason(error)}."
    writer.write(
        RunRecord(
            results.study,
            tags={PAGE_SOURCE: shown},
            artifacts={PAGE: page},
            experiment=results.experiment,
            part="html",
        )
    )
    return None


def track_study(storage: Storage, name: str, uri: str, page: PageOptions) -> TrackedStudy:
    """Log a stored study, its report and its winner to MLflow, without duplicates."""
    store, record = existing_study(storage, name)
    replicates, configurations = store.replicates(), store.configurations()
    rule = parse_rule(record.origin["rule"])
    check_no_driver(store.folder, lambda _: None, "MLflow gets its runs from that process.")
    runs = RunStore(storage)
    state, damaged = stored_state(runs, record, replicates, configurations, rule, store.race())
    if damaged:
        raise DamagedError("\n".join(damaged))
    logger = MLflowLogger(uri)
    logger.sync(state)
    missing = logger.close(timeout=None)
    if missing:
        raise SclsearchError(f"{missing}. Start or repair the server, then repeat the command.")
    found = report(storage, store.name)
    try:
        return publish(uri, found, storage, page)
    except SclsearchError:
        raise
    except Exception as error:
        raise SclsearchError(
            f"{masked(uri)}: lacks the report of {store.name}: {failure_reason(error)}. "
            "Repeat the command."
        ) from error


def _report_record(found: Report, record: StudyRecord) -> RunRecord:
    winner = found.winner
    return RunRecord(
        record.mlflow_name,
        tags={} if winner is None else {"winner": short_settings(winner.values)},
        artifacts={"report.json": json_text(asdict(found))},
        experiment=experiment_name(record),
        description=study_text(found),
        part="report",
    )


def study_text(found: Report) -> str:
    """Return the verdict, the winner and the notes of a study as Markdown."""
    size = f", training size {found.size}" if found.size else ""
    about = (
        f"{found.method} on {found.task}{size}, {found.model}, protocol {found.protocol}, "
        f"rule {found.rule}, {counted(found.seeds, 'seed')} per configuration."
    )
    verdict = ["\n".join(found.verdict.lines)] if found.verdict else []
    notes = ["\n".join(f"- {note}" for note in found.notes)] if found.notes else []
    return "\n\n".join([*verdict, _winner_text(found), about, *notes])


def _winner_text(found: Report) -> str:
    winner = found.winner
    if winner is None:
        return "No configuration is finished."
    lead = "" if found.lead is None else f", {found.lead:.4f} above the second"
    if tied := tie_statement(found, winner):
        lead = f", {tied}"
    test = "no test rows"
    if found.has_test and winner.test_mean is not None:
        test = f"test {with_spread(winner.test_mean, winner.test_std)}"
    return (
        f"**Winner: {short_settings(winner.values) or 'the only configuration'}**, validation "
        f"{found.metric} {winner.score:.4f}{lead}; {test}"
    )
