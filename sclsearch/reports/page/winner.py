"""Sections of one study about its winner on the test rows, and the statistics that they show."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods import is_own
from sclsearch.randomness import stream
from sclsearch.reports.calibration import BINS, bins_of
from sclsearch.reports.commands import study_command
from sclsearch.reports.comparison_tables import text_frame
from sclsearch.reports.page import plots
from sclsearch.reports.page.plots import Plot, Section, Table
from sclsearch.reports.page.sections import StudyResults
from sclsearch.reports.terminal import with_spread
from sclsearch.selection.rules import mean_std
from sclsearch.store.studies import StudyStore
from sclsearch.study.restore import restore_seed_run
from sclsearch.tasks.metrics import scores_by_class

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from sclsearch.methods.base import Batch, Method
    from sclsearch.study.study import Study
    from sclsearch.training.spec import SeedRunSpec

Numbers = npt.NDArray[np.float64]
Restored = tuple["Study", "SeedRunSpec"] | str
"""Study and specification of the winner's best seed run, or the reason why it has none."""
Bin = tuple[float, float, int]
"""Mean confidence, accuracy and number of rows of a bin."""

MOST_MISTAKES = 20
MOST_ROWS = 2000
"""Number of test rows above which a random subset is embedded, because of t-SNE's time."""
PERPLEXITY = 30.0
POOLED = {
    "mean": "the mean of the encoder's last states",
    "cls_pooled": "the output of the pretrained pooler",
}
NO_PROBABILITIES = (
    "No class probabilities are stored: their files were deleted. A search in a new --storage "
    "stores them."
)


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
    counts = _confusions(results)
    labels = results.labels or tuple(map(str, range(len(counts[0]))))
    seeds = counted(len(counts), "seed")
    mean = np.mean(counts, axis=0)  # [C, C]
    plot = Plot(
        f"{results.prefix}confusion",
        f"Confusion matrix on the test rows: mean number of rows over {seeds}, and share of the "
        "true class.",
        plots.confusion_plot(mean, labels),
    )
    rows = [
        [label, *(with_spread(*score) for score in scores), f"{number:g}"]
        for label, scores, number in zip(labels, class_scores(counts), mean.sum(1), strict=True)
    ]
    caption = f"Test rows, mean ± sample standard deviation over {seeds} of the winner."
    table = text_frame(rows, ("class", "precision", "recall", "F1", "test rows"))
    return Section(name, title, plots=[plot], tables=[Table(name, caption, table)])


def _confusions(results: StudyResults) -> list[Numbers]:
    tests = [results.runs[seed.key].test for seed in results.winner.seeds]
    return [np.array(test["confusion"], float) for test in tests if "confusion" in test]


def of_classes(found: Sequence[StudyResults], restored: Sequence[Restored]) -> Iterator[Section]:
    """Yield the classes of several studies side by side, and the embeddings of test rows."""
    if len(found) > 1 and found[0].labels and len({one.labels for one in found}) == 1:
        yield classes_side_by_side(found)
    if all(one.labels for one in found):
        yield embeddings(found, restored)


def classes_side_by_side(found: Sequence[StudyResults]) -> Section:
    """Return the F1 score of each class and the calibration error, one column per study."""
    section = Section("classes", "Classes side by side")
    labels, columns = found[0].labels, [_class_column(one) for one in found]
    rows = [[label, *cells] for label, *cells in zip(labels, *columns, strict=False)]
    errors = [calibration(one.predictions) for one in found]
    error = ["–" if one is None else with_spread(*one[1]) for one in errors]
    rows.append(["calibration error", *error])
    caption = (
        "F1 of each class on the test rows, mean ± sample standard deviation over the winner's "
        f"seeds. Calibration error: Guo et al. (2017), {BINS} bins; 0 is perfect."
    )
    table = text_frame(rows, ("class", *(one.name for one in found)))
    section.tables = [Table("classes", caption, table)]
    return section


def _class_column(results: StudyResults) -> list[str]:
    return [with_spread(*f1) for _, _, f1 in class_scores(_confusions(results))]


def true_and_predicted(results: StudyResults) -> Section:
    """Return predicted over true scores of a regression, with their correlation and error."""
    name, title = f"{results.prefix}scores", "Predicted and true scores"
    runs = [results.runs[seed.key].test for seed in results.winner.seeds if seed.failure is None]
    errors = {
        "Pearson": [one["pearson"] for one in runs],
        "Spearman": [one["spearman"] for one in runs],
        "root mean squared error": [one["mse"] ** 0.5 for one in runs],
    }
    rows = [[kind, with_spread(*mean_std(values))] for kind, values in errors.items()]
    seeds = counted(len(runs), "seed")
    caption = f"Test rows, mean ± sample standard deviation over {seeds} of the winner."
    section = Section(name, title, tables=[Table(name, caption, text_frame(rows, ("", "score")))])
    predictions = results.predictions
    if "label" in predictions:
        test = predictions[predictions["split"] == "test"].dropna(subset=["label"])
        figure = plots.score_plot(test["label"].to_numpy(float), test["predicted"].to_numpy(float))
        caption = "Test rows of all seeds of the winner. On the line both scores are equal."
        section.plots = [Plot(name, caption, figure)]
    return section


def reliability(results: StudyResults) -> Section:
    """Return the reliability diagram and the expected calibration error of the winner."""
    name, title = f"{results.prefix}calibration", "Calibration"
    found = calibration(results.predictions)
    if found is None:
        return Section(name, title, [NO_PROBABILITIES])
    bins, error = found
    text = (
        f"Expected calibration error (Guo et al., 2017; {BINS} bins of equal width): "
        f"{with_spread(*error)}, mean over the seeds of the winner. 0 is perfect. "
        f"`{study_command('export', results.report, then=' model --calibrate')}` exports a model "
        "that is neither too sure nor too unsure."
    )
    caption = "Reliability diagram on the test rows, all seeds of the winner together."
    plot = Plot(f"{results.prefix}reliability", caption, plots.reliability_plot(bins))
    return Section(name, title, [text], plots=[plot])


def wrong_texts(results: StudyResults, restored: Restored, *, texts: bool) -> Section:
    """Return the test texts that the most seeds of the winner misclassify."""
    section = Section(f"{results.prefix}mistakes", "Most often misclassified test texts")
    if not texts:
        section.text = ["Texts of the task are left out."]
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
    """Return the test rows that seeds get wrong, with split and number of each in the data."""
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
        text_frame(rows, (*columns, "label", "predicted", "wrong seeds", "row")),
    )


def embeddings(found: Sequence[StudyResults], restored: Sequence[Restored]) -> Section:
    """Return t-SNE maps of the test rows by the winners' best seeds, and their geometry."""
    from sklearn.preprocessing import normalize

    section, rows = Section("embeddings", "Embeddings of the winner's best seed"), []
    for results, one in zip(found, restored, strict=True):
        embedded = _embedded(results, one)
        if isinstance(embedded, str):
            section.text.append(f"{results.name}: {embedded}" if len(found) > 1 else embedded)
            continue
        z, y = normalize(embedded.values), embedded.y
        geometry = f"{alignment(z, y):.3f}", f"{uniformity(z):.3f}"
        rows.append([results.name, embedded.description, str(len(z)), *geometry])
        if collapsed(z):
            text = "all embeddings are equal: the encoder collapsed. There is no map."
            section.text.append(f"{results.name}: {text}")
        else:
            section.plots.append(_map(results, embedded))
    if rows:
        caption = (
            "Normalized embeddings. Alignment: mean squared distance of rows of one class, smaller "
            "is better. Uniformity: smaller is more even, 0 if all are equal. Both as Wang and "
            "Isola (2020) define them, with classes as positive pairs."
        )
        header = ("study", "embedding", "test rows", "alignment", "uniformity")
        section.tables = [Table("embeddings", caption, text_frame(rows, header))]
    return section


def _embedded(results: StudyResults, restored: Restored) -> "Embeddings | str":
    """Return the embeddings of a winner, or why there are none."""
    if isinstance(restored, str):
        return restored
    best = results.winner.seeds[results.winner.reported[0]]
    weights = StudyStore(results.report.storage, results.report.study).load_weights(best.key)
    if weights is None:
        return "The weights of the winner's best seed are not stored. Repeat the search's command."
    try:
        found = embed_test_rows(*restored, weights)
    except RuntimeError as error:  # a tensor is missing or has another shape
        return f"The stored weights do not fit: {first_line(error)}"
    return "There is one test row, so there is no map." if len(found.values) < 2 else found


def _map(results: StudyResults, embedded: "Embeddings") -> Plot:
    points, vectors = tsne_map(embedded)
    stars = "" if vectors is None else " Stars are the label vectors."
    more = len(results.labels) - plots.MOST_IN_LEGEND
    rest = f" The legend leaves out {more} of {len(results.labels)} classes." if more > 0 else ""
    caption = (
        f"{results.name}: t-SNE of the test rows by true class.{stars}{rest} Distances between far "
        "groups have no meaning in t-SNE."
    )
    figure = plots.embedding_plot(points, embedded.y, results.labels, vectors)
    return Plot(f"{results.prefix}embeddings", caption, figure)


def class_scores(counts: Sequence[Numbers]) -> list[list[tuple[float, float | None]]]:
    """Return precision, recall and F1 of each class: mean and standard deviation over the seeds.

    Each seed has a confusion matrix, `[C, C]`, with true classes in rows.
    """
    scores = np.stack([scores_by_class(one) for one in counts])  # [seeds, C, 3]
    return [[mean_std(values) for values in one.T.tolist()] for one in scores.swapaxes(0, 1)]


def calibration(
    predictions: "pd.DataFrame",
) -> tuple[list[Bin], tuple[float, float | None]] | None:
    """Return the bins of all seeds together, and the expected calibration error on the test rows.

    The error is its mean and standard deviation over the seeds. None if no probabilities are
    stored.
    """
    names = [name for name in predictions if str(name).startswith("probability_")]
    test = predictions[predictions["split"] == "test"]
    test = test.dropna(subset=names) if names else test[:0]
    if test.empty:
        return None
    found = test.assign(
        confidence=test[names].max(axis=1).astype(float),
        correct=(test["label"] == test["predicted"]).astype(float),
    )
    errors = []
    for _, own in found.groupby("replicate"):
        gaps = [abs(accuracy - sure) * rows for sure, accuracy, rows in _bins(own)]
        errors.append(float(sum(gaps)) / len(own))
    return _bins(found), mean_std(errors)


def _bins(rows: "pd.DataFrame") -> list[Bin]:
    return [
        (float(own["confidence"].mean()), float(own["correct"].mean()), len(own))
        for _, own in rows.groupby(bins_of(rows["confidence"].to_numpy()))
    ]


def mistakes(predictions: "pd.DataFrame", most: int) -> "pd.DataFrame":
    """Return at most `most` test rows that seeds get wrong, by their share of wrong seeds.

    Columns: true class, seeds that predict another one, seeds that have the row in their test rows,
    and the most frequent wrong class. The index has split and number of the row in the task's data.
    """
    place = ["source", "source_row"]
    frame = predictions.assign(wrong=predictions["label"] != predictions["predicted"])
    found = frame.groupby(place).agg(
        label=("label", "first"), wrong=("wrong", "sum"), seeds=("wrong", "size")
    )
    found = found[found["wrong"] > 0].assign(share=lambda rows: rows["wrong"] / rows["seeds"])
    ascending = [False, False, True, True]
    found = found.sort_values(["share", "wrong", *place], ascending=ascending).head(most)
    wrong = frame[frame["wrong"]].set_index(place)["predicted"]
    names = wrong[wrong.index.isin(found.index)].groupby(level=place).agg(lambda one: one.mode()[0])
    return found.drop(columns="share").assign(predicted=names)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Embeddings of test rows, and the part of the model whose output they are."""

    values: Numbers  # [rows, d]
    y: npt.NDArray[np.int64]  # class of each row, [rows]
    vectors: Numbers | None  # label vectors in the same space, [C, d], if the method has some
    description: str


def embed_test_rows(
    study: "Study", spec: "SeedRunSpec", weights: "Mapping[str, Tensor]"
) -> Embeddings:
    """Return the embeddings of test rows by a trained seed run.

    LaCon's methods compare texts with label vectors after their projection g; the embeddings are
    those projections. The embeddings of other methods are the pooled states that the head reads.
    """
    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.encoders.lora import merged
    from sclsearch.methods.base import Model, encoder_pooling
    from sclsearch.methods.lacon import LabelMatching, vectors_of
    from sclsearch.training.data import tokenize_task
    from sclsearch.training.device import backend_here
    from sclsearch.training.evaluation import outputs_of

    classes = len(study.data.task.labels)
    encoder = load_encoder(study.model, study.model_name)
    model = Model(encoder, spec.stages[-1].new_modules(encoder, classes))
    model.load_state_dict(merged(weights, study.model, study.model_name))
    backend = backend_here()
    rows = spec.splits.test
    if len(rows.index) > MOST_ROWS:
        chosen = stream(0, "embeddings").choice(rows.index, MOST_ROWS, replace=False)
        rows = replace(rows, index=np.sort(chosen))
    tokenizer, used = load_tokenizer(study.model), {rows.split: rows.index}
    tokens = tokenize_task(study.data, tokenizer, spec.training.max_length, used=used)
    model, method = model.to(backend.device), spec.method

    pooling = encoder_pooling(getattr(method, "pooling", "mean"))
    description, vectors = POOLED.get(pooling, "the first token's last state"), None
    if isinstance(method, LabelMatching):
        description = "the projection g of the text embedding"
        vectors = vectors_of(model).detach().cpu().numpy().astype(np.float64)

    def embed(batch: "Batch") -> "Tensor":
        if isinstance(method, LabelMatching):
            embedded: Tensor = model.new_modules["g"](method.text_embeddings(model, batch))
            return embedded
        return model.embed(batch, pooling)

    values = outputs_of(model, embed, tokens, rows, None, backend).astype(np.float64)
    y = tokens[rows.split].y[rows.index].astype(np.int64)
    return Embeddings(values, y, vectors, description)


def tsne_map(embeddings: Embeddings) -> tuple[Numbers, Numbers | None]:
    """Return the t-SNE positions of rows, `[rows, 2]`, and of label vectors, `[C, 2]` or None.

    All vectors are normalized first, because the methods compare them by their cosine.
    """
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits

    parts = [embeddings.values, *([] if embeddings.vectors is None else [embeddings.vectors])]
    points = normalize(np.concatenate(parts))
    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", random_state=0)
    with threadpool_limits(1):  # with more threads, sums and so positions differ between runs
        found = tsne.fit_transform(points)
    count = len(embeddings.values)
    return found[:count], found[count:] if embeddings.vectors is not None else None


def collapsed(z: Numbers) -> bool:
    """Return True if all normalized embeddings are equal up to rounding."""
    return bool(np.ptp(z, axis=0).max() < 1e-5)


def alignment(z: Numbers, y: npt.NDArray[np.int64]) -> float:
    """Return the mean squared distance of two normalized embeddings of one class.

    Wang and Isola (2020, https://arxiv.org/abs/2005.10242), with α = 2; positive pairs are pairs
    of one class. Smaller is better; 0 if no class has two rows.
    """
    from scipy.spatial.distance import pdist

    same = pdist(y[:, None]) == 0
    return float(pdist(z, "sqeuclidean")[same].mean()) if same.any() else 0.0


def uniformity(z: Numbers) -> float:
    """Return the logarithm of the mean Gaussian potential of two normalized embeddings.

    Wang and Isola (2020), with t = 2. It is smaller the more evenly the embeddings cover the
    sphere; 0 is the largest value, where all embeddings are equal.
    """
    from scipy.spatial.distance import pdist

    return float(np.log(np.exp(-2 * pdist(z, "sqeuclidean")).mean()))
