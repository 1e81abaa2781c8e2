"""Charts of what a cell printed, as SVG: letters stay letters, and lines stay sharp on any wall."""

import html
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from editions import house
from editions.extension.decks.lesson import Misfit
from editions.extension.decks.rows import Row, number, numbers, readable
from normcourse import palette

LETTERS = 26  # pixels, of names, numbers and the axis
LETTER = 0.65  # the width of a letter, for a height of one; names are set in a wide face
GAP = 14
LOWEST, HIGHEST = 36, 84  # pixels of one row
HEADING = 48  # pixels of a group's heading
NARROW = 2  # pixels; a shorter range is a dot
UNDER = 84  # pixels of the axis: its numbers, and its unit below them
NAMES = 0.5  # of the width, at most, for the names
TICK_ROOM = 130  # pixels for each number at the axis
GRID = "#DDDDDD"
INK = "#16202A"
GREY = "#55606A"
MINUS = "−"  # as a reader expects it, not a hyphen


@dataclass(frozen=True)
class Look:
    """What a deck says about a chart, and the pixels that the slide has for it."""

    unit: str
    width: float
    height: float
    across: str = ""  # the unit of x, for curves
    ends: tuple[float, float] | None = None
    log: bool = False
    log_across: bool = False
    dots: bool = False
    steps: int = 0  # what comes at clicks: all rows but the first so many; 0 shows all at once
    name: Callable[[str], str] = str
    colour: Callable[[str], str] = house.colour_of


@dataclass(frozen=True)
class Axis:
    """From a value to a pixel."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (self._place(each) for each in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def _place(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self) -> list[float]:
        if self.log:
            first = math.ceil(math.log10(self.low) - 1e-9)
            last = math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        step = step_for(self.high - self.low, abs(self.end - self.start))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [step * count for count in range(first, last + 1)]


def step_for(span: float, pixels: float) -> float:
    """1, 2 or 5 times a power of ten, so that the axis has no more numbers than fit."""
    least = span / max(2.0, pixels // TICK_ROOM)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least - 1e-12)


def axis_for(values: list[float], look: Look, start: float, end: float, zero: bool) -> Axis:
    """An axis from one round number to another, from 0 where bars stand on it."""
    if look.log and min(values) <= 0:
        raise Misfit(f":log: wants numbers above 0, and one is {min(values):g}")
    if look.ends:
        low, high = look.ends
        if min(values) < low or max(values) > high:
            raise Misfit(f":axis: {low:g} {high:g} leaves out {min(values):g} or {max(values):g}")
    elif look.log:
        low, high = (10.0 ** end(math.log10(value)) for end, value in _ends(values))
    else:
        low, high = min(values), max(values)
        if zero or 0 < low < high / 2:
            low, high = min(low, 0.0), max(high, 0.0)
        step = step_for((high - low) or abs(high) or 1.0, abs(end - start))
        low, high = step * math.floor(low / step), step * math.ceil(high / step)
    if low >= high:
        raise Misfit("all numbers are equal: give the axis its ends by :axis:")
    return Axis(low, high, start, end, look.log)


def _ends(values: list[float]):
    return (math.floor, min(values)), (math.ceil, max(values))


def width_of(text: str, size: float = LETTERS) -> float:
    return LETTER * size * len(text)


def written(value: float) -> str:
    return f"{value:,g}".replace("-", MINUS) if abs(value) < 1e6 else f"{value:g}"


def text(x: float, y: float, words: str, anchor: str = "start", fill: str = INK, **more) -> str:
    """Letters whose middle stands at the height y."""
    extra = "".join(f' {key}="{value}"' for key, value in more.items())
    place = f'x="{x:.1f}" y="{y + 0.35 * LETTERS:.1f}"'
    return f'<text {place} text-anchor="{anchor}" fill="{fill}"{extra}>{html.escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"/>'


def dot(x: float, y: float, colour: str, opacity: float = 1) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="{colour}" fill-opacity="{opacity:g}"/>'


def svg(parts: list[str], look: Look, height: float, said: str) -> str:
    size = f'width="{look.width:.0f}" height="{height:.0f}"'
    view = f'viewBox="0 0 {look.width:.0f} {height:.0f}" font-size="{LETTERS}"'
    about = f'class="chart" role="img" aria-label="{html.escape(said)}"'
    return f"<svg {about} {size} {view}>{''.join(parts)}</svg>"


def at_click(part: str) -> str:
    return f'<g class="fragment">{part}</g>'


# A mark is what stands in a row: the values that the axis has to hold, what is written beside it,
# and how it is drawn.


@dataclass(frozen=True)
class Bar:
    row: Row
    dots: bool

    @property
    def values(self):
        return [number(self.row.named["value"])]

    @property
    def label(self):
        return readable(self.row.named["value"])

    def draw(self, x: Axis, y: float, thick: float, colour: str) -> str:
        end = x(self.values[0])
        if self.dots:
            return dot(end, y, colour)
        start = x(min(max(0.0, x.low), x.high))
        left, right = sorted((start, end))
        box = f'x="{left:.1f}" y="{y - thick / 2:.1f}" width="{max(right - left, 2):.1f}"'
        return f'<rect {box} height="{thick:.1f}" fill="{colour}"/>'


@dataclass(frozen=True)
class Range:
    """From low to high, with the word that a line has for it; a dot where a line has no high."""

    row: Row

    @property
    def ends(self):
        return [self.row.named["low"], self.row.named["high"] or self.row.named["low"]]

    @property
    def values(self):
        return [number(end) for end in self.ends]

    @property
    def label(self):
        ends = " to ".join(dict.fromkeys(self.ends))
        word = self.row.named.get("word")
        return f"{ends}, {word}" if word else ends

    def draw(self, x: Axis, y: float, thick: float, colour: str) -> str:
        low, high = map(x, self.values)
        if abs(high - low) < NARROW:
            return dot((low + high) / 2, y, colour)
        return line(low, y, high, y, colour, thick / 2)


@dataclass(frozen=True)
class Several:
    """A dot for each number of a printed list."""

    row: Row

    @property
    def values(self):
        return numbers(self.row.named["values"])

    @property
    def label(self):
        low, high = min(self.values), max(self.values)
        return f"{written(low)} to {written(high)}" if low < high else written(low)

    def draw(self, x: Axis, y: float, thick: float, colour: str) -> str:
        ends = line(x(min(self.values)), y, x(max(self.values)), y, colour, 2)
        return ends + "".join(dot(x(value), y, colour, 0.75) for value in self.values)


def mark(row: Row, look: Look):
    if "values" in row.named:
        return Several(row)
    if "low" in row.named:
        return Range(row)
    return Bar(row, look.dots or look.log)


def chart(rows: list[Row], look: Look) -> str:
    """The chart that the names of the pattern's groups ask for."""
    names = set(rows[0].named)
    if {"x", "value"} <= names:
        return curves(rows, look)
    if "name" in names and ({"value"} < names or {"values"} < names or {"low", "high"} < names):
        return in_rows(rows, look)
    raise Misfit(
        "the pattern's groups are (?P<name>…) with (?P<value>…), (?P<low>…) and (?P<high>…), "
        f"or (?P<values>…); or (?P<x>…) with (?P<value>…); here: {sorted(names)}"
    )


def in_rows(rows: list[Row], look: Look) -> str:
    """Bars, ranges or dots, one under the other, each with its name and its number."""
    marks = [mark(row, look) for row in rows]
    groups = [list(found) for _, found in groupby(marks, lambda each: each.row.group)]
    heads = sum(HEADING for group in groups if group[0].row.group)
    pitch = min(HIGHEST, (look.height - UNDER - heads) / len(marks))
    if pitch < LOWEST:
        raise Misfit(f"{len(marks)} rows are too many for one chart: choose by :from: and :to:")
    names = max(width_of(look.name(each.row.named["name"])) for each in marks)
    if names > NAMES * look.width:
        raise Misfit("the names take more than half of the chart: say them shorter by :say:")
    labels = max(width_of(each.label) for each in marks)
    values = [value for each in marks for value in each.values]
    on_zero = isinstance(marks[0], Bar) and not marks[0].dots
    start, end = names + GAP, look.width - labels - 2 * GAP
    x = axis_for(values, look, start, end, on_zero)
    bottom = heads + pitch * len(marks)

    parts = grid_across(x, bottom, look.unit)
    stepped = _stepped(groups, look.steps)
    top = 0.0
    for group in groups:
        head = group[0].row.group
        drawn = [text(0, top + HEADING / 2, head, **{"font-weight": "bold"})] if head else []
        top += HEADING if head else 0
        for each in group:
            drawn.append(one_row(each, x, top + pitch / 2, pitch, look))
            top += pitch
        if len(groups) > 1:  # a group comes as one
            together = "".join(drawn)
            parts.append(at_click(together) if next(stepped) else together)
        else:
            parts += [at_click(part) if next(stepped) else part for part in drawn]
    return svg(parts, look, bottom + UNDER, said_of_rows(marks, look))


def _stepped(groups: list[list], shown: int) -> Iterator[bool]:
    """Whether the next part comes at a click."""
    count = len(groups) if len(groups) > 1 else len(groups[0]) + 1
    for place in range(count):
        yield bool(shown) and place >= shown


def one_row(each, x: Axis, y: float, pitch: float, look: Look) -> str:
    name = each.row.named["name"]
    colour = look.colour(name)
    beside = x(max(*each.values, x.low)) + 1.5 * GAP
    return (
        text(x.start - GAP, y, look.name(name), "end", palette.ink(colour))
        + each.draw(x, y, 0.56 * pitch, colour)
        + text(beside, y, each.label, fill=palette.ink(colour))
    )


def grid_across(x: Axis, bottom: float, unit: str) -> list[str]:
    parts = []
    for tick in x.ticks():
        colour = GREY if tick == 0 and x.low < 0 else GRID
        parts.append(line(x(tick), 0, x(tick), bottom, colour, 1.5))
        parts.append(text(x(tick), bottom + 20, written(tick), "middle", GREY))
    middle = (x.start + x.end) / 2
    return [*parts, text(middle, bottom + 58, unit, "middle", GREY)]


def said_of_rows(marks, look: Look) -> str:
    rows = []
    for each in marks:
        group = f"{each.row.group}, " if each.row.group else ""
        rows.append(f"{group}{look.name(each.row.named['name'])} {each.label}")
    return f"Chart, {look.unit}: {'; '.join(rows)}."


def curves(rows: list[Row], look: Look) -> str:
    """A line for each name, with its name at its end; dots where the numbers are."""
    if not look.across:
        raise Misfit("a chart over x says by :across: what x is")
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        point = number(row.named["x"]), number(row.named["value"])
        series.setdefault(row.named.get("name") or row.group, []).append(point)
    steps = [x for points in series.values() for x, _ in points]
    values = [value for points in series.values() for _, value in points]
    height = min(look.height, 0.62 * look.width + UNDER)
    bottom, top = height - UNDER, LETTERS + 2 * GAP
    names = max(width_of(look.name(name)) for name in series)
    up = axis_for(values, look, bottom, top, zero=False)
    left = max(width_of(written(tick)) for tick in up.ticks()) + GAP
    ends = left + GAP, look.width - names - 3 * GAP
    along = Axis(min(steps), max(steps), *ends, look.log_across)

    parts = [text(0, LETTERS / 2, look.unit, fill=GREY)]
    for tick in up.ticks():
        parts.append(line(left, up(tick), along.end, up(tick), GRID, 1.5))
        parts.append(text(left - GAP / 2, up(tick), written(tick), "end", GREY))
    for tick in along.ticks():
        parts.append(text(along(tick), bottom + 24, written(tick), "middle", GREY))
    middle = (along.start + along.end) / 2
    parts.append(text(middle, bottom + 60, look.across, "middle", GREY))
    for place, (name, points) in enumerate(series.items()):
        colour = look.colour(name)
        spots = [(along(x), up(value)) for x, value in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        drawn = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="4"/>'
        drawn += "".join(dot(x, y, colour) for x, y in spots)
        drawn += text(spots[-1][0] + GAP, spots[-1][1], look.name(name), fill=palette.ink(colour))
        parts.append(at_click(drawn) if look.steps and place >= look.steps else drawn)
    return svg(parts, look, height, said_of_curves(series, look))


def said_of_curves(series: dict[str, list[tuple[float, float]]], look: Look) -> str:
    lines = []
    for name, points in series.items():
        at = ", ".join(f"{written(value)} at {written(x)}" for x, value in points)
        lines.append(f"{look.name(name)} {at}".strip())
    return f"Chart, {look.unit} over {look.across}: {'; '.join(lines)}."
