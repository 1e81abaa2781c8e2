"""The size of a slide, which editions/static/deck/deck.css states in its first lines."""

import re
from pathlib import Path

STYLE = (Path(__file__).parent / "static/deck/deck.css").read_text("utf-8")


def pixels(name: str) -> int:
    """The length of a variable of deck.css, in CSS pixels."""
    (length,) = re.findall(rf"--{name}: (\d+)px;", STYLE)
    return int(length)


WIDTH, HEIGHT = SIZE = (pixels("slide-width"), pixels("slide-height"))
SIDE = pixels("slide-side")  # left and right of what stands on it
