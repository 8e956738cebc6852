"""Reference pages that MkDocs generates from the code: methods, protocols, spaces and tasks."""

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the pages that are written by hand."""
    for name, lines in {
        "methods": _methods(),
        "protocols": _protocols(),
        "spaces": _spaces(),
        "tasks": _tasks(),
    }.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(lines)))
    for recording in sorted((Path(__file__).parents[1] / "benchmarks").glob("*.md")):
        if recording.stem != "README":
            path = f"measurements/{recording.name}"
            files.append(File.generated(config, path, abs_src_path=str(recording)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Link recordings and pages, which name each other by their place in the checkout."""
    markdown = markdown.replace("(../docs/", "(../")
    return re.sub(r"\((\.\./)?\.\./benchmarks/(?!README)(\w+\.md)", r"(\1measurements/\2", markdown)


def _methods() -> Iterator[str]:
    from sclsearch.canonical import shown
    from sclsearch.methods import METHODS, method_class, method_summaries
    from sclsearch.methods.fields import describe_fields, description

    yield "# Methods\n"
    yield (
        "Each [method](../glossary.md#method) is a dataclass. Its fields are the hyperparameters "
        "that a [space](../glossary.md#space) can search and that `--set` can fix.\n"
    )
    yield "| method | what it trains |\n|---|---|"
    for name, summary in method_summaries().items():
        yield f"| [`{name}`](#{name}) | {_cell(summary)} |"
    header = "\n| hyperparameter | type | default | meaning |\n|---|---|---|---|"
    for name in METHODS:
        kind = method_class(name)
        yield f"\n## {name}\n"
        yield _linked(description(kind))
        own = [one for one in describe_fields(kind) if not one.shared]
        if own:
            yield header
        for one in own:
            default = shown(one.default)
            yield f"| `{one.name}` | {_cell(one.kind)} | `{default}` | {_cell(one.meaning)} |"
    yield "\n## Hyperparameters of every method\n"
    yield "A protocol or a search space may replace the default."
    yield header
    for one in describe_fields(method_class("ce")):
        if one.shared:
            default = shown(one.default)
            yield f"| `{one.name}` | {_cell(one.kind)} | `{default}` | {_cell(one.meaning)} |"


def _protocols() -> Iterator[str]:
    from sclsearch.protocols import protocol_summaries

    yield "# Protocols\n"
    yield (
        "A [protocol](../glossary.md#protocol) fixes the splits, the number of seeds, the "
        "evaluation schedule and the selection rule. Choose one with `--protocol`; the default is "
        "that of the method's paper.\n"
    )
    yield "| protocol | summary |\n|---|---|"
    for name, summary in protocol_summaries().items():
        yield f"| `{name}` | {_cell(summary)} |"


def _spaces() -> Iterator[str]:
    from sclsearch.spaces.load import space_summaries

    yield "# Search spaces\n"
    yield (
        "Every method has a practical space, `search_spaces/<method>/practical.yaml`, and the "
        "space of its paper, `paper.yaml` or the file of the task. "
        "[Which space is used](../explanation/spaces.md); "
        "[how to write your own](../how-to/own-method.md#write-your-own-search-space).\n"
    )
    yield "| space | source of its values |\n|---|---|"
    for name, summary in space_summaries().items():
        yield f"| `{name}` | {_cell(summary)} |"


def _tasks() -> Iterator[str]:
    from sclsearch.encoders.models import ALIASES
    from sclsearch.tasks import TASKS

    yield "# Tasks and models\n"
    yield "## Tasks\n"
    yield (
        "The rows come from the folder `--data-dir` (or `SCLSEARCH_DATA`), which holds the "
        "unpacked archives, or from the Hugging Face hub. The task `demo` is part of the "
        "package.\n"
    )
    yield "| task | what it is |\n|---|---|"
    for name, task in TASKS.items():
        yield f"| `{name}` | {_cell(task.summary)} |"
    yield "\n## Models\n"
    yield "`--model` takes one of these names, a folder, or a name on the Hugging Face hub.\n"
    yield "| model | encoder |\n|---|---|"
    for name, alias in ALIASES.items():
        yield f"| `{name}` | {_cell(alias.summary)} |"


def _linked(text: str) -> str:
    """Return text whose addresses are links."""
    return re.sub(r"https://[^\s),]*[^\s),.]", r"<\g<0>>", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
