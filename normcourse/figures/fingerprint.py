"""A figure as text: what a reader sees, with numbers rounded so that machines agree.

Nothing here depends on the layout, which follows the fonts of a machine: ticks that matplotlib
chooses by itself are known from limits and scale, and only those that a lesson sets are listed.
"""

import numpy as np
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgba
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.quiver import Quiver
from matplotlib.text import Annotation, Text
from matplotlib.ticker import AutoLocator, LogFormatter, LogLocator, ScalarFormatter

KINDS = {  # class: our word for it; matplotlib's classes change their names from version to version
    Line2D: "line",
    BarContainer: "bars",
    Quiver: "arrows",
    PathCollection: "points",
    LineCollection: "lines",
    PolyCollection: "band",
    QuadMesh: "mesh",
    AxesImage: "image",
}
MOST_COLOURS = 8
MOST_CHARACTERS = 6000  # of a stored figure; more is a figure of too many things
NOISE = 1e-9  # relative: what should be zero, or equal, differs from machine to machine


def fingerprint(figure: Figure) -> str:
    """What the figure shows, a line for each thing."""
    panels = [panel for ax in figure.axes for panel in (ax, *ax.child_axes)]
    lines = [f"figure: {len(panels)} axes"]
    for ax in panels:
        lines += _axes(ax)
    lines += [f"  {_text(text)}" for text in figure.texts if _seen(text)]
    lines += [f"  {entry}" for legend in figure.legends for entry in _legend(legend)]
    return "\n".join(lines)


def _axes(ax):
    if ax.name == "3d":
        ax.figure.canvas.draw()  # projects the artists
    yield (
        f"[{_title(ax)}] {ax.get_xlabel()} | {ax.get_ylabel()} "
        f"({ax.get_xscale()} x {ax.get_yscale()})"
    )
    if ax.axison:
        yield from (f"  {_axis(axis)}" for axis in _axis_list(ax))
    artists = [*ax.lines, *ax.collections, *ax.images]
    yield from (f"  {_artist(artist)}" for artist in artists if artist.get_visible())
    groups = [group for group in ax.containers if isinstance(group, BarContainer)]
    yield from (f"  {_artist(group)}" for group in groups)
    bars = {bar for group in groups for bar in group}
    patches = [patch for patch in ax.patches if patch not in bars]
    yield from (f"  {_patch(patch)}" for patch in patches if patch.get_visible())
    yield from (f"  {_text(text)}" for text in ax.texts if _seen(text))
    if ax.get_legend():
        yield from (f"  {entry}" for entry in _legend(ax.get_legend()))


def _title(ax) -> str:
    return " ".join((ax.get_title("left") + ax.get_title() + ax.get_title("right")).split())


# axes: limits and ticks


def _axis_list(ax) -> list[Axis]:
    return [ax.xaxis, ax.yaxis, ax.zaxis] if ax.name == "3d" else [ax.xaxis, ax.yaxis]


def _axis(axis) -> str:
    """Its limits, in the order in which they are drawn, and the ticks that the lesson chose."""
    first, last = axis.get_view_interval()
    described = f"{axis.axis_name}: {_place(axis, first)} to {_place(axis, last)}"
    if not axis.get_visible():
        return described + ", hidden"
    settings = axis.get_tick_params()
    if not any(settings.get(f"label{side}") for side in ("bottom", "top", "left", "right")):
        described += ", no labels"
    if not _chosen_by_matplotlib(axis):
        described += ", ticks " + (", ".join(_ticks(axis)) or "none")
    elif not isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter):
        ends = axis.get_major_formatter().format_ticks([first, last])
        described += f", written like {ends[0]!r} to {ends[1]!r}"
    return described


def _chosen_by_matplotlib(axis: Axis) -> bool:
    """By the room there is, which depends on fonts."""
    return axis.isDefault_majloc or isinstance(axis.get_major_locator(), AutoLocator | LogLocator)


def _ticks(axis: Axis):
    """Place and label of each tick in view."""
    low, high = sorted(axis.get_view_interval())
    slack = NOISE * (high - low)
    places = [*axis.get_majorticklocs()]
    for place, label in zip(places, axis.get_major_formatter().format_ticks(places), strict=True):
        if low - slack <= place <= high + slack:
            yield f"{_place(axis, place)} {_words(label)!r}"


def _place(axis: Axis, place: float) -> str:
    """A number on the axis; on a linear axis rounding noise is 0, on others all sizes count."""
    low, high = axis.get_view_interval()
    return _number(place, abs(high - low) if axis.get_scale() == "linear" else 0)


# artists


def _artist(artist) -> str:
    """Its kind, its look, how many points, and numbers that pin its data down."""
    kind = next(
        (word for cls, word in KINDS.items() if isinstance(artist, cls)), type(artist).__name__
    )
    rows = _rows(artist)
    parts = [kind, *_look(artist), _summary(rows) if rows is not None and len(rows) else ""]
    return " ".join(part for part in parts if part)


def _rows(artist):
    if hasattr(artist, "get_data_3d"):
        return artist.get_data_3d()
    if isinstance(artist, Line2D):
        return np.asanyarray(artist.get_xydata()).T
    if isinstance(artist, BarContainer):
        return np.array(
            [[bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()] for bar in artist]
        ).T
    if isinstance(artist, Quiver):
        return [*np.asanyarray(artist.get_offsets()).T, np.ravel(artist.U), np.ravel(artist.V)]
    if isinstance(artist, AxesImage):
        return [np.asanyarray(artist.get_array()).ravel()]
    if isinstance(artist, QuadMesh):
        return [*np.asanyarray(artist.get_coordinates()).reshape(-1, 2).T]
    if isinstance(artist, PathCollection):
        return np.ma.filled(artist.get_offsets(), np.nan).T
    if hasattr(artist, "get_paths") and artist.get_paths():  # bands, contours, error bars
        return np.concatenate([path.vertices for path in artist.get_paths()]).T
    return None


def _look(artist):
    if isinstance(artist, Line2D):
        yield from _line_look(artist)
    elif isinstance(artist, BarContainer):
        yield _colours([bar.get_facecolor() for bar in artist])
    elif isinstance(artist, AxesImage):
        yield from _mapped(artist) if np.asanyarray(artist.get_array()).ndim == 2 else ["colours"]
        yield f"{artist.origin} extent {_numbers(artist.get_extent())}"
    elif getattr(artist, "get_array", lambda: None)() is not None:
        yield from _mapped(artist)
        yield _summary([np.ma.filled(artist.get_array().astype(float), np.nan).ravel()]) + ";"
    elif hasattr(artist, "get_facecolor"):
        faces = artist.get_facecolor()
        yield _colours(faces if len(faces) else artist.get_edgecolor())


def _line_look(line: Line2D):
    yield _colour(to_rgba(line.get_color(), line.get_alpha()))
    if line.get_linestyle() != "-":
        yield f"style {line.get_linestyle()!r}"
    if line.get_marker() not in {"", "None", None}:
        yield f"marker {line.get_marker()!r}"
        if to_hex(line.get_markerfacecolor()) != to_hex(line.get_color()):
            yield f"filled {_colour(line.get_markerfacecolor())}"


def _mapped(artist):
    """Colours for the lowest, the middle and the highest number, and which numbers these are."""
    artist.autoscale_None()
    low, high = artist.get_clim()
    span = max(abs(low), abs(high))
    yield _colours(artist.get_cmap()([0.0, 0.5, 1.0]))
    yield f"for {_number(low, span)} to {_number(high, span)}"


def _patch(patch) -> str:
    """A rectangle, polygon or arrow: its corners' range and mean, its colours.

    Of an arrow the ends count as corners.
    """
    ends = getattr(patch, "_posA_posB", None) if isinstance(patch, FancyArrowPatch) else None
    if ends is not None:
        return (
            f"arrow from {_numbers(ends[0])} to {_numbers(ends[1])} "
            f"{_colour(patch.get_edgecolor())}"
        )
    corners = patch.get_patch_transform().transform(patch.get_path().vertices)
    look = _colour(patch.get_facecolor() if patch.get_fill() else patch.get_edgecolor())
    return f"patch {look} {_summary(corners.T)}"


# texts


def _seen(text: Text) -> bool:
    return text.get_visible() and bool(text.get_text().strip())


def _words(text) -> str:
    return " ".join(str(text).split())  # a lesson may give numbers as labels


def _text(text: Text) -> str:
    """Words, place in the text's own coordinates, colour.

    An annotation also says what it points at.
    """
    place = _numbers(text.get_position())
    if isinstance(text, Annotation):
        place = f"{_numbers(text.xy)} + {place}"
    return f"text {_words(text.get_text())!r} at {place} {_colour(text.get_color())}"


def _legend(legend):
    """Each name with its key; where "best" puts the box depends on fonts, and is left out."""
    for key, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if isinstance(key, Line2D):
            look = " ".join(_line_look(key))
        else:
            look = _colours(np.atleast_2d(key.get_facecolor()))
        yield f"legend {_words(text.get_text())!r}: {look}"


# colours and numbers


def _colour(colour) -> str:
    name = to_hex(colour, keep_alpha=True)
    return name[:7] if name.endswith("ff") else name


def _colours(colours) -> str:
    """The colours in the order of what they colour; equal ones once, where they are all equal."""
    names = [_colour(colour) for colour in colours]
    if len(set(names)) == 1:
        return names[0]
    more = f" and {len(names) - MOST_COLOURS} more" if len(names) > MOST_COLOURS else ""
    return "/".join(names[:MOST_COLOURS]) + more


def _summary(rows) -> str:
    """How many points, then each row's range, mean, trend and five values, at three digits."""
    rows = [np.asarray(row, dtype=float) for row in rows]
    return f"{len(rows[0])} points: " + "; ".join(
        _row_summary(row[np.isfinite(row)]) for row in rows
    )


def _row_summary(row: np.ndarray) -> str:
    if row.size == 0:
        return "nothing finite"
    picks = np.linspace(0, row.size - 1, min(5, row.size)).round().astype(int)
    # sees two points that change places
    trend = np.average(row, weights=np.arange(1, row.size + 1))
    size = np.abs(row).max()
    low, high, mean, trend, *some = (
        _number(value, size) for value in (row.min(), row.max(), row.mean(), trend, *row[picks])
    )
    return f"{low}/{high}/{mean}/{trend} at {' '.join(some)}"


def _number(value: float, size: float) -> str:
    """Three digits.

    A value such as 1.125 sits on a boundary; the nudge puts every machine on one side.
    """
    value = float(value)
    return f"{0.0 if abs(value) <= NOISE * size else value * (1 + NOISE):.3g}"


def _numbers(values) -> str:
    return ", ".join(
        value if isinstance(value, str) else _number(value, abs(value)) for value in values
    )
