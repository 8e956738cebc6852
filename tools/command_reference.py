"""Write `docs/reference/commands.md` from the help texts of the command line.

python tools/command_reference.py
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from sclsearch.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join(_commands()) + "\n"


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "`tools/command_reference.py` writes this page from the help texts.\n"
    yield (
        "`sclsearch COMMAND --help` shows the most important options, `--help-all` shows all of "
        "them. `sclsearch --install-completion` enables completion in your shell.\n"
    )
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        if command.hidden:
            continue
        yield f"\n## {name}\n"
        yield inspect.cleandoc(command.help or "").replace("\b", "")
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        options = [one for one in command.params if one.param_type_name == "option"]
        for title, parameters in (("argument", arguments), ("option", options)):
            if not parameters:
                continue
            yield f"\n| {title} | meaning |\n|---|---|"
            for one in parameters:
                yield f"| {_spelling(one)} | {_cell(one.help or '')}{_default(one)} |"


def _spelling(parameter: Any) -> str:
    name = parameter.metavar or _value_name(parameter.type_descriptor.annotation)
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper().rstrip('_')}`"
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return f"`{names}`" if parameter.is_flag else f"`{names} {name}`"


def _value_name(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    inner = [one for one in get_args(annotation) if one is not type(None)]
    kind = inner[0] if inner else annotation
    return {"str": "TEXT", "float": "NUMBER", "int": "INTEGER"}.get(kind.__name__, "PATH")


def _default(parameter: Any) -> str:
    shown = parameter.show_default and parameter.default not in (None, False, [], ())
    return f" Default: `{parameter.default}`." if shown and not callable(parameter.default) else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
