"""Resolution of user options into a study, with every error in the options reported."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
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
from sclsearch.methods.base import (
    Method,
    Training,
    reads_paraphrases,
    reads_unlabeled,
    share_alone,
)
from sclsearch.methods.custom import load_custom_sampler
from sclsearch.methods.fields import build, field_types, typed
from sclsearch.protocols import find_protocol
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import Unlabeled, check_unlabeled
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
from sclsearch.study.study import FieldDefault, Study
from sclsearch.tasks import TASKS, load_task
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.metrics import METRICS
from sclsearch.tasks.paraphrases import READ, ParaphraseSource, paraphrase_source
from sclsearch.training.spec import Numerics

MOST_TEXTS = 2_000
"""Most training texts whose lengths are counted; they are spread evenly over the rows."""
EPOCHS = frozenset({"epochs", "post_epochs"})
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
    usual = (laptop(protocol) if spec.scale else protocol).model
    model_name = usual if spec.model is None else str(spec.model)
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
    space = _space(spec, named, protocol, size, data, folder)
    own = isinstance(spec.space, Path) and not spec.restored
    if space.practical or (
        own and _default_space(spec, protocol, size, data, folder)[0] == PRACTICAL
    ):
        protocol = replace(protocol, enough=True)
    splits = protocol.splits(data, size, protocol.replicate(0))
    rows = len(splits.train.index) * (1 + protocol.joined)
    start: Values = {}
    if not spec.searched:
        if not spec.restored:
            start = _start(space, protocol.training(rows, 1))
        space = space.with_settings({**start, **spec.settings})
        fixed = spec.settings if spec.restored else space.fixed
        space = replace(space, fixed=fixed, parameters={}, published=())
    setter = "winner" if spec.restored else "--set"
    given = (space.fixed, start, spec.settings)
    defaults = _defaults(method, protocol, rows, given, setter)
    if (
        protocol.pretrained_pooler
        and "pooling" not in space.parameters
        and defaults.get("pooling") == FieldDefault("head_hidden", "method")
        and has_pooler(folder)
    ):
        defaults["pooling"] = FieldDefault("cls_pooled", "protocol")
    built, training = build(method, {n: o.value for n, o in defaults.items()}, "defaults")
    unlabeled = _unlabeled(spec, named, read=reads_unlabeled(built, training))
    source = _paraphrases(spec, named, protocol, read=reads_paraphrases(built, training))
    study = Study(
        method=named,
        data=data,
        protocol=protocol,
        size=size,
        rows=rows,
        unlabeled=unlabeled,
        rule=rule,
        seeds=seeds,
        configs=configs,
        space=space,
        defaults=defaults,
        model_name=model_name,
        model=folder,
        model_digest=model_digest(folder),
        numerics=numerics,
        sampler=spec.sampler,
        search_seed=spec.search_seed,
        paraphrases=source,
    )
    study.fields({})  # raises if an option balances classes and the task has scores
    return study


def _paraphrases(
    spec: StudySpec, method: NamedMethod, protocol: Protocol, *, read: bool
) -> ParaphraseSource | None:
    """Return the source of paraphrases, or None if the study reads none."""
    if read or protocol.joined:
        return paraphrase_source(spec.paraphrases, max(READ, protocol.joined))
    if spec.paraphrases is not None:
        raise SclsearchError(
            f"--paraphrases {spec.paraphrases}: neither {method.name} nor {protocol.name} reads "
            "paraphrases. Leave it out; cssl and gunel-noisy read them."
        )
    return None


def _unlabeled(spec: StudySpec, method: NamedMethod, *, read: bool) -> Unlabeled | None:
    """Return the size of the unlabeled text pool; None means the training rows only."""
    if spec.unlabeled is not None and not read:
        raise SclsearchError(
            f"--unlabeled {spec.unlabeled}: {method.name} has no stage without labels. Leave it "
            "out; cmlm, tapt, cssl and simcse have one."
        )
    return spec.unlabeled


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
    spec: StudySpec,
    method: NamedMethod,
    protocol: Protocol,
    size: Size | None,
    data: TaskData,
    folder: Path,
) -> Space:
    if spec.restored or (spec.space is None and not _has_spaces(method)):
        return Space(method.name, "none", {}, (), spec.settings, "--set")
    space = _loaded_space(
        spec, method, data, folder, _default_space(spec, protocol, size, data, folder)
    )
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
    spec: StudySpec, method: NamedMethod, data: TaskData, folder: Path, usual: tuple[str, str]
) -> Space:
    """Return the space that `spec` names, or else the usual one; `usual` has name and reason."""
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

    `by_protocol` may be for any batch size, since only epochs depend on it.
    """
    fields = by_protocol.keys() - EPOCHS
    return max(
        space.published,
        key=lambda point: sum(point.get(name) == by_protocol[name] for name in fields),
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


def _defaults(
    method: type[Method],
    protocol: Protocol,
    rows: int,
    given: tuple[Values, Values, Values],
    setter: str,
) -> dict[str, FieldDefault]:
    """Return the default value and the source of every field.

    `given` has the fields that the space fixes, its published configuration, and the user's
    settings, whose source is `setter`. `rows` is the number of training rows of a replicate.
    """
    shared, own = _declared(Training), {**_declared(method), **method.training}
    by_space, start, settings = given
    batch_size = {**shared, **own, **by_space, **start, **settings}["batch_size"]
    # A protocol may set the epochs of a phase that not every method has.
    by_protocol = {
        name: value
        for name, value in protocol.training(rows, int(str(batch_size))).items()
        if name in field_types(method)
    }
    # A space fixes epochs for training on all rows; a few-shot protocol adapts them to its few
    # rows.
    few = {name: by_protocol[name] for name in EPOCHS & by_protocol.keys() if protocol.few_shot}
    layers: tuple[tuple[str, Values], ...] = (
        ("training", shared),
        ("method", own),
        ("protocol", by_protocol),
        ("space", by_space),
        ("protocol", few),
        ("space", start),
        (setter, settings),
    )
    return {
        name: FieldDefault(value, source)
        for source, layer in layers
        for name, value in layer.items()
    }


def _declared(kind: type) -> dict[str, object]:
    return {field.name: field.default for field in fields(kind) if field.default is not MISSING}


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
