"""Content of a report page: sections with text, figures and tables."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Plot:
    """Figure with its caption, and its file name without a suffix."""

    name: str
    caption: str
    figure: "Figure"


@dataclass(frozen=True, slots=True)
class Table:
    """Text cells with a caption, a file name without a suffix, and the rows in bold."""

    name: str
    caption: str
    cells: "pd.DataFrame"
    bold: tuple[int, ...] = ()


@dataclass(slots=True)
class Section:
    """Section of the page.

    Attributes:
        name: Anchor of the section, unique on the page.
        title: Heading.
        text: Paragraphs above the figures. Parts in backquotes are code.
        notes: List below the paragraphs.
        plots: Figures.
        tables: Tables.
        commands: Shell commands, below the paragraphs.
        level: Depth of the heading: 2, or 1 for the heading of a study among several.
    """

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    level: int = 2


def cells(rows: Iterable[Iterable[object]], columns: Iterable[str]) -> "pd.DataFrame":
    """Return a table of text cells."""
    import pandas as pd

    return pd.DataFrame([[str(cell) for cell in row] for row in rows], columns=list(columns))
