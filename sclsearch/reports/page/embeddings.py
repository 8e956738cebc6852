"""Embeddings of the test rows by the winner, their t-SNE map, and their geometry."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.methods.base import Batch, Model, encoder_pooling
from sclsearch.methods.lacon import LabelMatching, vectors_of
from sclsearch.protocols.base import Rows
from sclsearch.randomness import stream
from sclsearch.study.study import Study
from sclsearch.training.data import tokenize_task
from sclsearch.training.device import backend_here
from sclsearch.training.evaluation import outputs_of
from sclsearch.training.spec import SeedRunSpec

Numbers = npt.NDArray[np.float64]

MOST_ROWS = 2000
"""Number of test rows above which a random subset is embedded, because of t-SNE's time."""
PERPLEXITY = 30.0
POOLED = {
    "mean": "the mean of the encoder's last states",
    "cls_pooled": "the output of the pretrained pooler",
}


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Embeddings of test rows.

    Attributes:
        values: Embeddings, `[rows, d]`.
        y: Class of each row, `[rows]`.
        vectors: Label vectors in the same space, `[C, d]`; None for a method without them.
        description: The part of the model whose output they are.
    """

    values: Numbers
    y: npt.NDArray[np.int64]
    vectors: Numbers | None
    description: str


def embed_test_rows(study: Study, spec: SeedRunSpec, weights: Mapping[str, Tensor]) -> Embeddings:
    """Return the embeddings of test rows by a trained seed run.

    LaCon's methods compare texts with label vectors after their projection g; the embeddings are
    those projections. The embeddings of other methods are the pooled states that the head reads.
    """
    classes = len(study.data.task.labels)
    encoder = load_encoder(study.model, study.model_name)
    model = Model(encoder, spec.stages[-1].new_modules(encoder, classes))
    model.load_state_dict(weights)
    backend = backend_here()
    rows = _some(spec.splits.test)
    tokenizer, used = load_tokenizer(study.model), {rows.split: rows.index}
    tokens = tokenize_task(study.data, tokenizer, spec.training.max_length, used=used)
    model, method = model.to(backend.device), spec.method

    pooling = encoder_pooling(getattr(method, "pooling", "mean"))
    description, vectors = POOLED.get(pooling, "the first token's last state"), None
    if isinstance(method, LabelMatching):
        description = "the projection g of the text embedding"
        vectors = vectors_of(model).detach().cpu().numpy().astype(np.float64)

    def embed(batch: Batch) -> Tensor:
        if isinstance(method, LabelMatching):
            embedded: Tensor = model.new_modules["g"](method.text_embeddings(model, batch))
            return embedded
        return model.embed(batch, pooling)

    values = outputs_of(model, embed, tokens, rows, None, backend).astype(np.float64)
    y = tokens.splits[rows.split].y[rows.index].astype(np.int64)
    return Embeddings(values, y, vectors, description)


def _some(rows: Rows) -> Rows:
    if len(rows.index) <= MOST_ROWS:
        return rows
    chosen = stream(0, "embeddings").choice(rows.index, MOST_ROWS, replace=False)
    return Rows(rows.split, np.sort(chosen))


def tsne_map(embeddings: Embeddings) -> tuple[Numbers, Numbers | None]:
    """Return the t-SNE positions of rows, `[rows, 2]`, and of label vectors, `[C, 2]` or None.

    All vectors are normalized first, because the methods compare them by their cosine.
    """
    from sklearn.manifold import TSNE
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
    return bool(np.ptp(normalize(z), axis=0).max() < 1e-5)


def alignment(z: Numbers, y: npt.NDArray[np.int64]) -> float:
    """Return the mean squared distance of two normalized embeddings of one class.

    Wang and Isola (2020, https://arxiv.org/abs/2005.10242), with α = 2; positive pairs are pairs
    of one class. Smaller is better; 0 if no class has two rows.
    """
    squared = _squared_distances(z)
    pairs = np.triu(y[:, None] == y[None, :], 1)
    return float(squared[pairs].mean()) if pairs.any() else 0.0


def uniformity(z: Numbers) -> float:
    """Return the logarithm of the mean Gaussian potential of two normalized embeddings.

    Wang and Isola (2020), with t = 2. It is smaller the more evenly the embeddings cover the
    sphere; 0 is the largest value, where all embeddings are equal.
    """
    upper = np.triu_indices(len(z), 1)
    return float(np.log(np.exp(-2 * _squared_distances(z)[upper]).mean()))


def normalize(z: Numbers) -> Numbers:
    """Return vectors of length 1; zero vectors stay zero."""
    unit: Numbers = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    return unit


def _squared_distances(z: Numbers) -> Numbers:
    return np.clip(2 - 2 * normalize(z) @ normalize(z).T, 0, 4)
