"""What stands on printed pages: their words, their pixels, their links."""

import contextlib
import re
from pathlib import Path

import pypdfium2
from PIL import Image, ImageChops, ImageStat

POINTS_A_PIXEL = 72 / 96  # a page is measured in points, a style sheet in pixels
ADDRESS = re.compile(rb"/URI \((.*?)\)")


class Paper:
    """A context manager, over one PDF."""

    def __init__(self, path: Path):
        self.path = path
        self.document = pypdfium2.PdfDocument(path)

    def __len__(self):
        return len(self.document)

    def words(self, number: int) -> str:
        """The text of a page, in the file's order, without white space."""
        with contextlib.ExitStack() as opened:
            page = opened.enter_context(contextlib.closing(self.document[number]))
            text = opened.enter_context(contextlib.closing(page.get_textpage()))
            return squeezed(text.get_text_bounded())

    def picture(self, number: int) -> Image.Image:
        """A page as it looks, one pixel for each one of the style sheet, in shades of grey."""
        with contextlib.closing(self.document[number]) as page:
            return page.render(scale=1 / POINTS_A_PIXEL).to_pil().convert("L")

    def addresses(self) -> list[str]:
        """Where the links of all pages lead to."""
        return [found.decode() for found in ADDRESS.findall(self.path.read_bytes())]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.document.close()


def squeezed(text: str) -> str:
    return "".join(text.replace("\N{ZERO WIDTH SPACE}", "").split())


def is_white(picture: Image.Image) -> bool:
    return picture.getextrema() == (255, 255)


def edges(picture: Image.Image, left: int, top: int, right: int, bottom: int) -> dict:
    """Four stripes along the edges of the paper, each as wide as is asked."""
    width, height = picture.size
    return {
        "left": picture.crop((0, 0, left, height)),
        "top": picture.crop((0, 0, width, top)),
        "right": picture.crop((width - right, 0, width, height)),
        "bottom": picture.crop((0, height - bottom, width, height)),
    }


def difference(one: Image.Image, other: Image.Image) -> float:
    """The root of the mean squared difference of two pictures of one size."""
    return ImageStat.Stat(ImageChops.difference(one, other)).rms[0]
