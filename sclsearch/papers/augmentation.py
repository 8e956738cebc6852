"""Paraphrase files: EDA, or back-translation by Marian models with random sampling.

python -m sclsearch.papers.augmentation --help

Back-translation follows Edunov et al. (2018). The models are opus-mt (Tiedemann & Thottingal,
2020); Gunel et al. use fairseq's WMT'18 models.
"""

import copy
import importlib.util
import json
import os
import reprlib
import shlex
import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt

from sclsearch.arguments import Option, check_fields, declared, fields_of, option_words
from sclsearch.canonical import NotARegularFileError, digest, file_digest, read_file
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods.cmlm import CSSL
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import Unlabeled, check_unlabeled, draw_rows
from sclsearch.protocols.variants import for_rows, fresh
from sclsearch.randomness import seed_for
from sclsearch.study.resolve import find_study_protocol
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import CORPORA, as_task, check_data_dir, load_task
from sclsearch.tasks.base import TaskData, Texts
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.paraphrases import (
    EDA_NOTE,
    EDA_VERSION,
    FORMAT,
    READ,
    eda,
    paraphrase_source,
)

OWNER = "Helsinki-NLP"
NEEDED = ("config.json", "vocab.json", "source.spm", "target.spm")
MORE = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
# Most models on the hub have only the second file.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Target-language token of a multilingual model, by the language in the model's name.
TARGETS = {"zh": ">>cmn_Hans<<"}


@dataclass(frozen=True)
class EDA:
    """Easy data augmentation: the paraphrases that methods use without a file."""

    views: int = READ
    at_once = 1000

    def header(self) -> dict[str, Any]:
        return {"source": "EDA", "note": EDA_NOTE, "version": EDA_VERSION}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [eda(text, self.views) for text in texts]


@dataclass(frozen=True)
class Marian:
    """Back-translation of English texts, with every token sampled from the whole vocabulary.

    The model treats a text as one sentence and truncates it to its maximum length. The paraphrases
    are a pure function of the texts and the header, as far as the device's arithmetic is
    deterministic.

    Attributes:
        pivot: Pivot language of the translation.
        second_pivot: Pivot language of every second paraphrase. Default: zh with 2 views.
        temperature: Sampling temperature; higher values are noisier.
        seed: Seed of the sampling. Default: 0.
        models: Folder with the translation models (opus-mt-en-de/, …). Default: the Hugging Face
            hub.
    """

    pivot: Annotated[str, Option("Translation")] = "de"
    second_pivot: Annotated[str | None, Option("Translation")] = None
    temperature: Annotated[Annotated[float, Gt(0)], Option("Translation")] = 0.7
    seed: Annotated[int, Option("Translation")] = 0
    models: Annotated[Path | None, Option("Translation")] = None
    views: int = READ
    loaded: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    at_once = 64

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def pivots(self) -> list[str]:
        second = self.second_pivot or ("zh" if self.views == READ else None)
        return [self.pivot, *([second] if second else [])]

    def header(self) -> dict[str, Any]:
        """Return the settings that determine the paraphrases; download the models if necessary."""
        import torch

        if importlib.util.find_spec("sentencepiece") is None:
            raise SclsearchError(
                "--backend marian: sentencepiece is not installed. Install the extra 'augment' "
                "(pip install 'sclsearch[augment]')."
            )
        trips = " and ".join(f"en-{pivot}-en" for pivot in dict.fromkeys(self.pivots))
        directions = dict.fromkeys(d for p in self.pivots for d in (f"en-{p}", f"{p}-en"))
        header: dict[str, Any] = {
            "source": f"Marian opus-mt {trips}, sampled at temperature {self.temperature:g}",
            "models": {
                f"opus-mt-{direction}": digest(
                    {p.name: file_digest(p) for p in self.files(direction)}
                )
                for direction in directions
            },
            "temperature": self.temperature,
            "seed": self.seed,
            "versions": {name: version(name) for name in ("torch", "transformers")},
            "device": "cuda" if torch.cuda.is_available() else "cpu",
        }
        papers = set(self.pivots) <= {"de", "zh"}
        note = f"paraphrases: Marian {trips}, not the papers' Marian en-de-en/en-zh-en"
        return header if papers else {**header, "note": note}

    def paraphrases(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        clean, views = [" ".join(text.split()) for text in texts], []
        for view in range(self.views):
            pivot = self.pivots[view % len(self.pivots)]
            there = self._translated(clean, f"en-{pivot}", view)
            views.append(self._translated(there, f"{pivot}-en", view))
        return list(zip(*views, strict=True))

    def _translated(self, texts: list[str], direction: str, view: int) -> list[str]:
        some = [text for text in texts if text]  # a model invents a translation of an empty text
        seed = seed_for(self.seed, f"marian/{direction}/{view}/{digest(some)}")
        drawn = iter(self._sampled(some, direction, seed) if some else ())
        return [next(drawn) if text else "" for text in texts]

    def _sampled(self, texts: list[str], direction: str, seed: int) -> list[str]:
        """Return translations, at most twice as long as the longest text plus 10 tokens."""
        import torch

        tokenizer, model = self._model(direction)
        code = TARGETS.get(direction.partition("-")[2], "")
        prefix = f"{code} " if code in tokenizer.supported_language_codes else ""
        most = model.config.max_position_embeddings
        inputs = tokenizer(
            [prefix + text for text in texts],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=most,
        ).to(model.device)
        # The model's default is beam search, whose outputs are nearly always the same.
        config = copy.deepcopy(model.generation_config)
        config.update(
            do_sample=True,
            num_beams=1,
            early_stopping=False,
            temperature=self.temperature,
            top_k=0,
            top_p=1.0,
            max_length=min(most, 2 * inputs["input_ids"].shape[1] + 10),
        )
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode():
            torch.manual_seed(seed)
            drawn = model.generate(**inputs, generation_config=config)
        return [
            " ".join(t.split()) for t in tokenizer.batch_decode(drawn, skip_special_tokens=True)
        ]

    def _model(self, direction: str) -> Any:
        """Return the tokenizer and the model of a direction, on the GPU if there is one."""
        if direction in self.loaded:
            return self.loaded[direction]
        import torch
        from transformers import MarianMTModel, MarianTokenizer

        folder = self.files(direction)[0].parent
        try:
            with warnings.catch_warnings():
                # transformers recommends a package for a normalization that it does not call.
                warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
                tokenizer = MarianTokenizer.from_pretrained(str(folder))
            model: Any = MarianMTModel.from_pretrained(str(folder), dtype=torch.float32)
        except Exception as error:
            raise SclsearchError(
                f"{folder}: transformers cannot load the files as a Marian model: "
                f"{first_line(error).rstrip('.')}. Download the model again."
            ) from error
        model.to("cuda" if torch.cuda.is_available() else "cpu")
        self.loaded[direction] = tokenizer, model
        return self.loaded[direction]

    def files(self, direction: str) -> list[Path]:
        """Return the files of a direction that determine its translations."""
        name = f"opus-mt-{direction}"
        folder = _download(name) if self.models is None else self.models.expanduser() / name
        there = [file for file in (*NEEDED, *MORE, *WEIGHTS) if (folder / file).is_file()]
        missing = [file for file in NEEDED if file not in there]
        if missing or not set(WEIGHTS) & set(there):
            raise SclsearchError(
                f"{folder}: lacks {', '.join(missing or WEIGHTS[:1])}. Take the files from "
                f"{OWNER}/{name} on the hub."
            )
        return [folder / file for file in there if file != WEIGHTS[1] or WEIGHTS[0] not in there]


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    hub = f"{OWNER}/{name}"
    try:
        folder = Path(snapshot_download(hub, allow_patterns=[*NEEDED, *MORE, WEIGHTS[0]]))
        if not (folder / WEIGHTS[0]).is_file():
            folder = Path(snapshot_download(hub, allow_patterns=[*NEEDED, *MORE, WEIGHTS[1]]))
    except (OSError, ValueError) as error:  # all errors of huggingface_hub
        raise SclsearchError(
            f"--backend marian: cannot download {hub} ({type(error).__name__}). Check the pivots "
            f"and the network, or give --models FOLDER with the folder {name} in it."
        ) from error
    return folder


def drawn_texts(
    data: TaskData,
    protocol: Protocol | None,
    size: Size | None,
    replicates: int | None = None,
    unlabeled: Unlabeled | None = None,
) -> tuple[Texts, ...]:
    """Return the distinct training texts that the replicates of a protocol draw, but blank ones.

    Without a protocol these are all training texts. `replicates` is the protocol's number by
    default; those beyond it are new ones, as `confirm` draws them.
    """
    texts = data.splits["train"].texts
    check_unlabeled(protocol, data.splits["train"].unlabeled, size, unlabeled)
    rows: Sequence[int] = range(len(texts))
    if protocol is not None:
        count = replicates or protocol.replicates
        data = protocol.data(data)
        texts = data.splits["train"].texts
        protocol, _ = for_rows(protocol, data, None)
        own = min(count, protocol.replicates)
        again = fresh(protocol, max(count - own, 1))
        drawn = [protocol.replicate(number) for number in range(own)]
        drawn += [again.replicate(number) for number in range(count - own)]
        rows = [
            row
            for one in drawn
            for row in draw_rows(protocol, data, size, unlabeled, one).without_labels.index
        ]
    found = dict.fromkeys(texts[row] for row in rows)
    return tuple(row for row in found if any(text.strip() for text in row))


def write(
    path: Path,
    about: Mapping[str, Any],
    rows: Sequence[Texts],
    backend: EDA | Marian,
) -> Iterator[int]:
    """Write a header and the paraphrases of each row; yield the number of rows in the file.

    The first number is that of earlier runs, then one follows after each batch. The texts of a pair
    are paraphrased separately. The header has `about`, the origin of texts and paraphrases. The
    batches depend on the distinct `rows` alone, so that a resumed file equals an uninterrupted one.

    Raises:
        SclsearchError: The file is no paraphrase file, or its header differs.
    """
    first = {
        "paraphrases": FORMAT,
        **about,
        "texts": {"count": len(rows), "digest": digest(rows)},
        "date": datetime.now(UTC).date().isoformat(),
        "sclsearch": version("sclsearch"),
    }
    done = _open(path, first)
    finished = len(done)
    yield finished
    # Rows of similar length form a batch; the longest, which need most memory, come first.
    order = sorted(rows, key=lambda row: (-sum(map(len, row)), row))
    for start in range(0, len(order), backend.at_once):
        batch = order[start : start + backend.at_once]
        if new := [row for row in batch if row not in done]:
            texts = list(dict.fromkeys(text for row in batch for text in row if text.strip()))
            found = dict(zip(texts, backend.paraphrases(texts), strict=True))
            with path.open("a", encoding="utf-8") as file:
                file.writelines(_line(_record(row, found, backend.views)) for row in new)
            finished += len(new)
            yield finished


def _record(row: Texts, found: Mapping[str, Sequence[str]], views: int) -> dict[str, Any]:
    # Where the back-end found nothing, and for an empty text of a pair, the paraphrase is the text.
    by_text = [
        [view if view.strip() else text for view in found.get(text, ("",) * views)] for text in row
    ]
    return {"text": row, "paraphrases": list(zip(*by_text, strict=True))}


def _open(path: Path, first: Mapping[str, Any]) -> set[Texts]:
    """Create the file or check its header; return its rows, without an incomplete last line."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_line(first), encoding="utf-8")
        return set()
    here, content = json.loads(_line(first)), b""
    try:
        content = read_file(path)
        there = json.loads(content[: content.index(b"\n")])
        differing = [
            f"{key} is {reprlib.repr(there.get(key))} there and {reprlib.repr(here.get(key))} here"
            for key in dict.fromkeys([*here, *there])
            if key != "date" and there.get(key) != here.get(key)
        ]
    except (ValueError, AttributeError, NotARegularFileError):
        differing = ["its first line is no header"]
    if differing:
        raise SclsearchError(
            f"--out {path}: is no paraphrase file of these options: {'; '.join(differing)}. Give "
            "the options that it was begun with, or name another file."
        )
    os.truncate(path, content.rfind(b"\n") + 1)
    return set(paraphrase_source(path).rows)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


SHOW_SECONDS = 30.0
TEXTS = ("task", "train_size", "shots", "unlabeled", "protocol", "seeds", "data_dir")
"""Options that `sclsearch tune` has too."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write paraphrases of training texts to a file for the option --paraphrases of a search.

    Run the same command again to resume.
    """
    parser = ArgumentParser("python -m sclsearch.papers.augmentation", description=main.__doc__)
    own = declared(CustomTask, Marian)
    options = {name: declared(StudySpec, RunOptions)[name] for name in TEXTS} | own
    kinds: Mapping[str, dict[str, Any]] = {
        "task": {"required": True},
        "text": {"action": "append"},
        "regression": {"action": "store_const", "const": True},
    }
    for name, (_, _, text) in options.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, help=text.replace("%", "%%"), **kinds.get(name, {}))
    parser.add_argument("--backend", required=True, choices=("marian", "eda"))
    parser.add_argument(
        "--views",
        type=int,
        help="Paraphrases per text. Default: 2, or 3 for a "
        "protocol that adds them to the training rows.",
    )
    parser.add_argument("--out", default="paraphrases.jsonl", type=Path, help="Output file.")
    given = vars(parser.parse_args(arguments))
    try:
        _augment({name: value for name, value in given.items() if value is not None})
    except SclsearchError as error:
        parser.exit(error.code, f"{error}\n")


def _augment(values: Mapping[str, Any]) -> None:
    task = as_task(values["task"], **fields_of(CustomTask, values))
    spec = StudySpec(**{**fields_of(StudySpec, values), "task": task})
    size = Size.of(spec.train_size, spec.shots)
    options = RunOptions(**fields_of(RunOptions, values))
    rules = None
    if spec.protocol or size or not isinstance(task, str):
        rules = find_study_protocol(spec, CSSL, size)
    elif options.seeds is not None:
        raise SclsearchError("--seeds: needs a training size or a protocol. Give one of them.")
    count = options.seeds or rules.replicates if rules else 0
    check_data_dir(task, options.data_dir)
    backend = _backend(values, rules.joined if rules else 0, task)
    source = backend.header()
    data = load_task(task, options.data_dir, on_folds=rules is None or rules.name == "plain")
    rows = drawn_texts(data, rules, size, count, spec.unlabeled)
    about = {
        **source,
        "backend": values["backend"],
        "views": backend.views,
        "task": data.task.name,
        "size": str(size or "full"),
        "protocol": rules and rules.name,
        "replicates": count,
        **({"unlabeled": spec.unlabeled} if spec.unlabeled else {}),
        "data": data.digest,
    }
    sys.stderr.write(f"{len(rows)} texts of {data.task.name}: {source['source']}\n")
    shown = time.monotonic()
    for done in write(values["out"], about, rows, backend):
        if time.monotonic() - shown > SHOW_SECONDS:
            shown = time.monotonic()
            sys.stderr.write(f"{done}/{len(rows)} texts\n")
    _show(values["out"], backend.views, source)
    given: dict[str, object] = {"--method": "cssl"}
    given |= {f"--{name.replace('_', '-')}": values.get(name) for name in TEXTS[1:]}
    if rules:
        given |= _fewer(rules, count)
        if rules.joined:
            given["--method"] = "ce" if data.task.regression else "scl"
    given["--paraphrases"] = values["out"]
    command = ["sclsearch", "tune", *as_options(task), *option_words(given)]
    sys.stdout.write(f"Use it: {shlex.join(command)}\n")


def _fewer(protocol: Protocol, seeds: int) -> dict[str, object]:
    """Return the options of a search with fewer seeds than the protocol has."""
    rule = "mean" if seeds < protocol.rule.least else None
    return {"--seeds": seeds if seeds < protocol.replicates else None, "--rule": rule}


def _backend(values: Mapping[str, Any], joined: int, task: str | CustomTask) -> EDA | Marian:
    options = fields_of(Marian, values)
    views = options.pop("views", max(READ, joined))
    if views < max(READ, joined):
        raise SclsearchError(
            f"--views: must be at least {max(READ, joined)}, the number that a method or the "
            f"protocol reads, got {views}. Leave it out."
        )
    if values["backend"] == "eda":
        if options:
            named = ", ".join(f"--{name.replace('_', '-')}" for name in options)
            raise SclsearchError(f"{named}: does not apply to --backend eda. Leave it out.")
        return EDA(views)
    if isinstance(task, str) and task in CORPORA and not CORPORA[task].english:
        raise SclsearchError(
            f"--backend marian: needs English texts, but those of {task} are Chinese. Take "
            "--backend eda."
        )
    return Marian(views=views, **options)


def _show(path: Path, views: int, source: Mapping[str, Any]) -> None:
    """Print the numbers of texts, of unchanged paraphrases and of equal pairs of a file."""
    found = paraphrase_source(path, views).rows
    pairs = [
        part for row, made in found.items() for one in made for part in zip(row, one, strict=True)
    ]
    same = sum(text.split() == one.split() for text, one in pairs)
    equal = sum(made[0] == made[1] for made in found.values())
    note = f"Reports will say: {source['note']}\n" if "note" in source else ""
    sys.stdout.write(
        f"{path}: {len(found)} texts with {views} paraphrases each.\n{same} of {len(pairs)} "
        f"paraphrases are the text itself; of {equal} texts the first two are the same.\n{note}"
    )


if __name__ == "__main__":
    main()
