"""The distance of two pictures forgives fonts and small shifts.

It forgives nothing that a reader would notice.
"""

import base64
import io

import matplotlib
import pytest
from PIL import Image, ImageOps

from normcourse import figures
from normcourse.figures.output import _png
from tests.notebooks import pictures
from tests.notebooks.pictures import LIMIT, LIMIT_OF_OTHERS, distance

NAMES = ["LayerNorm", "RMSNorm", "DyT", "DyISRU"]
SERIES = ["layer_norm", "rms_norm", "dyt", "dyisru"]


def picture(*, names=NAMES, series=SERIES, place=(0.1, 0.9)):
    """A figure with two panels as the lessons store it: base64 of a PNG."""
    figure, (left, right) = figures.subplots(1, 2, height=2.6)
    figures.line(left, range(20), [0.9**step for step in range(20)], series[0], label="")
    figures.line(left, range(20), [0.8**step for step in range(20)], series[2], label="")
    left.set(xlabel="step", ylabel="loss", title="Both fall")
    left.text(place[0] * 20, place[1], "the slower one")
    colours = [figures.STYLE[name][0] for name in series]
    right.barh(range(4), [1.0, 3.0, 2.0, 5.0], color=colours)
    right.set_yticks(range(4), names)
    right.set(title="Time", xlabel="copies")
    return base64.b64encode(_png(figure, "")).decode()


def changed(stored, change):
    """The stored picture after a change of its pixels."""
    image = Image.open(io.BytesIO(base64.b64decode(stored))).convert("RGB")
    file = io.BytesIO()
    change(image).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def shifted(image):
    return image.transform(
        image.size, Image.Transform.AFFINE, (1, 0, 2, 0, 1, -2), fillcolor="white"
    )


@pytest.fixture(scope="module")
def stored():
    return picture()


FAULTS = {
    "mirrored": lambda stored: changed(stored, ImageOps.mirror),
    "upside down": lambda stored: changed(stored, ImageOps.flip),
    "inverted": lambda stored: changed(stored, ImageOps.invert),
    "names of ticks exchanged": lambda _: picture(names=[NAMES[3], *NAMES[1:3], NAMES[0]]),
    "colours exchanged": lambda _: picture(series=[SERIES[2], SERIES[1], SERIES[0], SERIES[3]]),
    "text moved": lambda _: picture(place=(0.3, 0.8)),
    "another size": lambda stored: changed(stored, lambda image: image.reduce(2)),
}


SMALL = {
    "names of ticks exchanged",
    "text moved",
}  # seen by the matplotlib alone that drew the stored picture


WITNESSES = {"mirrored", "names of ticks exchanged"}  # the first and the smallest, in `make test`


@pytest.mark.parametrize(
    "name",
    [
        name if name in WITNESSES else pytest.param(name, marks=pytest.mark.selftest)
        for name in FAULTS
    ],
)
def test_a_fault_is_far_from_the_stored_picture(stored, name):
    far = distance(FAULTS[name](stored), stored)
    assert far > (2 * LIMIT if name in SMALL else LIMIT_OF_OTHERS)


def test_another_matplotlib_has_a_wider_limit(monkeypatch):
    monkeypatch.setattr(pictures, "version", lambda _: "3.9.4")
    assert pictures.limit() == LIMIT_OF_OTHERS


def test_the_same_figure_has_distance_0(stored):
    assert distance(picture(), stored) == 0


def square(colour="black", background="white", place=40, size=120):
    """A picture of its own, small enough for `make test`: base64 of a PNG."""
    image = Image.new("RGB", (size, size), background)
    image.paste(colour, (place, place, place + 40, place + 40))
    file = io.BytesIO()
    image.save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def test_a_shift_of_two_pixels_and_a_faint_colour_are_near_and_the_rest_is_far():
    assert distance(square(place=42), square()) < LIMIT / 2
    assert distance(square(background="#f0f0f0"), square()) == 0
    assert distance(square(place=60), square()) > LIMIT_OF_OTHERS
    red, green = "#ff0000", "#008200"  # the same grey
    assert distance(square(red), square(green)) > LIMIT_OF_OTHERS
    assert distance(square(size=160), square()) == float("inf")


@pytest.mark.selftest
@pytest.mark.parametrize("hinting", ["none", "force_autohint"])
def test_letters_set_in_another_way_are_near(stored, hinting):
    with matplotlib.rc_context({"text.hinting": hinting}):
        other = picture()
    assert other != stored
    assert distance(other, stored) < LIMIT / 2


@pytest.mark.selftest
def test_a_picture_two_pixels_off_is_near(stored):
    assert distance(changed(stored, shifted), stored) < LIMIT / 2
