"""What a cell shows for a figure: PNG, fingerprint, and the alt text as a visible caption."""

import base64
import io
import re

from IPython.display import display
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from normcourse.figures.fingerprint import fingerprint
from normcourse.figures.style import DPI, MAX_WIDTH, MIN_LABEL

MIN_ALT = 40
# pixels of the page: half of those stored, so that the picture is sharp on any screen
SHOWN_PER_INCH = 100


def show(figure: Figure, alt: str) -> None:
    """Display the figure and, below it, its alt text: what a reader should see, with numbers.

    Raises:
        ValueError: the alt text says too little, the figure is too wide, or a label is too small.
    """
    if len(alt) < MIN_ALT:
        raise ValueError(
            f"alt text should say what a reader sees, in {MIN_ALT} characters or more, got {alt!r}."
        )
    _check_sizes(figure)
    text = fingerprint(figure)
    picture = base64.b64encode(_png(figure, text)).decode()
    about = {
        "alt": alt,
        "width": round(figure.get_figwidth() * SHOWN_PER_INCH),
        "panels": _panels(figure),
    }
    display({"image/png": picture, "text/plain": text}, metadata={"image/png": about}, raw=True)
    display({"text/markdown": caption(alt)}, raw=True)


def caption(alt: str) -> str:
    """The alt text in italics, with characters escaped that Markdown or MathJax would read."""
    plain = " ".join(alt.split())
    return "*" + re.sub(r"([\\`*_{}\[\]<>|$~#])", r"\\\1", plain) + "*"


def _check_sizes(figure: Figure) -> None:
    width = figure.get_figwidth()
    if width > MAX_WIDTH + 1e-9:
        raise ValueError(
            f"the figure is {width:g} inches wide, allowed {MAX_WIDTH}: "
            "put its panels below each other, or make two figures."
        )
    figure.canvas.draw()  # ticks get their labels
    for text in figure.findobj(Text):
        points = float(text.get_fontsize())
        if points < MIN_LABEL and text.get_visible() and text.get_text().strip():
            raise ValueError(
                f"{text.get_text()!r} has {points:g} points, at least {MIN_LABEL} can be read: "
                "leave fontsize out, and shorten the text where it does not fit."
            )


def _panels(figure: Figure) -> list[list[int]]:
    """Each axes' box with its labels in the picture: left, top, right, bottom, in pixels."""
    width = round(figure.get_figwidth() * DPI)
    height = round(figure.get_figheight() * DPI)
    scale = DPI / figure.dpi
    boxes = []
    for ax in figure.axes:
        box = ax.get_tightbbox()
        if box is None:  # of axes that are not shown
            continue
        left, bottom, right, top = (round(float(edge) * scale) for edge in box.extents)
        boxes.append(
            [max(left, 0), max(height - top, 0), min(right, width), min(height - bottom, height)]
        )
    return boxes


def _png(figure: Figure, text: str) -> bytes:
    """The picture with text as its metadata, in a palette of 256 colours: a third of the size."""
    drawn = io.BytesIO()
    stored = io.BytesIO()
    metadata = PngInfo()
    metadata.add_itxt("Fingerprint", text)
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(
        stored, "png", pnginfo=metadata, optimize=True
    )
    return stored.getvalue()
