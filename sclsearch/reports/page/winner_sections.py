"""Sections of one study about the winner on the test rows: classes, calibration, embeddings."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods import is_own
from sclsearch.reports.page import winner_plots as plots
from sclsearch.reports.page.content import Plot, Section, Table, cells
from sclsearch.reports.page.results import StudyResults
from sclsearch.reports.page.rows import BINS, calibration, class_scores, mistakes
from sclsearch.reports.terminal import with_spread
from sclsearch.store.studies import StudyStore
from sclsearch.study.restore import restore_seed_run

if TYPE_CHECKING:
    import pandas as pd

    from sclsearch.methods.base import Method
    from sclsearch.study.study import Study
    from sclsearch.training.spec import SeedRunSpec

MOST_MISTAKES = 20
NO_CLASSES = "The task has scores instead of classes."
NO_PROBABILITIES = (
    "No class probabilities are stored: their files were deleted. A search in a new --storage "
    "stores them."
)

Restored = tuple["Study", "SeedRunSpec"] | str
"""Study and specification of the winner's best seed run, or the reason why it has none."""


def restore_winner(
    results: StudyResults, data_dir: Path | None, method: "str | type[Method] | None"
) -> Restored:
    """Return the winner's best seed run, restored with the task's rows and the encoder."""
    best = results.winner.seeds[results.winner.reported[0]]
    own = method if is_own(results.report.method_place) else None
    try:
        return restore_seed_run(results.runs[best.key], data_dir, own)
    except SclsearchError as error:
        return f"The task's rows, the encoder or the method are not available. {error}"


def classes(results: StudyResults) -> Section:
    """Return the confusion matrix and the scores of each class, means over the winner's seeds."""
    name, title = f"{results.prefix}classes", "Classes"
    tests = [results.runs[seed.key].test for seed in results.winner.seeds]
    counts = [np.array(test["confusion"], float) for test in tests if "confusion" in test]
    if not counts:
        return Section(name, title, [NO_CLASSES])
    section = Section(name, title)
    labels = results.labels or tuple(map(str, range(len(counts[0]))))
    seeds = counted(len(counts), "seed")
    caption = (
        f"Confusion matrix on the test rows: mean number of rows over {seeds}, and share of the "
        "true class."
    )
    mean = np.mean(counts, axis=0)  # [C, C]
    figure = plots.confusion_plot(mean, labels)
    section.plots = [Plot(f"{results.prefix}confusion", caption, figure)]
    rows = [
        [label, *(with_spread(*score) for score in scores), f"{number:g}"]
        for label, scores, number in zip(labels, class_scores(counts), mean.sum(1), strict=True)
    ]
    caption = f"Test rows, mean ± sample standard deviation over {seeds} of the winner."
    table = cells(rows, ("class", "precision", "recall", "F1", "test rows"))
    section.tables = [Table(f"{results.prefix}classes", caption, table)]
    return section


def reliability(results: StudyResults) -> Section:
    """Return the reliability diagram and the expected calibration error of the winner."""
    name, title = f"{results.prefix}calibration", "Calibration"
    if not results.labels:
        return Section(name, title, [NO_CLASSES])
    found = calibration(results.predictions)
    if found is None:
        return Section(name, title, [NO_PROBABILITIES])
    bins, error = found
    text = (
        f"Expected calibration error (Guo et al., 2017; {BINS} bins of equal width): "
        f"{with_spread(*error)}, mean over the seeds of the winner. 0 is perfect."
    )
    section = Section(name, title, [text])
    caption = "Reliability diagram on the test rows, all seeds of the winner together."
    figure = plots.reliability_plot(bins)
    section.plots = [Plot(f"{results.prefix}reliability", caption, figure)]
    return section


def wrong_texts(results: StudyResults, restored: Restored, *, texts: bool) -> Section:
    """Return the test texts that the most seeds of the winner misclassify."""
    section = Section(f"{results.prefix}mistakes", "Most often misclassified test texts")
    if not texts:
        section.text = ["Texts of the task are left out."]
    elif not results.labels:
        section.text = [NO_CLASSES]
    elif "label" not in results.predictions:
        section.text = [NO_PROBABILITIES.replace("class probabilities", "labels")]
    elif isinstance(restored, str):
        section.text = [restored]
    else:
        study, _ = restored
        found = _mistakes(results, study)
        if len(found):
            section.tables = [_mistake_table(results, study, found)]
        else:
            section.text = ["No seed of the winner gets a test text wrong."]
    return section


def _mistakes(results: StudyResults, study: "Study") -> "pd.DataFrame":
    import pandas as pd

    predictions = results.predictions
    test = predictions[(predictions["split"] == "test") & predictions["label"].notna()]
    parts = []
    for replicate, own in test.groupby("replicate"):
        rows = study.splits(int(str(replicate))).test
        numbers = rows.index[own["row"].to_numpy(dtype=np.int64)]
        parts.append(own.assign(source=rows.split, source_row=numbers))
    return mistakes(pd.concat(parts), MOST_MISTAKES) if parts else test


def _mistake_table(results: StudyResults, study: "Study", found: "pd.DataFrame") -> Table:
    columns = ("first text", "second text") if study.data.task.pair else ("text",)
    rows = [
        [
            *study.data.splits[source].texts[row],
            label,
            predicted,
            f"{wrong} of {seeds}",
            study.data.splits[source].row_id(row),
        ]
        for (source, row), label, wrong, seeds, predicted in found.itertuples()
    ]
    return Table(
        f"{results.prefix}mistakes",
        f"Test texts by the share of the winner's seeds that get them wrong, at most "
        f"{MOST_MISTAKES}. The row is the value of --id or, without one, the number of the row in "
        "its file, from 1.",
        cells(rows, (*columns, "label", "predicted", "wrong seeds", "row")),
    )


def embeddings(results: StudyResults, restored: Restored) -> Section:
    """Return the t-SNE map of the test rows by the winner's best seed, and their geometry."""
    name, title = f"{results.prefix}embeddings", "Embeddings of the winner's best seed"
    report = results.report
    best = results.winner.seeds[results.winner.reported[0]]
    if not results.labels:
        return Section(name, title, [NO_CLASSES])
    if isinstance(restored, str):
        return Section(name, title, [restored])
    weights = StudyStore(report.storage, report.study).load_weights(best.key)
    if weights is None:
        missing = (
            "The weights of the winner's best seed are not stored. Repeat the search's command."
        )
        return Section(name, title, [missing])
    from sclsearch.reports.page import embeddings as embedded

    try:
        found = embedded.embed_test_rows(*restored, weights)
    except RuntimeError as error:  # a tensor is missing or has another shape
        return Section(name, title, [f"The stored weights do not fit: {first_line(error)}"])
    z = found.values
    if len(z) < 2:
        return Section(name, title, ["There is one test row, so there is no map."])
    section = Section(name, title)
    section.text = [
        f"Embedding: {found.description}, normalized, of {counted(len(z), 'test row')} by seed "
        f"{best.replicate} of the winner.",
        f"Alignment {embedded.alignment(z, found.y):.3f} (mean squared distance of rows of one "
        f"class; smaller is better) and uniformity {embedded.uniformity(z):.3f} (smaller is more "
        "even; 0 if all are equal), as Wang and Isola (2020) define them, with classes as positive "
        "pairs.",
    ]
    if embedded.collapsed(z):
        section.text.append("All embeddings are equal: the encoder collapsed. There is no map.")
        return section
    points, vectors = embedded.tsne_map(found)
    stars = "" if vectors is None else " Stars are the label vectors."
    more = len(results.labels) - plots.MOST_IN_LEGEND
    rest = f" The legend leaves out {more} of {len(results.labels)} classes." if more > 0 else ""
    caption = (
        f"t-SNE of the test rows by true class.{stars}{rest} Distances between far groups have no "
        "meaning in t-SNE."
    )
    figure = plots.embedding_plot(points, found.y, results.labels, vectors)
    section.plots = [Plot(name, caption, figure)]
    return section
