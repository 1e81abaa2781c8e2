"""A picture of the lesson on a slide: whole, panel by panel, or one panel alone."""

import base64
import html
import struct
from dataclasses import dataclass

from editions.extension.decks.lesson import Misfit
from normcourse.lesson import Picture

LARGEST = 2.2  # times its size on the page: above that the stored pixels are seen
LABEL = 12.5  # CSS pixels on the page of the smallest label, 9 pt at 100 pixels an inch
READABLE = 22  # CSS pixels on a slide
APART = 8  # pixels of the picture between a panel and the paper beside it


@dataclass(frozen=True)
class Box:
    """A part of a picture, in its own pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self):
        return self.right - self.left

    @property
    def height(self):
        return self.bottom - self.top


def whole(picture: Picture) -> Box:
    width, height = struct.unpack(">II", picture.png[16:24])  # the head of every PNG
    return Box(0, 0, width, height)


def panel(picture: Picture, number: int) -> Box:
    count = len(picture.panels)
    if not 1 <= number <= count:
        raise Misfit(f"panel {number}, but the picture has {count} panels")
    return Box(*picture.panels[number - 1])


def figure(
    picture: Picture,
    cell: str,
    shown: Box,
    room: tuple[float, float],
    steps: bool,
) -> str:
    """The HTML of the part `shown`, as large as `room` allows: a width and a height in pixels."""
    dots = whole(picture).width / picture.width  # stored pixels for each one of the page
    wide, high = room
    scale = min(wide / shown.width, high / shown.height, LARGEST / dots)
    label = LABEL * scale * dots
    if label < READABLE:
        raise Misfit(
            f"the smallest labels of {cell} would be {label:.0f} pixels high, "
            f"and a room needs {READABLE}: give it more :height:, "
            f"or show one of its {len(picture.panels)} panels by :panel:"
        )
    source = base64.b64encode(picture.png).decode()
    corner = f"left:{-shown.left * scale:.1f}px;top:{-shown.top * scale:.1f}px"
    width = whole(picture).width * scale
    image = (
        f'<img src="data:image/png;base64,{source}" alt="{html.escape(picture.alt)}" '
        f'style="{corner};width:{width:.1f}px" data-label="{label:.1f}">'
    )
    masks = "".join(masks_of(picture, scale)) if steps else ""
    size = f"width:{shown.width * scale:.1f}px;height:{shown.height * scale:.1f}px"
    return f'<div class="figure" style="{size}">{image}{masks}</div>'


def masks_of(picture: Picture, scale: float):
    """White paper over every panel but the first; each goes away at a click."""
    if len(picture.panels) < 2:
        raise Misfit("a picture without panels cannot be shown step by step")
    for number in range(2, len(picture.panels) + 1):
        pieces = without(panel(picture, number), panel(picture, number - 1))
        paper = "".join(f'<i style="{place(piece, scale)}"></i>' for piece in pieces)
        yield f'<div class="mask fragment fade-out">{paper}</div>'


def without(box: Box, shown: Box) -> list[Box]:
    """What the box covers beside a panel that is shown: a long label may reach below that one."""
    beside = shown.left < box.left < shown.right and shown.top < box.bottom
    if not beside or shown.bottom >= box.bottom:
        return [box]
    return [
        Box(shown.right + APART, box.top, box.right, box.bottom),
        Box(box.left, shown.bottom, shown.right, box.bottom),
    ]


def place(box: Box, scale: float) -> str:
    """The style of the box on the slide, and three pixels round it."""
    corner = f"left:{box.left * scale - 3:.1f}px;top:{box.top * scale - 3:.1f}px"
    size = f"width:{box.width * scale + 6:.1f}px;height:{box.height * scale + 6:.1f}px"
    return f"{corner};{size}"
