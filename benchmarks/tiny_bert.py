"""Pretraining of the small BERT of starting_points.py on the texts at hand, by masked words.

    python -m benchmarks.tiny_bert DATA FOLDER

DATA has `glue/SST-2/train.tsv`, `dbpedia_14/train.csv` and `fewclue/eprstmt/unlabeled.json`. The
encoder has 3 layers of width 192 and learns for 8,000 updates of 64 texts, in about 30 minutes on
one core. Unlike MiniLM it is not trained by contrast, and it is much weaker.
"""

import csv
import json
import sys
from pathlib import Path

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

UPDATES, BATCH, LENGTH, LEARNING_RATE, MASKED = 8_000, 64, 24, 5e-4, 0.15
SPECIAL = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


def texts(data: Path) -> list[str]:
    """Return up to 20,000 texts of each source."""
    lines = (data / "glue/SST-2/train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    english = [line.partition("\t")[0] for line in lines]
    with (data / "dbpedia_14/train.csv").open(encoding="utf-8", newline="") as file:
        articles = [row[2] for row in csv.reader(file)]
    reviews = (data / "fewclue/eprstmt/unlabeled.json").read_text(encoding="utf-8").split("\n")
    chinese = [json.loads(line)["sentence"] for line in reviews if line.strip()]
    return english[:20_000] + articles * 8 + chinese[:20_000]


def main() -> None:
    """Train a lower-casing WordPiece tokenizer and the encoder, and save both."""
    data, folder = map(Path, sys.argv[1:])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    corpus = texts(data)
    words = BertWordPieceTokenizer(lowercase=True)
    words.train_from_iterator(corpus, vocab_size=4_000, show_progress=False)
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words._tokenizer,
        model_max_length=128,
        **{f"{name}_token": token for name, token in SPECIAL.items()},
    )
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=192,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=768,
        max_position_embeddings=128,
    )
    model = BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, UPDATES)
    draws = torch.Generator().manual_seed(0)
    for update in range(1, UPDATES + 1):
        chosen = torch.randint(len(corpus), (BATCH,), generator=draws).tolist()
        some = [corpus[row] for row in chosen]
        options = {"truncation": True, "max_length": LENGTH, "padding": True}
        batch = tokenizer(some, **options, return_tensors="pt")
        ids = batch["input_ids"]
        masked = (torch.rand(ids.shape, generator=draws) < MASKED) & (ids > len(SPECIAL) - 1)
        hidden = ids.masked_fill(masked, tokenizer.mask_token_id)
        states = model.bert(hidden, attention_mask=batch["attention_mask"]).last_hidden_state
        loss = torch.nn.functional.cross_entropy(model.cls(states[masked]), ids[masked])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if update % 500 == 0:
            print(f"update {update}: loss {loss.item():.3f}", flush=True)
    model.bert.save_pretrained(folder)


if __name__ == "__main__":
    main()
