"""The interactive figures: their formulas against normlib, and the way a reader moves them."""

import json
import math

import pytest
import torch

from editions.interactive import faults, places
from normlib import functional
from tests.editions.conftest import ROOT
from tests.editions.site import READY

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

# Both sides are float64 with a handful of operations; a mean near 1000 costs three digits.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
ROWS = {
    "ordinary": [0.5, -1.25, 2.0, 0.25, -0.5, 1.0, -2.0, 0.75],
    "far from zero": [1000.5, 998.75, 1002.0, 1000.25],
    "tiny": [1e-4, -2e-4, 3e-4, 5e-5, 0.0],
    "underflows when squared": [1e-200, -3e-200],
    "zero": [0.0, 0.0, 0.0, 0.0],
    "constant": [3.0, 3.0, 3.0],
    "two giants": [1e6, -3.0, 1e6, 0.5],
    "near overflow": [1e150, -1e150, 1.0],
    "one number": [-7.0],
}
KINDS = ["layerNorm", "rmsNorm", "dyt", "dyt with scale", "dyisru"]
C = 2.5
ALPHA = 0.7
PAGES = {"drag": "02_layer_norm", "curves": "06_dyisru"}


def in_normlib(kind, row):
    x = torch.tensor(row)
    scale = math.sqrt(len(row))
    alpha = torch.tensor(ALPHA)
    return {
        "layerNorm": lambda: functional.layer_norm(x, x.shape, eps=1e-5),
        "rmsNorm": lambda: functional.rms_norm(x, x.shape, eps=1e-5),
        "dyt": lambda: functional.dyt(x, alpha),
        "dyt with scale": lambda: functional.dyt(x, alpha, scale=scale),
        "dyisru": lambda: functional.dyisru(x, torch.tensor(C)),
    }[kind]()


def in_browser(kind, row):
    values = json.dumps(row)
    return {
        "layerNorm": f"Norms.layerNorm({values})",
        "rmsNorm": f"Norms.rmsNorm({values})",
        "dyt": f"Norms.dyt({values}, {ALPHA})",
        "dyt with scale": f"Norms.dyt({values}, {ALPHA}, {math.sqrt(len(row))!r})",
        "dyisru": f"Norms.dyisru({values}, {C})",
    }[kind]


@pytest.fixture(scope="module")
def opened(chromium, site):
    """A page with the given figure, opened once a figure."""
    tabs = {}

    def open_page(figure):
        if figure not in tabs:
            tabs[figure] = chromium.tab().size(1280, 900)
            page = (site / f"{PAGES[figure]}.html").as_uri()
            tabs[figure].open(page, READY)
            tabs[figure].run("document.documentElement.style.scrollBehavior = 'auto'")
        return tabs[figure]

    yield open_page
    for tab in tabs.values():
        tab.close()


def test_every_figure_stands_after_a_cell_that_exists():
    assert faults(ROOT / "notebooks") == []
    assert {"drag", "curves"} == {p["figure"] for shown in places().values() for p in shown}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_formulas_equal_normlib(opened, kind, row):
    got = torch.tensor(opened("curves").run(in_browser(kind, row)), dtype=torch.float64)
    torch.testing.assert_close(got, in_normlib(kind, row), **CLOSE)


def test_the_curve_of_an_entry_equals_normlib(opened):
    row = ROWS["ordinary"]
    at = [-6.0, -0.3, 0.0, 0.1, 4.0]
    script = f"Norms.rmsNormAlong({json.dumps(row)}, 2, {json.dumps(at)})"
    moved = torch.tensor(row).repeat(len(at), 1)
    moved[:, 2] = torch.tensor(at)
    want = functional.rms_norm(moved, (len(row),), eps=1e-5)[:, 2]
    torch.testing.assert_close(torch.tensor(opened("curves").run(script)), want, **CLOSE)


def test_with_the_exact_constant_dyisru_is_rms_norm(opened):
    row = ROWS["ordinary"]
    c = opened("curves").run(f"Norms.exactConstant({json.dumps(row)}, 2)")
    got = functional.dyisru(torch.tensor(row), torch.tensor(c))[2]
    want = functional.rms_norm(torch.tensor(row), (len(row),), eps=1e-5)[2]
    torch.testing.assert_close(got, want, **CLOSE)


DRAG = "document.querySelector('[data-figure=drag]')"
HANDLES = f"{DRAG}.querySelectorAll('[role=slider]')"
PANEL_HEIGHT = 170  # these three as in drag.js
EDGE = 14
LIMIT = 3


def lines(tab, figure):
    selector = f"[data-figure={figure}] .status li"
    return tab.run(f"[...document.querySelectorAll('{selector}')].map((e) => e.textContent)")


def value_of(tab, entry):
    return float(tab.run(f"{HANDLES}[{entry}].getAttribute('aria-valuenow')"))


def drag(tab, entry, dy):
    """A pressed pointer takes the handle of an entry dy pixels down."""
    handle = f"{HANDLES}[{entry}]"
    tab.run(f"{handle}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = tab.run(f"{handle}.getBoundingClientRect().toJSON()")
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2
    tab.mouse("move", x, y)
    tab.mouse("press", x, y)
    for step in (0.5, 1.0):
        tab.mouse("move", x, y + step * dy)
    tab.mouse("release", x, y + dy)


def test_a_dragged_dot_moves_the_outputs_that_normlib_moves(opened):
    tab = opened("drag")
    before = value_of(tab, 2)
    drag(tab, 2, -30)
    row = [value_of(tab, entry) for entry in range(8)]
    assert row[2] > before + 0.5
    assert row[:2] + row[3:] == ROWS["ordinary"][:2] + ROWS["ordinary"][3:]
    panel = f"{DRAG}.querySelectorAll('svg')[1].querySelectorAll('.dot')"
    drawn = tab.run(f"[...{panel}].map((dot) => Number(dot.getAttribute('cy')))")
    want = functional.layer_norm(torch.tensor(row), (8,), eps=1e-5)
    middle = PANEL_HEIGHT / 2
    places_wanted = middle - want / LIMIT * (middle - EDGE)
    torch.testing.assert_close(torch.tensor(drawn), places_wanted, rtol=0, atol=1e-9)
    assert lines(tab, "drag")[0].startswith("LayerNorm: 8 of 8 outputs have moved")
    tab.run(f"{DRAG}.querySelector('button').click()")
    assert value_of(tab, 2) == before


@pytest.mark.parametrize(
    ("key", "change"), [("ArrowUp", 0.25), ("ArrowDown", -0.25), ("PageUp", 1), ("PageDown", -1)]
)
def test_keys_move_a_dot(opened, key, change):
    tab = opened("drag")
    before = value_of(tab, 3)
    tab.run(f"{HANDLES}[3].focus()")
    tab.key(key)
    assert value_of(tab, 3) == pytest.approx(before + change)


def test_the_tab_key_reaches_every_dot(opened):
    tab = opened("drag")
    tab.run(f"{HANDLES}[0].focus()")
    reached = []
    for _ in range(8):
        reached.append(tab.run("document.activeElement.getAttribute('aria-label')"))
        tab.key("Tab")
    assert reached == [f"entry {k}" for k in range(1, 9)]


CURVES = "document.querySelector('[data-figure=curves]')"


def test_the_button_makes_dyisru_exact_for_its_entry_alone(opened):
    tab = opened("curves")
    buttons = f"[...{CURVES}.querySelectorAll('button')]"
    tab.run(f"{buttons}.at(-1).click()")
    assert lines(tab, "curves")[-1].startswith("DyISRU: at most 0.000 from")
    choice = f"{CURVES}.querySelector('select')"
    tab.run(f"{choice}.value = 2; {choice}.dispatchEvent(new Event('change'))")
    assert not lines(tab, "curves")[-1].startswith("DyISRU: at most 0.000 from")


def test_the_arrow_keys_move_a_slider_and_its_curve(opened):
    tab = opened("curves")
    slider = f"{CURVES}.querySelector('input[type=range]')"
    curve = f"{CURVES}.querySelectorAll('polyline')[9].getAttribute('points')"
    before = tab.run(f"{slider}.valueAsNumber")
    points = tab.run(curve)
    tab.run(f"{slider}.focus()")
    tab.key("ArrowRight")
    assert tab.run(f"{slider}.valueAsNumber") == pytest.approx(before + 0.01)
    assert tab.run(curve) != points
