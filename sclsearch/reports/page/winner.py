"""Statistics of a study's winner on the test rows: classes, calibration, mistakes, embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods import is_own
from sclsearch.randomness import stream
from sclsearch.reports.comparison_tables import text_frame
from sclsearch.reports.page import figures
from sclsearch.reports.report import Report, SeedLine, tested_winner
from sclsearch.reports.words import with_spread
from sclsearch.selection.rules import mean_std
from sclsearch.store.runs import RunStore
from sclsearch.store.studies import StudyStore
from sclsearch.study.restore import restore_seed_run
from sclsearch.tasks.metrics import bins_of, scores_by_class

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
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


def best_seed(report: Report) -> SeedLine:
    """Return the winner's seed run with the best validation score."""
    winner = tested_winner(report)
    return winner.seeds[winner.reported[0]]


def restore_winner(
    report: Report, data_dir: Path | None, method: "str | type[Method] | None"
) -> Restored:
    """Return the winner's best seed run, restored with the task's rows and the encoder."""
    run = RunStore(report.storage).get(best_seed(report).key)
    assert run is not None
    try:
        return restore_seed_run(run, data_dir, method if is_own(report.method_place) else None)
    except SclsearchError as error:
        return f"The task's rows, the encoder or the method are not available. {error}"


def class_table(counts: Sequence[Numbers], labels: Sequence[str]) -> "pd.DataFrame":
    """Return precision, recall and F1 of each class, mean ± std over confusion matrices."""
    rows = np.mean(counts, axis=0).sum(1)
    cells = [
        (label, *(with_spread(*score) for score in scores), f"{number:g}")
        for label, scores, number in zip(labels, class_scores(counts), rows, strict=True)
    ]
    return text_frame(cells, ("class", "precision", "recall", "F1", "rows"))


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
    test = predictions[predictions["split"] == "test"].dropna(subset=names)
    if not names or test.empty:
        return None
    rows = test[["replicate"]].assign(
        sure=test[names].max(axis=1).astype(float), right=test["label"] == test["predicted"]
    )
    rows["bin"] = bins_of(rows["sure"].to_numpy())

    def binned(own: "pd.DataFrame") -> list[Bin]:
        groups = own.groupby("bin").agg({"sure": "mean", "right": "mean", "bin": "size"})
        return [*groups.itertuples(index=False, name=None)]

    errors = [
        sum(count * abs(sure - right) for sure, right, count in binned(own)) / len(own)
        for _, own in rows.groupby("replicate")
    ]
    return binned(rows), mean_std(errors)


def mistake_table(predictions: "pd.DataFrame", study: "Study") -> "pd.DataFrame":
    """Return the test texts that the most seeds of the winner misclassify."""
    import pandas as pd

    test = predictions[(predictions["split"] == "test") & predictions["label"].notna()]
    parts = []
    for replicate, own in test.groupby("replicate"):
        tested = study.splits(int(str(replicate))).test
        numbers = tested.index[own["row"].to_numpy(dtype=np.int64)]
        parts.append(own.assign(source=tested.split, source_row=numbers))
    texts = ("first text", "second text") if study.data.task.pair else ("text",)
    rows = [
        (
            *study.data.splits[source].texts[row],
            label,
            predicted,
            f"{wrong} of {seeds}",
            study.data.splits[source].row_id(row),
        )
        for (source, row), label, wrong, seeds, predicted in mistakes(
            pd.concat(parts), MOST_MISTAKES
        ).itertuples()
    ]
    return text_frame(rows, (*texts, "label", "predicted", "wrong seeds", "row"))


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


def embeddings_of(report: Report, restored: Restored) -> "Embeddings | str":
    """Return the embeddings of the test rows by the winner's best seed, or why there are none."""
    if isinstance(restored, str):
        return restored
    weights = StudyStore(report.storage, report.study).load_weights(best_seed(report).key)
    if weights is None:
        return "The weights of the winner's best seed are not stored. Repeat the search's command."
    try:
        found = embed_test_rows(*restored, weights)
    except RuntimeError as error:  # a tensor is missing or has another shape
        return f"The stored weights do not fit: {first_line(error)}"
    if len(found.values) < 2:
        return "There is one test row, so there is no map."
    if collapsed(found.values):
        return "All embeddings are equal: the encoder collapsed. There is no map."
    return found


def embed_test_rows(
    study: "Study", spec: "SeedRunSpec", weights: "Mapping[str, Tensor]"
) -> Embeddings:
    """Return the embeddings of test rows by a trained seed run.

    LaCon's methods compare texts with label vectors after their projection g; the embeddings are
    those projections. The embeddings of other methods are the pooled states that the head reads.
    """
    from sclsearch.encoders.load import load_encoder, load_tokenizer
    from sclsearch.encoders.lora import merged
    from sclsearch.methods.base import Model, encoder_pooling, new_modules
    from sclsearch.methods.lacon import LabelMatching, vectors_of
    from sclsearch.training.data import tokenize_task
    from sclsearch.training.device import backend_here
    from sclsearch.training.evaluation import outputs_of

    classes = len(study.data.task.labels)
    encoder = load_encoder(study.model, study.model_name)
    model = Model(encoder, new_modules(spec.stages, encoder, classes))
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


def map_of(embedded: Embeddings, labels: Sequence[str]) -> "Figure":
    """Return a t-SNE map of embeddings."""
    points, vectors = tsne_map(embedded)
    return figures.embedding_plot(points, embedded.y, labels, vectors)


def collapsed(values: Numbers) -> bool:
    """Return True if all embeddings have the same direction up to rounding."""
    from sklearn.preprocessing import normalize

    return bool(np.ptp(normalize(values), axis=0).max() < 1e-5)
