"""What stands on printed pages: their words, their pixels, their links."""

import contextlib
import itertools
import re
from pathlib import Path

import pypdfium2
import pypdfium2.raw
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

    def pictures_on(self, number: int) -> list[tuple[int, int, int, int]]:
        """Where pictures lie on a page: left, top, right, bottom, in pixels of `picture`."""
        pixels = 1 / POINTS_A_PIXEL
        with contextlib.closing(self.document[number]) as page:
            height = page.get_height()
            images = page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE])
            bounds = [image.get_bounds() for image in images]
        boxes = [(left, height - high, right, height - low) for left, low, right, high in bounds]
        return [tuple(round(pixels * length) for length in box) for box in boxes]

    def addresses(self) -> list[str]:
        """Where the links of all pages lead to."""
        return [found.decode() for found in ADDRESS.findall(self.path.read_bytes())]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.document.close()


def squeezed(text: str) -> str:
    """Without white space and hyphens: a PDF loses those at which a line ends."""
    return re.sub(r"[\s\N{ZERO WIDTH SPACE}\x02-]", "", text)


def is_white(picture: Image.Image) -> bool:
    return picture.getextrema() == (255, 255)


def ruled(picture: Image.Image) -> int:
    """How many lines to write on: rows that are dark over more than four fifths of the paper."""
    dark = picture.point(lambda shade: 255 if shade < 190 else 0)
    shares = dark.resize((1, dark.height), Image.Resampling.BOX).tobytes()
    rows = [False, *(share > 0.8 * 255 for share in shares)]
    return sum(now and not before for before, now in itertools.pairwise(rows))


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
