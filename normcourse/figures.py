"""The house style of the course's figures; the only file that imports matplotlib.

A figure is shown as a PNG with alt text, beside a text fingerprint of the data it draws. nbval compares
the fingerprint on every platform, and the PNG carries it in its metadata, so a stale picture is noticed.
"""

import base64
import io

import matplotlib
import numpy as np
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

STYLE = {  # norm: (colour, marker); cool colours use statistics of the data, warm ones act pointwise
    "none": ("#555555", ""),
    "batch_norm": ("#00875F", "s"),
    "layer_norm": ("#0A3F67", "o"),
    "rms_norm": ("#1E8CFF", "^"),
    "group_norm": ("#4B0FFF", "P"),
    "instance_norm": ("#3C0F00", "X"),
    "dyt": ("#D55E00", "D"),
    "dyisru": ("#C577AB", "v"),
    "weight_norm": ("#7A6A00", "h"),
    "dyt_sqrt_d": ("#8A3D00", "d"),
    "dyisru_sqrt_d": ("#8E3B78", ">"),
    "softcap": ("#A30000", "p"),
    "qk_norm": ("#006B8F", "<"),
    "rms_norm_qk": ("#0055AA", "*"),
}

matplotlib.rcParams.update(
    {
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "lines.linewidth": 1.6,
        "lines.markersize": 5,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "savefig.dpi": 100,
    }
)


def subplots(rows: int = 1, cols: int = 1, *, width: float = 6.4, height: float = 3.6, **kwargs):
    """A figure in the house style and its axes, as Figure.subplots returns them. Sizes in inches."""
    figure = Figure(figsize=(width, height))  # no pyplot: nothing is kept open, nothing shown twice
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, cols, **kwargs)


def line(ax: Axes, x, y, norm: str, *, label: str | None = None, spread=None, **kwargs) -> None:
    """Draw y over x in the norm's colour and marker and write its name at the line's end, without a legend.

    Args:
        norm: a key of STYLE.
        label: text at the end; None writes the norm's name, "" nothing.
        spread: (low, high), a band such as the range over seeds.
    """
    colour, marker = STYLE[norm]
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    text = norm.replace("_", " ") if label is None else label
    ax.plot(x, y, **{"color": colour, "marker": marker, "markevery": max(1, len(x) // 10)} | kwargs)
    if spread is not None:
        low, high = (np.asarray(bound, dtype=float) for bound in spread)
        ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    if text:
        ax.annotate(text, (x[-1], y[-1]), xytext=(6, 0), textcoords="offset points", va="center")


def show(figure: Figure, alt: str) -> None:
    """Display the figure: PNG, its alt text (what a reader should see, with numbers), its fingerprint."""
    if len(alt) < 40:
        raise ValueError(f"alt text should say what a reader sees, in 40 characters or more, got {alt!r}.")
    text = fingerprint(figure)
    png = base64.b64encode(_png(figure, text)).decode()
    display({"image/png": png, "text/plain": text}, metadata={"image/png": {"alt": alt}}, raw=True)


def _png(figure: Figure, text: str) -> bytes:
    """The picture with text as its metadata, in a palette of 256 colours: a third of the size."""
    drawn, stored, metadata = io.BytesIO(), io.BytesIO(), PngInfo()
    figure.savefig(drawn, format="png")
    metadata.add_itxt("Fingerprint", text)
    Image.open(drawn).convert("RGB").quantize(256).save(stored, "png", pnginfo=metadata, optimize=True)
    return stored.getvalue()


def fingerprint(figure: Figure) -> str:
    """What the figure draws, as text: per axes its title and labels, per artist its size and a few values."""
    lines = [f"figure: {len(figure.axes)} axes"]
    for ax in figure.axes:
        if ax.name == "3d":
            figure.canvas.draw()  # projects the artists
        scales = f"{ax.get_xscale()} x {ax.get_yscale()}"
        lines.append(f"[{_title(ax)}] {ax.get_xlabel()} | {ax.get_ylabel()} ({scales})")
        artists = [*ax.lines, *ax.collections, *ax.images, *ax.containers]
        lines += [f"  {_describe(artist)}" for artist in artists]
        legend = ax.get_legend().get_texts() if ax.get_legend() else []
        texts = [text.get_text() for text in (*ax.texts, *legend) if text.get_text()]
        if texts:
            lines.append("  text: " + ", ".join(" ".join(text.split()) for text in texts))
    return "\n".join(lines)


def _title(ax: Axes) -> str:
    return " ".join((ax.get_title("left") + ax.get_title() + ax.get_title("right")).split())


def _describe(artist) -> str:
    """One line for a matplotlib artist: its kind, how many points, and numbers that pin its data down."""
    kind = type(artist).__name__
    if hasattr(artist, "get_data_3d"):
        rows = artist.get_data_3d()
    elif hasattr(artist, "get_xydata"):
        rows = artist.get_xydata().T
    elif kind == "BarContainer":
        rows = np.array([[bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()] for bar in artist]).T
    elif kind == "Quiver":
        rows = [*artist.get_offsets().T, np.ravel(artist.U), np.ravel(artist.V)]
    elif kind == "PathCollection" and len(artist.get_offsets()) > 1:  # a scatter
        rows = np.asarray(artist.get_offsets()).T
    elif hasattr(artist, "get_paths") and artist.get_paths():  # bands, contours, error bars
        rows = np.concatenate([path.vertices for path in artist.get_paths()]).T
    elif kind == "AxesImage":
        rows = [np.ravel(artist.get_array())]
    else:
        return kind
    return f"{kind} {_summary(rows)}"


def _summary(rows) -> str:
    """How many points, then for each row min/max/mean/trend and five values along it, at three digits."""
    rows = [np.asarray(row, dtype=float) for row in rows]
    return f"{len(rows[0])} points: " + "; ".join(_row_summary(row[np.isfinite(row)]) for row in rows)


def _row_summary(row: np.ndarray) -> str:
    if row.size == 0:
        return "nothing finite"
    picks = np.linspace(0, row.size - 1, min(5, row.size)).round().astype(int)
    noise = 1e-9 * np.abs(row).max()  # what should be zero differs from machine to machine
    trend = np.average(row, weights=np.arange(1, row.size + 1))  # sees two points that change places
    values = np.array([row.min(), row.max(), row.mean(), trend, *row[picks]])
    # A value such as 1.125 sits on a rounding boundary; the nudge puts every machine on the same side.
    low, high, mean, trend, *some = (
        f"{v:.3g}" for v in np.where(np.abs(values) <= noise, 0.0, values * (1 + 1e-9))
    )
    return f"{low}/{high}/{mean}/{trend} at {' '.join(some)}"
