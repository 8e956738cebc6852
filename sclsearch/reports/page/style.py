"""Style of the page's figures, and their files: SVG with equal bytes for equal data, and PNG.

Colors are those of Okabe and Ito (2008), which people with color vision deficiency can tell apart.
Markers and line styles differ too, so that prints in grey stay readable.
"""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#40444b"
"""Color of text and axes. The page replaces it by its own text color, light or dark."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
ON_DARK = ("#4aa8e0", "#ef7d3b", "#2cc295", "#e09cc0", "#f0b840", "#8fd0f5")
"""The same colors, brighter, for a dark page."""
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
WIDTH = 4.8
"""Width of a figure in inches: text of 9 points stays readable on a phone."""
FONT = "DejaVu Sans"
CJK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei"),
    *("Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS"),
)
"""Fonts for Chinese, Japanese and Korean labels in PNG files, in order, where installed."""
_RC: Any = {
    "svg.hashsalt": "sclsearch",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": [FONT],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.18,
    "grid.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 200,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@contextmanager
def style() -> Iterator[None]:
    """Apply the style to all figures that the body makes or writes.

    Labels may have characters, such as emoji, that the fonts lack. SVG files keep them.
    """
    import matplotlib

    fonts = logging.getLogger("matplotlib.font_manager")
    level = fonts.level
    fonts.setLevel(logging.ERROR)  # or it warns of fonts without the weight `normal`
    try:
        with matplotlib.rc_context(_RC), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
            yield
    finally:
        fonts.setLevel(level)


def new_figure(height: float, width: float = WIDTH) -> "tuple[Figure, Axes]":
    """Return a figure with one plot; height and width in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def looks(count: int) -> list[tuple[str, str, Any]]:
    """Return color, marker and line style of several series; after 36 they repeat."""
    six = len(COLORS)
    return [(COLORS[n % six], MARKERS[n % six], LINES[(n + n // six) % six]) for n in range(count)]


def as_svg(figure: "Figure") -> bytes:
    """Return the figure as an SVG file with a transparent background."""
    content = BytesIO()
    figure.savefig(content, format="svg", transparent=True, metadata=_NO_METADATA)
    return content.getvalue()


def as_png(figure: "Figure") -> bytes:
    """Return the figure as a PNG file with a white background."""
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    installed = fontManager.get_font_names()
    families = [FONT, *(name for name in CJK_FONTS if name in installed)]
    for text in figure.findobj(Text):
        text.set_fontfamily(families)
    content = BytesIO()
    figure.savefig(content, format="png", facecolor="white", metadata={"Software": None})
    return content.getvalue()


def inline_svg(content: bytes, name: str) -> str:
    """Return an SVG file as an HTML element in the colors of the page, light or dark.

    The page defines the colors of the series as `--series-0` and so on. `name` is the prefix of the
    element's ids, which must be unique on the page.
    """
    text = content.decode()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    for number, color in enumerate(COLORS):
        text = text.replace(color, f"var(--series-{number})")
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', text)[:2]
    size = f'width="{width}pt" height="{height}pt"'
    return text.replace(size, f'style="max-width: {1.55 * float(width):.0f}px"', 1)
