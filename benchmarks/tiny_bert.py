"""Pretraining of a small BERT by masked words, on the texts of tasks without their labels.

    SCLSEARCH_DATA=DATA python -m benchmarks.tiny_bert FOLDER SOURCE:TEXTS …

Each source is a task, or a JSON Lines file with a column `sentence`, and the number of its texts:
the first ones of the training rows, repeated if there are fewer. FOLDER gets a checkpoint every 500
updates; the same command resumes with equal results, bit for bit, and at the end prints the digest
of the encoder. The vocabulary has the most frequent pieces of BERT's, and all letters. Unlike
MiniLM the encoder is not trained by contrast, and it is much weaker.

The encoder of comparison.md takes at most an hour on one core of an AMD EPYC, 0.4 s per update:

    python -m benchmarks.tiny_bert bert-4x256 sst2:60000 dbpedia:11060 amazon2:8000

That of starting_points.md:

    python -m benchmarks.tiny_bert tiny sst2:20000 dbpedia:8848 \
        DATA/fewclue/eprstmt/unlabeled.json:20000 \
        --layers 3 --width 192 --words 4000 --length 24 --precision fp32
"""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain, cycle, islice
from pathlib import Path

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from sclsearch.encoders.load import load_tokenizer
from sclsearch.encoders.models import model_digest, model_folder
from sclsearch.tasks import load_task
from sclsearch.tasks.tables import read_table

BATCH, LEARNING_RATE, MASKED, HEAD = 64, 5e-4, 0.15, 64
POSITIONS = 128
EVERY = 500
"""Updates between checkpoints."""
SPECIAL = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


def texts(sources: Sequence[str]) -> list[str]:
    """Return the texts of all sources."""
    found: list[str] = []
    for source in sources:
        name, _, count = source.rpartition(":")
        if Path(name).suffix:
            own = read_table(Path(name))["sentence"].tolist()
        else:
            split = load_task(name).splits["train"]
            own = [" ".join(columns) for columns in split.texts]
        found += islice(cycle(own), int(count))
    return found


def new_tokenizer(corpus: Sequence[str], words: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer; trained ones differ from run to run, so it is a part of MiniLM's."""
    whole = load_tokenizer(model_folder("minilm"))
    counts = Counter(chain.from_iterable(whole(list(corpus), verbose=False)["input_ids"]))

    def rank(token: str) -> tuple[bool, bool, int, int]:
        count, letter = counts[known[token]], token.removeprefix("##")
        needed = len(letter) == 1 and (letter.isascii() or count > 0)
        return token not in SPECIAL.values(), not needed, -count, known[token]

    known = whole.get_vocab()
    vocabulary = {token: n for n, token in enumerate(sorted(known, key=rank)[:words])}
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=BertWordPieceTokenizer(vocabulary, lowercase=True)._tokenizer,
        model_max_length=POSITIONS,
        **{f"{name}_token": token for name, token in SPECIAL.items()},
    )


def pretrain(folder: Path, corpus: Sequence[str], options: argparse.Namespace) -> None:
    """Train what is missing of tokenizer and encoder, and save both."""
    checkpoint = folder / "checkpoint.pt"
    if not checkpoint.exists():
        new_tokenizer(corpus, options.words).save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.width // HEAD,
        intermediate_size=4 * options.width,
        max_position_embeddings=POSITIONS,
    )
    model = BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, options.updates)
    draws, first = torch.Generator().manual_seed(0), 1
    parts = (model, optimizer, schedule)
    if checkpoint.exists():
        *loaded, drawn, noise, done = torch.load(checkpoint, weights_only=True)
        for part, state in zip(parts, loaded, strict=True):
            part.load_state_dict(state)  # type: ignore[attr-defined]
        draws.set_state(drawn)
        torch.set_rng_state(noise)
        first = done + 1
    started, before = time.process_time(), first - 1
    for update in range(first, options.updates + 1):
        chosen = torch.randint(len(corpus), (BATCH,), generator=draws).tolist()
        some = [corpus[row] for row in chosen]
        settings = {"truncation": True, "max_length": options.length, "padding": True}
        batch = tokenizer(some, **settings, return_tensors="pt")
        ids = batch["input_ids"]
        masked = (torch.rand(ids.shape, generator=draws) < MASKED) & (ids > len(SPECIAL) - 1)
        hidden = ids.masked_fill(masked, tokenizer.mask_token_id)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            states = model.bert(hidden, attention_mask=batch["attention_mask"]).last_hidden_state
            scores = model.cls(states[masked])
        loss = torch.nn.functional.cross_entropy(scores.float(), ids[masked])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if update % EVERY == 0 or update == options.updates:
            seconds = (time.process_time() - started) / (update - before)
            print(f"update {update}: loss {loss.item():.3f}, {seconds:.3f} s each", flush=True)
            state = [part.state_dict() for part in parts]
            state += [draws.get_state(), torch.get_rng_state(), update]
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
    model.bert.save_pretrained(folder)
    print(f"digest {model_digest(folder)[:12]}")


def main() -> None:
    """Pretrain an encoder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("sources", nargs="+", metavar="SOURCE:TEXTS")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256, help=f"a multiple of {HEAD}")
    parser.add_argument("--words", type=int, default=8_000, help="tokens of the vocabulary")
    parser.add_argument("--length", type=int, default=32, help="tokens of a text")
    parser.add_argument("--updates", type=int, default=8_000)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    pretrain(options.folder, texts(options.sources), options)


if __name__ == "__main__":
    main()
