"""Protocols of Gunel et al., 2021, sections 4.1 and 4.2 (arXiv v1)."""

from collections.abc import Mapping
from dataclasses import replace

from sclsearch.protocols.base import Protocol
from sclsearch.protocols.draws import draw_subset
from sclsearch.protocols.splits import gunel_overlap_split, gunel_split
from sclsearch.selection.rules import Rule, Top

# The paper reports accuracy everywhere, on CoLA too.
ACCURACY: Mapping[str, str] = dict.fromkeys(("cola", "mrpc", "qqp"), "accuracy")


def few_shot_training(rows: int, batch_size: int) -> Mapping[str, object]:
    """Return the epochs of training and of a linear probe: at least 100 updates and 10 epochs.

    The paper does not state its training length. With 20 rows an epoch has two updates, so the 10
    epochs of full data are far too few.
    """
    epochs = max(10, -(-100 * min(batch_size, rows) // rows))
    return {"epochs": epochs, "probe_epochs": epochs}


FULL = Protocol(
    name="gunel-full",
    summary="Gunel et al.: all training rows, 10 seeds, ranked by their mean, best seed reported",
    split=gunel_split,
    replicates=10,
    rule=Rule(score=Top(), report=Top(1)),
    evaluate="epoch",
    keep="best",
    model="roberta-large",
    metrics=ACCURACY,
)

FULL_OVERLAP = replace(
    FULL,
    name="gunel-full-overlap",
    summary="gunel-full with 500 validation rows even where they overlap the test rows",
    split=gunel_overlap_split,
)

FEW_SHOT = Protocol(
    name="gunel-fewshot",
    summary="Gunel et al.: N training rows, 10 subsets, top 3 of 10 by validation",
    split=gunel_split,
    replicates=10,
    rule=Rule(score=Top(3), report=Top(3)),
    evaluate=20,  # "at various epochs" (section 4.1); with 20 rows an epoch is 2 updates
    keep="best",
    model="roberta-large",
    few_shot=True,
    draw=draw_subset,
    metrics=ACCURACY,
    training=few_shot_training,
)

# Section 4.2: three augmented examples per supervised example.
NOISY = replace(
    FEW_SHOT,
    name="gunel-noisy",
    summary="gunel-fewshot with three paraphrases of each training row among them",
    joined=3,
)
