"""Resolution of user options into a study, with every error in the options reported."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sclsearch.encoders.load import beginnings, load_tokenizer
from sclsearch.encoders.models import (
    ALIASES,
    encoder_traits,
    has_pooler,
    model_digest,
    model_folder,
)
from sclsearch.errors import SclsearchError, listed, lookup
from sclsearch.methods import METHODS, NamedMethod, find_method, is_own, method_class
from sclsearch.methods.base import Method, share_alone
from sclsearch.methods.custom import load_custom_sampler
from sclsearch.methods.fields import field_types, typed
from sclsearch.protocols import find_protocol
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import check_unlabeled
from sclsearch.protocols.variants import for_rows, fresh, laptop, with_folds
from sclsearch.selection.rules import parse_rule
from sclsearch.spaces.load import (
    LENGTHS,
    PAPER,
    PRACTICAL,
    covering_length,
    default_values,
    find_space,
    load_space,
    practical_file,
    practical_space,
    shipped_spaces,
)
from sclsearch.spaces.space import Space, Values
from sclsearch.study.spec import Precision, RunOptions, StudySpec
from sclsearch.study.study import BATCH_SIZES, FieldDefault, Study, declared, from_source
from sclsearch.tasks import TASKS, load_task
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.metrics import METRICS
from sclsearch.tasks.paraphrases import READ, ParaphraseSource, paraphrase_source
from sclsearch.training.spec import Numerics

MOST_TEXTS = 2_000
"""Most training texts whose lengths are counted; they are spread evenly over the rows."""
ON_CPU: Mapping[Precision, Numerics] = {"auto": "cpu-fp32", "fp32": "cpu-fp32", "bf16": "cpu-bf16"}
ON_GPU: Mapping[Precision, Numerics] = {
    "fp32": "cuda-fp32",
    "tf32": "cuda-tf32",
    "bf16": "cuda-bf16",
}


def resolve(spec: StudySpec, options: RunOptions) -> Study:
    """Return the study that the options describe.

    The function checks names and options first, then files; it downloads an encoder last.

    Raises:
        SclsearchError: An option is wrong, or a file, a model or data is not available.
    """
    named = find_method(spec.method)
    method = named.kind
    size = Size.of(spec.train_size, spec.shots)
    protocol = find_study_protocol(spec, method, size)
    if spec.folds is not None:
        with_folds(protocol, spec.folds)  # raises if the protocol defines its own rows
    spec = replace(spec, settings=typed(method, spec.settings, "--set "))
    numerics = _numerics(spec.precision, options)
    papers_model = (laptop(protocol) if spec.scale else protocol).model
    model_name = papers_model if spec.model is None else str(spec.model)
    spec = _with_space(spec, named)
    whole = _loaded(spec, options, model_name, on_folds=protocol.name == "plain")
    check_unlabeled(protocol, whole.splits["train"].unlabeled, size, spec.unlabeled)
    protocol, configs = for_rows(protocol, whole, spec.folds)
    if spec.scale:
        protocol = laptop(protocol)
    if spec.fresh is not None:
        protocol = fresh(protocol, spec.fresh, spec.first_fresh)
    rule = protocol.rule if options.rule is None else parse_rule(options.rule)
    seeds = protocol.replicates if options.seeds is None else options.seeds
    rule.check(seeds)
    data = protocol.data(whole)
    _check_task(named, data, protocol)
    folder = model_folder(model_name)
    usual = _default_space(spec, protocol, size, data, folder)
    space = _space(spec, named, usual, data, folder)
    own = isinstance(spec.space, Path) and not spec.restored
    protocol = replace(protocol, enough=space.practical or (own and usual[0] == PRACTICAL))
    splits = protocol.splits(data, size, protocol.replicate(0))
    rows = len(splits.train.index) * (1 + protocol.joined)
    start: Values = {}
    if not spec.searched:
        if not spec.restored:
            start = _start(space, protocol.training)
        space = space.with_settings({**start, **spec.settings})
        fixed = spec.settings if spec.restored else space.fixed
        space = replace(space, fixed=fixed, parameters={}, published=())
    study = Study(
        method=named,
        data=data,
        protocol=protocol,
        size=size,
        rows=rows,
        unlabeled=spec.unlabeled,
        rule=rule,
        seeds=seeds,
        configs=configs,
        space=space,
        conditions=_conditions(spec, method, protocol, space, start, folder),
        model_name=model_name,
        model=folder,
        model_digest=model_digest(folder),
        numerics=numerics,
        sampler=spec.sampler,
        search_seed=spec.search_seed,
        paraphrases=None,
    )
    _check_unlabeled_read(spec, study)
    return replace(study, paraphrases=_paraphrases(spec, study))


def _paraphrases(spec: StudySpec, study: Study) -> ParaphraseSource | None:
    """Return the source of paraphrases, or None if the study reads none."""
    joined = study.protocol.joined
    if joined or study.reads_paraphrases:
        return paraphrase_source(spec.paraphrases, max(READ, joined))
    if spec.paraphrases is not None:
        raise SclsearchError(
            f"--paraphrases {spec.paraphrases}: neither {study.method.name} nor "
            f"{study.protocol.name} reads paraphrases. Leave it out; cssl and gunel-noisy read "
            "them."
        )
    return None


def _check_unlabeled_read(spec: StudySpec, study: Study) -> None:
    if spec.unlabeled is not None and not study.reads_unlabeled:
        raise SclsearchError(
            f"--unlabeled {spec.unlabeled}: {study.method.name} has no stage without labels. Leave "
            "it out; cmlm, tapt, cssl and simcse have one."
        )


def _loaded(spec: StudySpec, options: RunOptions, model_name: str, *, on_folds: bool) -> TaskData:
    """Return the task's rows; if these and the model are missing, the error names both."""
    try:
        return load_task(spec.task, options.data_dir, on_folds=on_folds)
    except SclsearchError as error:
        try:
            model_folder(model_name)
        except SclsearchError as other:
            instead = "\nWithout data and model: --task demo --model minilm."
            repeats = spec.fresh is not None
            raise SclsearchError(f"{error}\n{other}{'' if repeats else instead}") from error
        raise


def find_study_protocol(spec: StudySpec, method: type[Method], size: Size | None) -> Protocol:
    """Return the protocol that the options name, or the default one, with the chosen metric."""
    if spec.metric is not None:
        lookup(METRICS, spec.metric, "metric")
    if spec.protocol is None:
        own = None if isinstance(spec.task, str) else "plain"
        if isinstance(spec.task, str):
            own = lookup(TASKS, spec.task, "task").protocol
        protocol = find_protocol(method.few_shot if size else own or method.protocol)
    else:
        protocol = find_protocol(spec.protocol)
        protocol.check_size(size, method.few_shot)
    return replace(protocol, chosen_metric=spec.metric)


def _with_space(spec: StudySpec, method: NamedMethod) -> StudySpec:
    """Return the spec with the space beside a custom method's file, if it names none."""
    if spec.space is None and not spec.restored and method.digest:
        beside = Path(method.place.rpartition(":")[0]).with_suffix(".yaml")
        spec = replace(spec, space=beside if beside.is_file() else None)
    if spec.space is None and not _has_spaces(method) and spec.searched:
        raise SclsearchError(
            f"--method {method.place}: has no search space. Write one beside it, FILE.yaml, as "
            "docs/how-to/own-method.md shows, or train one configuration with `sclsearch train`."
        )
    if isinstance(spec.space, Path):
        if not spec.space.is_file():
            raise SclsearchError(
                f"--space {spec.space}: must be practical, paper or a YAML file, and there is no "
                "such file."
            )
        load_space(spec.space, method.kind)
    return spec


def _has_spaces(method: NamedMethod) -> bool:
    return not method.digest and (shipped_spaces() / method.name).is_dir()


def _space(
    spec: StudySpec, method: NamedMethod, usual: tuple[str, str], data: TaskData, folder: Path
) -> Space:
    """Return the space that `spec` names, or else the usual one; `usual` has name and reason."""
    if spec.restored or (spec.space is None and not _has_spaces(method)):
        return Space(method.name, "none", {}, (), spec.settings, "--set")
    space = _loaded_space(spec, method, usual, data, folder)
    if spec.searched:
        space = space.with_settings(spec.settings)
        first = space.matching(spec.first)
        if spec.first and not first:
            raise SclsearchError(
                f"--start-from {spec.start_from}: none of its {len(spec.first)} best "
                f"configurations is in this search space of {method.name}. Name a study that "
                "searches the same hyperparameters, or leave it out."
            )
        space = space.starting_with(first)
        if is_own(spec.sampler):
            load_custom_sampler(spec.sampler)  # raises if there is no such function
        if spec.sampler == "grid":
            space.grid()  # raises if a parameter is a range
        if spec.sampler == "grid" and spec.search_seed:
            raise SclsearchError(
                f"--search-seed {spec.search_seed}: has no effect on --sampler grid, which takes "
                "all configurations in order. Leave it out."
            )
    return space


def _loaded_space(
    spec: StudySpec, method: NamedMethod, usual: tuple[str, str], data: TaskData, folder: Path
) -> Space:
    kind, reason = usual if spec.space is None else (str(spec.space), "as --space says")
    if kind == PAPER:
        space = load_space(find_space(method.name, data.task.public_name), method.kind)
        if kind != usual[0]:
            reason = f"as --space says; it may not fit, {usual[1]}"
        return replace(space, note=f"{space.source}, {reason}")
    traits = encoder_traits(folder)
    length = default_max_length(data, folder, traits.positions)
    if kind == PRACTICAL:
        space = load_space(practical_file(method.name), method.kind)
        space = practical_space(space, method.kind, traits, length, _alone(data))
        rest = f"; without the encoder's {listed(traits.left_out)}" if traits.left_out else ""
        return replace(space, note=f"practical, {reason}{rest}")
    space = load_space(Path(kind), method.kind)
    fixed: dict[str, object] = {}
    if usual[0] == PRACTICAL:
        found = default_values(method.kind, traits, length, _alone(data))
        fixed = {name: value for name, value in found.items() if name not in space.parameters}
    return replace(space, fixed={**fixed, **space.fixed}, note=space.file)


def _alone(data: TaskData) -> float:
    """Return the share of training rows that are alone in their class in a random batch of 16."""
    train = data.splits["train"]
    return 0.0 if data.task.regression else share_alone(train.y[: train.labeled], 16)


def default_max_length(data: TaskData, folder: Path, positions: int | None) -> int:
    """Return the `max_length` that truncates at most 5 % of the training texts.

    `positions` is the number of tokens that the encoder in `folder` can read; None for no limit.
    """
    texts = data.splits["train"].texts
    sample = texts[:: -(-len(texts) // MOST_TEXTS)]
    tokenizer, most = load_tokenizer(folder), positions or int(LENGTHS[-1])
    columns = (beginnings(tokenizer, column, most) for column in zip(*sample, strict=True))
    ids = tokenizer(*columns, verbose=False)["input_ids"]
    return covering_length(map(len, ids), positions)


def _default_space(
    spec: StudySpec, protocol: Protocol, size: Size | None, data: TaskData, folder: Path
) -> tuple[str, str]:
    """Return the default space, `paper` or `practical`, and the reason.

    It is the paper's only for the paper's encoder, task and amount of data.
    """
    traits, paper = encoder_traits(folder), ALIASES[protocol.model]
    if data.task.own or protocol.name == "plain":
        return PRACTICAL, "because the task is not a paper's"
    if (traits.width, traits.layers) != (paper.width, paper.layers):
        return PRACTICAL, (
            f"because the encoder has {traits}, and {protocol.model} of protocol {protocol.name} "
            f"has {paper.layers} of width {paper.width}"
        )
    if spec.scale is not None or (size is not None and str(size) not in protocol.sizes):
        return PRACTICAL, "because the amount of data is not the paper's"
    return PAPER, "because encoder, task and amount of data are the paper's"


def _start(space: Space, by_protocol: Values) -> Values:
    """Return the published configuration to train when nothing is searched.

    If the space has several, for example one for few rows and one for all rows, it is the one that
    agrees with the protocol in the most fields; ties go to the first.
    """
    return max(
        space.published,
        key=lambda point: sum(point.get(name) == by_protocol[name] for name in by_protocol),
        default={},
    )


def _check_task(method: NamedMethod, data: TaskData, protocol: Protocol) -> None:
    if data.task.regression and not method.kind.regression:
        able = ", ".join(name for name in METHODS if method_class(name).regression)
        raise SclsearchError(
            f"--method {method.name}: needs a task with classes, but {data.task.name} is a "
            f"regression task. Use one of {able}."
        )
    where = "--metric" if protocol.chosen_metric else f"task {data.task.name}"
    METRICS[protocol.metric(data)].check(len(data.task.labels), where)


def _conditions(
    spec: StudySpec,
    method: type[Method],
    protocol: Protocol,
    space: Space,
    start: Values,
    folder: Path,
) -> dict[str, FieldDefault]:
    """Return the fields that protocol, space and user set; `start` is a published configuration.

    A space fixes epochs for training on all rows; a few-shot protocol adapts them to its few rows.
    """
    by_protocol = {n: value for n, value in protocol.training.items() if n in field_types(method)}
    new_layer = FieldDefault("head_hidden", "method")
    pooler = protocol.pretrained_pooler and declared(method).get("pooling") == new_layer
    if pooler and "pooling" not in space.parameters and has_pooler(folder):
        by_protocol["pooling"] = "cls_pooled"
    few = BATCH_SIZES.keys() & protocol.epochs(1, 1).keys() if protocol.few_shot else ()
    by_space = {name: value for name, value in space.fixed.items() if name not in few}
    return {
        **from_source("protocol", by_protocol),
        **from_source("space", {**by_space, **start}),
        **from_source("winner" if spec.restored else "--set", spec.settings),
    }


def _numerics(precision: Precision, options: RunOptions) -> Numerics:
    """Return device and precision of every seed run.

    Raises:
        SclsearchError: The GPUs per seed run are missing, or the device lacks the precision.
    """
    gpus = options.gpus_per_trial
    if gpus is None:
        import torch

        gpus = float(torch.cuda.is_available())
        if not gpus and options.address is not None:
            raise SclsearchError(
                "--gpus-per-trial: is missing, and this machine of the cluster has no GPU. Pass 1, "
                "or 0.5, …, for the workers' GPUs, 0 for their CPUs."
            )
    if gpus > 0:
        if precision == "auto":
            from sclsearch.training.device import backend_here, fast_bf16

            # The driver of a cluster may have no GPU: assume that the workers' GPUs are fast in
            # bfloat16.
            here = backend_here().device
            precision = "bf16" if here.type == "cpu" or fast_bf16(here) else "fp32"
        return ON_GPU[precision]
    if precision not in ON_CPU:
        raise SclsearchError(f"--precision {precision}: needs a GPU. Pass {' or '.join(ON_CPU)}.")
    return ON_CPU[precision]
