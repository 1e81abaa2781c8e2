"""The fingerprint of a figure sees changes of the data, and the palette is readable."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from normcourse import figures
from normcourse.figures import output
from normcourse.figures.output import caption
from normcourse.figures.style import ink

ALT = "A line that rises from 0 to 1, drawn for this test alone."


def make(scale=1.0, title="It rises", norm="layer_norm"):
    figure, ax = figures.subplots()
    figures.line(
        ax, torch.arange(11), torch.linspace(0, 1, 11) * scale, norm, spread=([0] * 11, [1] * 11)
    )
    ax.set_title(title)
    ax.set_xlabel("step")
    ax.set_ylabel("value")
    return figure, ax


def shown(monkeypatch, figure):
    outputs = []
    monkeypatch.setattr(output, "display", lambda data, **kwargs: outputs.append((data, kwargs)))
    figures.show(figure, alt=ALT)
    (data, kwargs), below = outputs
    assert below == ({"text/markdown": f"*{ALT}*"}, {"raw": True})
    return data, kwargs


def test_the_output_holds_png_fingerprint_and_alt_text(monkeypatch):
    data, kwargs = shown(monkeypatch, make()[0])
    about = kwargs["metadata"]["image/png"]
    assert about["alt"] == ALT
    assert about["width"] == 620
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        assert image.size == (1240, 680)
        assert image.text == {"Fingerprint": data["text/plain"]}
    assert data["text/plain"].startswith(
        "figure: 1 axes\n[It rises] step | value (linear x linear)\n"
    )


def test_showing_twice_gives_the_same_bytes(monkeypatch):
    assert shown(monkeypatch, make()[0]) == shown(monkeypatch, make()[0])


def test_alt_text_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="40 characters"):
        figures.show(make()[0], alt="a figure")


def test_a_caption_shows_marks_of_markdown_as_they_are():
    assert caption("1*2 _a_ [b] $c$ <d>") == r"*1\*2 \_a\_ \[b\] \$c\$ \<d\>*"


def test_the_panels_boxes_lie_in_the_picture_side_by_side(monkeypatch):
    figure, axes = figures.subplots(1, 2)
    for ax in axes:
        ax.set(xlabel="x", ylabel="y", title="z")
    _, kwargs = shown(monkeypatch, figure)
    (left, top, middle, bottom), (start, *_, right, _) = kwargs["metadata"]["image/png"]["panels"]
    assert 0 <= left < middle <= start < right <= 1240
    assert 0 <= top < bottom <= 680


def test_a_figure_that_is_too_wide_is_refused():
    with pytest.raises(ValueError, match=r"8 inches wide, allowed 6\.2"):
        figures.show(figures.subplots(width=8)[0], alt=ALT)


def test_a_label_that_is_too_small_is_refused():
    figure, ax = make()
    ax.set_xlabel("step", fontsize=8)
    with pytest.raises(ValueError, match="'step' has 8 points"):
        figures.show(figure, alt=ALT)


def test_a_line_of_no_known_series_is_refused():
    with pytest.raises(ValueError, match=r"'ley'.*layer_norm.*rose"):
        figures.line(figures.subplots()[1], [0], [0], "ley")


def test_a_lines_name_stands_where_it_is_asked():
    ax = figures.subplots()[1]
    figures.line(ax, [0, 1], [0, 1], "rose", label="gradient", at=(0.2, 0.7))
    (text,) = ax.texts
    assert text.get_text() == "gradient"
    assert text.get_position() == (0.2, 0.7)


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


DRAW = [
    line_3d,
    arrow_3d,
    scatter,
    bars,
    barh,
    heat_map,
    colour_bar,
    band,
    arrows,
    error_bars,
    text,
]


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
    clean = torch.tensor(
        [0.0, 1.125, 2.375, -0.0, 4.5, 0.0, 3.625, 0.0, 1.0, 2.0, 3.0], dtype=torch.float64
    )
    prints = set()
    for values in (clean, clean + noise, clean - noise):
        figure, ax = figures.subplots()
        figures.line(ax, range(11), values, "dyt")
        prints.add(figures.fingerprint(figure))
    assert len(prints) == 1


def plain(ax):
    pass


def tick_labels_swapped(ax):
    ax.set_xticks([0, 5, 10], ["c", "b", "a"])


def tick_moved(ax):
    ax.set_xticks([0, 4, 10], ["a", "b", "c"])


def tick_labels_hidden(ax):
    ax.tick_params(labelleft=False)


def limits(ax):
    ax.set_ylim(0, 2)


def inverted(ax):
    ax.invert_yaxis()


def text_moved(ax):
    ax.texts[1].set_position((3, 0.6))


def text_coloured(ax):
    ax.texts[1].set_color("red")


def label_elsewhere(ax):
    ax.texts[0].xy = (5, 0.5)


def text_of_the_figure(ax):
    ax.figure.suptitle("Above all")


def coloured(ax):
    ax.lines[0].set_color("green")


def dashed(ax):
    ax.lines[0].set_linestyle("--")


def marked(ax):
    ax.lines[0].set_marker("^")


def another_patch(ax):
    ax.axvspan(2, 3)


def patch_moved(ax):
    ax.patches[0].set_x(1.5)


def patch_coloured(ax):
    ax.patches[0].set_facecolor("red")


def point_moved(ax):
    ax.collections[1].set_offsets([[4, 0.5]])


def point_coloured(ax):
    ax.collections[1].set_facecolor("red")


def band_coloured(ax):
    ax.collections[0].set_facecolor("red")


def colours_of_points_swapped(ax):
    ax.collections[2].set_facecolor(["blue", "red"])


def legend_colours_swapped(ax):
    ax.legend(ax.lines[::-1], ["one", "two"])


def legend_names_swapped(ax):
    ax.legend(ax.lines, ["two", "one"])


def colour_map(ax):
    ax.images[0].set_cmap("magma")


def colour_limits(ax):
    ax.images[0].set_clim(0, 5)


def mirrored_image(ax):
    ax.images[0].set_data([[2.0, 1.0], [4.0, 3.0]])


def image_upside_down(ax):
    ax.images[0].origin = "lower"


def line_hidden(ax):
    ax.lines[0].set_visible(False)


CHANGES = [tick_labels_swapped, tick_moved, tick_labels_hidden, limits, inverted, text_moved,
           text_coloured, label_elsewhere, text_of_the_figure, coloured, dashed, marked,
           another_patch, patch_moved,
           patch_coloured, point_moved, point_coloured, band_coloured, colours_of_points_swapped,
           legend_colours_swapped, legend_names_swapped, colour_map, colour_limits, mirrored_image,
           image_upside_down, line_hidden]  # fmt: skip


def rich(change):
    """The fingerprint of a figure with one artist of each kind, after a change."""
    figure, ax = make()
    ax.plot([0, 10], [1, 0], color="black")
    ax.set_xticks([0, 5, 10], ["a", "b", "c"])
    ax.text(2, 0.6, "a word")
    ax.axvspan(1, 2)
    ax.scatter([3], [0.5])
    ax.scatter([5, 6], [0.2, 0.3], color=["red", "blue"])
    ax.imshow([[1.0, 2.0], [3.0, 4.0]], extent=(6, 8, 0.6, 0.8), aspect="auto")
    ax.set(xlim=(0, 10), ylim=(0, 1))
    ax.legend(ax.lines, ["one", "two"])
    change(ax)
    return figures.fingerprint(figure)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_fingerprint_sees_what_the_reader_sees(change):
    assert rich(plain) == rich(plain) != rich(change)


def test_limits_of_a_logarithmic_axis_count_at_every_size():
    figure, ax = make()
    ax.set(yscale="log", ylim=(1e-30, 1))
    assert "y: 1e-30 to 1\n" in figures.fingerprint(figure)


def test_labels_of_ticks_may_be_numbers():
    figure, ax = make()
    ax.set_xticks([0, 10], [4, 128])
    assert "ticks 0 '4', 10 '128'" in figures.fingerprint(figure)


def test_the_fingerprint_does_not_follow_fonts():
    """Ticks and places of legends that matplotlib chooses by the room are not listed."""
    prints = set()
    for size in (9, 20):
        figure, ax = make()
        ax.legend(ax.lines, ["the line"])
        ax.tick_params(labelsize=size)
        figure.canvas.draw()
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


@pytest.mark.parametrize(
    "colour", [*figures.COLOURS.values(), *(c for c, _ in figures.STYLE.values())]
)
def test_text_in_a_colour_of_the_house_can_be_read(colour):
    assert 1.05 / (luminance(ink(colour)) + 0.05) >= 4.5  # WCAG, for text
