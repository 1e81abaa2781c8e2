"""figures.py: the fingerprint sees changes of the data, the PNG carries it, the palette is readable."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from normcourse import figures

ALT = "A line that rises from 0 to 1, drawn for this test alone."


def make(scale=1.0, title="It rises", norm="layer_norm"):
    figure, ax = figures.subplots()
    figures.line(ax, torch.arange(11), torch.linspace(0, 1, 11) * scale, norm, spread=([0] * 11, [1] * 11))
    ax.set_title(title)
    ax.set_xlabel("step")
    ax.set_ylabel("value")
    return figure, ax


def shown(monkeypatch, figure):
    outputs = []
    monkeypatch.setattr(figures, "display", lambda data, **kwargs: outputs.append((data, kwargs)))
    figures.show(figure, alt=ALT)
    (data, kwargs), *more = outputs
    assert not more
    return data, kwargs


def test_the_output_holds_png_fingerprint_and_alt_text(monkeypatch):
    data, kwargs = shown(monkeypatch, make()[0])
    assert kwargs == {"metadata": {"image/png": {"alt": ALT}}, "raw": True}
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        assert image.size == (640, 360)
        assert image.text == {"Fingerprint": data["text/plain"]}
    assert data["text/plain"].startswith("figure: 1 axes\n[It rises] step | value (linear x linear)\n")


def test_showing_twice_gives_the_same_bytes(monkeypatch):
    assert shown(monkeypatch, make()[0]) == shown(monkeypatch, make()[0])


def test_alt_text_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="40 characters"):
        figures.show(make()[0], alt="a figure")


def scatter(ax, x):
    ax.scatter(x, x)


def bars(ax, x):
    ax.bar(["a", "b", "c"], x[:3])


def barh(ax, x):
    ax.barh(["a", "b", "c"], x[:3])


def heat_map(ax, x):
    ax.imshow(np.outer(x, x))


def colour_bar(ax, x):
    ax.figure.colorbar(ax.imshow(np.outer(x, x)))


def band(ax, x):
    ax.fill_between(x, x, 2 * x)


def arrows(ax, x):
    ax.quiver([0.0], [0.0], [x[0]], [x[1]], angles="xy", scale_units="xy", scale=1)


def error_bars(ax, x):
    ax.errorbar([0, 1], [0, 1], yerr=x[:2])


def text(ax, x):
    ax.text(0, 0, f"{x[0]:.4f}")


def line_3d(ax, x):
    ax.figure.clear()
    ax.figure.add_subplot(projection="3d").plot(x, x, x)


def arrow_3d(ax, x):
    ax.figure.clear()
    cube = ax.figure.add_subplot(projection="3d")
    cube.set(xlim=(0, 1), ylim=(0, 1), zlim=(0, 1))
    cube.quiver(0, 0, 0, *x[:3])


DRAW = [line_3d, arrow_3d, scatter, bars, barh, heat_map, colour_bar, band, arrows, error_bars, text]


@pytest.mark.parametrize("draw", DRAW, ids=lambda draw: draw.__name__)
def test_the_fingerprint_sees_one_per_cent_in_every_kind_of_artist(draw):
    prints = []
    for factor in (1.0, 1.0, 1.01):
        figure, ax = figures.subplots()
        draw(ax, np.array([0.31, 0.72, 0.55, 0.9]) * factor)
        prints.append(figures.fingerprint(figure))
    assert prints[0] == prints[1] != prints[2]


def test_the_fingerprint_sees_titles_scales_and_added_points():
    base = figures.fingerprint(make()[0])
    assert figures.fingerprint(make(title="It falls")[0]) != base
    figure, ax = make()
    ax.set_yscale("log")
    assert figures.fingerprint(figure) != base
    figure, ax = make()
    ax.plot([0], [0])
    assert figures.fingerprint(figure) != base
    figure, ax = make()
    ax.legend(ax.lines, ["the line"])
    assert figures.fingerprint(figure) != base


def test_the_fingerprint_sees_two_points_that_change_places():
    """Neither among the five values shown, nor in the extremes or the mean."""
    straight = [0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    swapped = [0.0, 1, 2, 4, 3, 5, 6, 7, 8, 9, 10]
    prints = []
    for y in (straight, swapped):
        figure, ax = figures.subplots()
        figures.line(ax, range(11), y, "dyt")
        prints.append(figures.fingerprint(figure))
    assert prints[0] != prints[1]


def test_the_fingerprint_does_not_see_rounding_noise():
    """Other CPUs differ in the last bits: zeros become 1e-17, and 1.125 may fall on either side."""
    noise = 1e-15 * torch.randn(11, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    clean = torch.tensor([0.0, 1.125, 2.375, -0.0, 4.5, 0.0, 3.625, 0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    prints = set()
    for values in (clean, clean + noise, clean - noise):
        figure, ax = figures.subplots()
        figures.line(ax, range(11), values, "dyt")
        prints.add(figures.fingerprint(figure))
    assert len(prints) == 1


def luminance(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("norm", figures.STYLE)
def test_every_norm_has_its_own_marker_and_enough_contrast_on_white(norm):
    colour, marker = figures.STYLE[norm]
    assert 1.05 / (luminance(colour) + 0.05) >= 3.1  # WCAG asks 3 of graphics
    assert [m for _, m in figures.STYLE.values()].count(marker) == 1
