"""Sizes that all figures share, and a line that carries its own name."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from normcourse import palette
from normcourse.palette import COLOURS, STYLE

MAX_WIDTH = 6.2  # inches: wider figures come out too small on a phone, on paper and on a slide
MIN_LABEL = 9  # points
DPI = 200

matplotlib.rcParams.update(
    {
        "font.size": MIN_LABEL,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.xmargin": 0.02,  # the axis ends where the data end, and leaves room for half a marker
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "lines.linewidth": 1.6,
        "lines.markersize": 5,
        "xtick.labelsize": MIN_LABEL,
        "ytick.labelsize": MIN_LABEL,
        "legend.fontsize": MIN_LABEL,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "savefig.dpi": DPI,
    }
)


def subplots(rows: int = 1, cols: int = 1, *, width: float = 6.2, height: float = 3.4, **kwargs):
    """A figure in the house style and its axes, as Figure.subplots returns them.

    Sizes in inches.
    """
    figure = Figure(figsize=(width, height))  # no pyplot: nothing is kept open, nothing shown twice
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, cols, **kwargs)


def line(
    ax: Axes, x, y, series: str, *, label: str | None = None, at=None, spread=None, **kwargs
) -> None:
    """Draw y over x in the colour of the series and write its name beside it, without a legend.

    Args:
        series: a norm of STYLE, or a colour of COLOURS for what is no norm.
        label: the text; None writes a norm's name, and nothing for a colour; "" writes nothing.
        at: (x, y) in the axes' numbers, where the text begins; None is the line's end.
        spread: (low, high), a band such as the range over seeds.
    """
    colour, marker = _look(series)
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    style: dict = {"color": colour, "marker": marker, "markevery": max(1, len(x) // 10)} | kwargs
    ax.plot(x, y, **style)
    if spread is not None:
        low = np.asarray(spread[0], dtype=float)
        high = np.asarray(spread[1], dtype=float)
        ax.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    if label is None:
        label = series.replace("_", " ") if series in STYLE else ""
    if label:
        _write(ax, label, (x[-1], y[-1]), at, style["color"])


def _look(series: str) -> tuple[str, str]:
    """Colour and marker."""
    if series in STYLE:
        return STYLE[series]
    if series in COLOURS:
        return COLOURS[series], ""
    raise ValueError(
        f"no series is called {series!r}. Norms: {', '.join(STYLE)}. "
        f"For what is no norm: {', '.join(COLOURS)}."
    )


def _write(ax: Axes, label: str, end, at, colour) -> None:
    dark = ink(colour)
    if at is None:
        ax.annotate(label, end, (6, 0), textcoords="offset points", color=dark, va="center")
    else:
        x, y = at
        ax.text(x, y, label, color=dark, va="center")


def ink(colour) -> str:
    """As palette.ink, of any color that matplotlib knows."""
    return palette.ink(to_hex(colour))
