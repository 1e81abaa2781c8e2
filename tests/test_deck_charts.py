"""Charts of a deck: where a value stands, what is written, and how much room a slide has."""

import re
from types import SimpleNamespace

import pytest

from editions import house
from editions.extension.decks import charts, columns, results, rows
from editions.extension.decks.lesson import Misfit

PRINTED = "LayerNorm 89 to 94\nno norm 25 to 56\n"


def drawn(printed, pattern, **said):
    look = charts.Look(**{"unit": "digits", "width": 600, "height": 400, **said})
    return charts.chart(rows.rows_of(printed, pattern), look)


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        ("LayerNorm", "layer_norm"), ("batch_norm_mild", "batch_norm"), ("DyT, derived", "dyt"),
        ("dyt_sqrt_d", "dyt_sqrt_d"), ("no norm", "none"), ("LN", "layer_norm"), ("line", None),
        ("1 in the batch: BatchNorm", "batch_norm"), ("norm 0 of 5, alone", None),
    ],
)  # fmt: skip
def test_a_name_is_about_a_norm(name, norm):
    assert house.norm_in(name) == norm


def test_a_bar_is_as_long_as_its_number():
    svg = drawn("a 2\nb 5\n", r"(?P<name>\w) (?P<value>\d)")
    lengths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', svg)]
    assert lengths[1] / lengths[0] == pytest.approx(2.5, rel=1e-3)


def test_a_bar_below_zero_goes_to_the_left():
    svg = drawn("a 4\nb -4\n", r"(?P<name>\w) (?P<value>-?\d)")
    (left, wide), (other, also_wide) = re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"', svg)
    assert float(wide) == pytest.approx(float(also_wide), abs=0.2)
    assert float(other) + float(also_wide) == pytest.approx(float(left), abs=0.2)


def test_zero_is_marked_where_numbers_lie_on_both_sides():
    pattern = r"(?P<name>\w) (?P<low>\S+) to (?P<high>\d)"
    assert f'stroke="{charts.GREY}"' in drawn("a -2 to 4\n", pattern)
    assert f'stroke="{charts.GREY}"' not in drawn("a 0 to 4\n", pattern)


def test_a_log_axis_has_a_power_of_ten_at_equal_distances():
    x = charts.Axis(1, 1000, 0, 300, log=True)
    assert x.ticks() == [1, 10, 100, 1000]
    assert [x(tick) for tick in x.ticks()] == pytest.approx([0, 100, 200, 300])


def test_a_chart_says_what_it_shows():
    svg = drawn(PRINTED, r"(?P<name>.+?) (?P<low>\d+) to (?P<high>\d+)")
    assert 'aria-label="Chart, digits: LayerNorm 89 to 94; no norm 25 to 56."' in svg


def test_a_range_goes_from_its_low_to_its_high_and_no_further():
    svg = drawn(
        "a 20 to 60\nb 40 to 40\n",
        r"(?P<name>\w) (?P<low>\d+) to (?P<high>\d+)",
        ends=(0, 100),
    )
    ticks = re.findall(rf'<line x1="([\d.]+)"[^>]*{charts.GRID}', svg)
    left, right = float(ticks[0]), float(ticks[-1])
    bars = re.findall(r'<line x1="([\d.]+)".+?x2="([\d.]+)".+?stroke-width="([\d.]+)"', svg)
    *ends, _ = max(bars, key=lambda bar: float(bar[2]))
    shares = [(float(place) - left) / (right - left) for place in ends]
    assert shares == pytest.approx([0.2, 0.6], abs=2e-3)
    assert "linecap" not in svg
    assert svg.count("<circle") == 1


def test_a_range_has_the_word_that_its_line_has_for_it():
    svg = drawn(
        "a -2 to 4 open\nb 1 to 3\n", r"(?P<name>\w) (?P<low>\S+) to (?P<high>\d) ?(?P<word>\w*)"
    )
    assert ">-2 to 4, open<" in svg
    assert ">1 to 3<" in svg


def test_several_numbers_are_several_dots_in_the_colour_of_their_norm():
    svg = drawn("DyT: [1, 2, 3.5]", r"(?P<name>\w+): \[(?P<values>.+)\]")
    assert svg.count("<circle") == 3
    assert house.NORMS["dyt"] in svg
    assert ">1 to 3.5<" in svg


def test_rows_come_at_clicks_or_groups_do():
    bars = r"(?P<name>\w) (?P<value>\d)"
    assert drawn("a 2\nb 5\nc 4\n", bars).count("fragment") == 0
    assert drawn("a 2\nb 5\nc 4\n", bars, steps=1).count("fragment") == 2
    look = charts.Look(unit="", width=600, height=400, steps=1)
    groups = rows.rows_of("deep\na 2\nb 5\nflat\na 1\n", bars, "deep|flat")
    assert charts.chart(groups, look).count("fragment") == 1


def test_a_curve_for_each_name():
    pattern = r"(?P<name>\w): (?P<x>\S+) gives (?P<value>\S+)"
    svg = drawn("a: 1 gives 2\na: 3 gives 1\nb: 1 gives 0\nb: 3 gives 4\n", pattern, across="n")
    assert svg.count("<polyline") == 2
    assert "over n: a 2 at 1, 1 at 3; b 0 at 1, 4 at 3." in svg


def test_a_curve_wants_to_know_what_x_is():
    with pytest.raises(Misfit, match="across"):
        drawn("1 2\n3 4\n", r"(?P<x>\d) (?P<value>\d)")


def test_a_table_that_asks_shows_its_names_and_leaves_the_answers_open():
    found = rows.rows_of("a: yes\nb: no\n", r"(\w): (\w+)")
    options = {"heads": "change | same", "steps": 1, "ask": None}
    deck = SimpleNamespace(options=options, vouched=str, written=str, head="{}{}".format)
    table = results.TableOf.shown(deck, found)
    assert "<tr><td>a</td><td>yes</td></tr>" in table  # the example
    assert '<tr><td>b</td><td><p class="fragment answer">no</p></td></tr>' in table


def test_names_may_not_take_the_chart():
    with pytest.raises(Misfit, match="names take more than half"):
        drawn(f"{'long ' * 20}: 3\n", r"(?P<name>.+): (?P<value>\d)")


@pytest.mark.parametrize("text", ["1,234.5", "−1,234.5"])
def test_a_number_as_it_is_printed(text):
    assert abs(rows.number(text)) == 1234.5


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("1.1e-12", "1.1 · 10⁻¹²"), ("7.0e-01", "0.70"), ("2.8e+02", "280"), ("-1e-03", "-0.001"),
        ("1.25e+00 to 3e+4", "1.25 to 3 · 10⁴"), ("0.5", "0.5"), ("step 1", "step 1"),
    ],
)  # fmt: skip
def test_a_power_of_ten_is_written_as_on_a_board(printed, shown):
    assert rows.readable(printed) == shown


def test_what_is_no_number_is_named():
    with pytest.raises(Misfit, match="'many' is no number"):
        rows.number("many")


DECK = ["# A", "words", "## B", "left", ":::{beside} 25", ":::", "right", "## C", "words"]


@pytest.mark.parametrize(("line", "share"), [(2, 1), (4, 0.75), (7, 0.25), (9, 1)])
def test_two_columns_share_the_width_of_their_slide(line, share):
    width, _ = columns.room(DECK, line)
    between = columns.BETWEEN if share < 1 else 0
    assert width == pytest.approx(share * (columns.WIDTH - between))
