"""How far two pictures are from each other, for an eye that forgives fonts and small shifts.

The strict run compares the stored picture with the one that the cell draws now. On the machine that
stored it the bytes are equal. Another matplotlib, FreeType or hinting sets letters a little
differently and moves the axes by a pixel or two: each spot of one picture is looked for near the
same place in the other, and the worst spot counts. A mirrored picture, exchanged names or colours
and a moved text leave spots without a match.

Measured. With the matplotlib of constraints.txt and three kinds of hinting: at most 0.003; lines
without antialiasing 0.016; an exchanged word or colour and a moved text 0.066 to 0.9. With
matplotlib 3.9 instead of 3.11, 18 figures of lessons: 0 to 0.101, since it chooses other ticks on a
logarithmic axis, and a long title ends elsewhere. So another matplotlib has a wider limit, which a
mirrored or inverted picture and exchanged colours still exceed; names and places are compared by
the matplotlib of constraints.txt alone. One exchanged digit (0.008), or two names in a legend that
end alike (0.022), are below both limits: the fingerprint sees them in what a cell draws, but nobody
sees them painted into a stored picture.
"""

import base64
import io
import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

LIMIT = 0.03
LIMIT_OF_OTHERS = 0.15  # of a matplotlib that did not draw the stored picture
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
# pixels of the picture (200 to the inch) to one of the comparison, in which the rest is given
REDUCE = 2
BLUR = 1.5
SHIFT = 3
SPOT = 11
FAINT = 0.15  # a smaller difference of colour is that of an edge, or of a grid line


def limit() -> float:
    """How far a picture that the installed matplotlib draws may be from the stored one."""
    (constrained,) = re.findall(r"^matplotlib==(\S+)", CONSTRAINTS.read_text("utf-8"), re.M)
    return LIMIT if version("matplotlib") == constrained else LIMIT_OF_OTHERS


def distance(drawn: str, stored: str) -> float:
    """Of two PNGs in base64: 0 where they are equal, near 1 for black against white.

    Pictures of different sizes are infinitely far from each other.
    """
    if drawn == stored:
        return 0.0
    one = _coarse(drawn)
    other = _coarse(stored)
    if one.shape != other.shape:
        return float("inf")
    padded = np.pad(other, ((SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="edge")
    height, width, _ = one.shape
    nearest = np.full((height - SPOT + 1, width - SPOT + 1), np.inf)
    for down in range(2 * SHIFT + 1):
        for right in range(2 * SHIFT + 1):
            moved = padded[down : down + height, right : right + width]
            difference = np.abs(one - moved).max(axis=2)  # of the colour that differs most
            nearest = np.minimum(nearest, _spots((difference - FAINT).clip(min=0)))
    return float(nearest.max())


def _coarse(picture: str) -> np.ndarray:
    """Height x width x 3, from 0 to 1."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").reduce(REDUCE)
    return np.asarray(image.filter(ImageFilter.GaussianBlur(BLUR)), dtype=np.float32) / 255


def _spots(difference: np.ndarray) -> np.ndarray:
    """The mean over each square of SPOT x SPOT."""
    sums = np.pad(difference.cumsum(0, dtype=float).cumsum(1), ((1, 0), (1, 0)))
    total = sums[SPOT:, SPOT:] - sums[:-SPOT, SPOT:] - sums[SPOT:, :-SPOT] + sums[:-SPOT, :-SPOT]
    return total / SPOT**2
