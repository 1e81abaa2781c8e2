"""The room of a slide, and how two columns share it."""

import re

from editions import slide
from editions.extension.decks.lesson import Misfit

WIDTH = slide.WIDTH - 2 * slide.SIDE
HEIGHT = slide.HEIGHT - 200  # below the heading, above the foot
BETWEEN = 40  # pixels, as deck.css has it
HALF = 50
HEADING = re.compile(r"##? ")
MARKER = re.compile(r":::+ *\{beside\} *(\S*)")


def percent(text: str) -> int:
    if not text.isdigit() or not 20 <= int(text) <= 80:
        raise Misfit(f"what stands beside takes 20 to 80 percent of the width, not {text!r}")
    return int(text)


def widths(share: int) -> tuple[float, float]:
    """Of the left and the right column, in pixels."""
    right = (WIDTH - BETWEEN) * share / 100
    return WIDTH - BETWEEN - right, right


def room(source: list[str], line: int) -> tuple[float, float]:
    """Width and height for what stands in this line of a deck, which counts from 1."""
    for number in slide_of(source, line):
        marker = MARKER.match(source[number])
        if marker:
            left, right = widths(percent(marker[1] or str(HALF)))
            return (right if number < line else left), HEIGHT
    return WIDTH, HEIGHT


def slide_of(source: list[str], line: int) -> range:
    """The lines between the headings before and behind this one."""
    headings = [number for number, text in enumerate(source) if HEADING.match(text)]
    first = max((number for number in headings if number < line), default=0)
    last = min((number for number in headings if number >= line), default=len(source))
    return range(first, last)
