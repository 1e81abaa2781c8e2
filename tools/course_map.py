"""Draws notebooks/reference/course_map.svg for `make pages`: the road and the side lessons.

The lessons and their questions come from the headings of course_map.md.
"""

import re
import textwrap
from html import escape
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "notebooks" / "reference"
PAGE = REFERENCE / "course_map.md"
PICTURE = REFERENCE / "course_map.svg"
HEADING = re.compile(r"^### (\d\d)([a-z]?) · \[(.+?)\]\(\.\./\d\d[a-z]?_(.+?)\.ipynb\)", re.M)

WIDTH = 640
BOX = 290  # width of a box
HEIGHT = 62
GAP = 16
MARGIN = 10
SIDE = WIDTH - MARGIN - BOX  # left edge of a side lesson's box
LETTERS = 38  # that fit on a line of a box
STYLE = """
  text { font: 14px sans-serif; fill: #1c2733 }
  .name { font-weight: bold }
  .main { fill: #dcebf7; stroke: #2f6f9f }
  .side { fill: #fbf3df; stroke: #b08a2e }
  path { fill: none; stroke: #5a6b7a; stroke-width: 2 }
"""


def lessons(page: str) -> list[tuple[str, str, str, str]]:
    """Number, letter, question and name of each lesson, in the order of reading."""
    return HEADING.findall(page)


def box(x: int, y: int, kind: str, title: str, question: str) -> str:
    lines = [f'<text class="name" x="{x + 12}" y="{y + 20}">{escape(title)}</text>']
    for place, words in enumerate(textwrap.wrap(question, LETTERS)):
        lines.append(f'<text x="{x + 12}" y="{y + 38 + 17 * place}">{escape(words)}</text>')
    frame = f'<rect class="{kind}" x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6"/>'
    return "\n".join([frame, *lines])


def drawing(page: str) -> str:
    """The map as SVG: the main road from top to bottom, side lessons at the right of theirs."""
    shapes = []
    y = MARGIN
    main_y = y  # where the last lesson of the main road stands
    row_is_free = True
    for number, letter, question, name in lessons(page):
        title = f"{number}{letter} {name.replace('_', ' ')}"
        if letter:
            if not row_is_free:
                y += HEIGHT + GAP
            middle = y + HEIGHT // 2
            start = main_y + HEIGHT // 2
            bend = (MARGIN + BOX + SIDE) // 2
            shapes.append(f'<path d="M{MARGIN + BOX} {start} H{bend} V{middle} H{SIDE}"/>')
            shapes.append(box(SIDE, y, "side", title, question))
            row_is_free = False
            continue
        if shapes:
            y += HEIGHT + GAP
            axis = MARGIN + BOX // 2
            shapes.append(f'<path d="M{axis} {main_y + HEIGHT} V{y}"/>')
        main_y = y
        shapes.append(box(MARGIN, y, "main", title, question))
        row_is_free = True
    height = y + HEIGHT + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="Map of the course">'
    )
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *shapes, "</svg>\n"])


def made() -> dict[Path, str]:
    return {PICTURE: drawing(PAGE.read_text("utf-8"))}
