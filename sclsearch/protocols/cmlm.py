"""Protocols of CMLM (Luo et al., 2021, sections 4.1, 4.3, 4.5 and 4.7).

The paper's MRPC has GLUE's 3.7k training rows. Its MRPC scores fit the 1725 test rows of the
original corpus; GLUE has 408. Every subset is drawn independently, so subsets overlap; none has a
row twice. On MNLI-MM the matched rows are validation and all mismatched rows are the test.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sclsearch.protocols.base import Protocol, Replicate, fixed_training
from sclsearch.protocols.draws import draw_at_random
from sclsearch.protocols.splits import split_dev_at_random
from sclsearch.selection.rules import MEAN

SUBSETS = 5
# The paper's seeds are 31, 42 and 53; further replicates continue in steps of 11.
FIRST_SEED, SEED_STEP = 31, 11
METRICS: Mapping[str, str] = dict.fromkeys(("mrpc", "qqp"), "accuracy")

# Epochs of (fine-tuning, post-training) by the number of training rows: about 700 updates with
# batches of 16, and 650 with batches of 8.
EPOCHS: Mapping[int, tuple[int, int]] = {20: (350, 200), 100: (100, 50), 1000: (10, 5)}
FULL_EPOCHS = 3
# Values of the authors' README and of transformers 2.8; the paper trains all methods alike.
SHARED: Mapping[str, object] = {"warmup_ratio": 0.0, "weight_decay": 0.0, "max_grad_norm": 1.0}
FULL_TRAINING: Mapping[str, object] = {
    **SHARED,
    "learning_rate": 3e-5,
    "epochs": FULL_EPOCHS,
    "post_learning_rate": 3e-5,
    "post_epochs": FULL_EPOCHS,
}

# The paper's 500 validation rows are more than RTE has. Its RTE scores are multiples of 1/77, so
# its test has the 77 rows that 200 validation rows leave. No other test is smaller.
cmlm_split = partial(split_dev_at_random, sizes=(500, 200), least=77, most={"qqp": 2000})


def few_shot_replicate(number: int) -> Replicate:
    """Return replicate r: subset r mod 5, trained with seed r div 5."""
    turn, subset = divmod(number, SUBSETS)
    seed = FIRST_SEED + SEED_STEP * turn
    return Replicate(number, subset, initialization=seed, order=seed, noise=seed)


def full_replicate(number: int) -> Replicate:
    """Return replicate r: all rows, trained with seed r."""
    return replace(few_shot_replicate(number * SUBSETS), number=number)


def few_shot_training(rows: int, _batch_size: int) -> Mapping[str, object]:
    """Return the epochs of post-training and fine-tuning for a few-shot run.

    The paper's sizes use its epochs. Other sizes use about as many updates as the paper's. The
    minimum is 3 epochs, as on full data.
    """
    between = [max(FULL_EPOCHS, total // -(-rows // size)) for total, size in ((700, 16), (650, 8))]
    epochs, post_epochs = EPOCHS.get(rows, between)
    return {**SHARED, "epochs": epochs, "post_epochs": post_epochs}


FEW_SHOT = Protocol(
    name="cmlm-fewshot",
    summary="Luo et al.: N training rows as they fall, 5 subsets x 3 seeds, mean of 15",
    split=cmlm_split,
    replicates=15,
    rule=MEAN,
    evaluate=100,
    keep="best",
    model="roberta-base",
    few_shot=True,
    sizes=tuple(map(str, EPOCHS)),
    draw=draw_at_random,
    metrics=METRICS,
    training=few_shot_training,
    replicate=few_shot_replicate,
)

FULL = replace(
    FEW_SHOT,
    name="cmlm-full",
    summary="Luo et al.: all training rows, 3 seeds, 3 epochs in both phases, mean",
    replicates=3,
    few_shot=False,
    draw=None,
    training=partial(fixed_training, FULL_TRAINING),
    replicate=full_replicate,
)
