"""The interactive figures: their formulas against normlib, and the way a reader moves them."""

import json
import math

import pytest
import torch

from editions.interactive import faults, places
from normcourse import measures
from normlib import functional, gradients
from tests.editions.conftest import ROOT
from tests.editions.site import READY
from tools import figures_apart

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
PAGES = {
    "drag": "02_layer_norm",
    "curves": "06_dyisru",
    "depth": "00_why_normalize",
    "plane": "04_gradient_derivation",
    "roof": "07_cuda_timing",
    "trial": "08_capstone",
}


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
    assert PAGES.keys() == {p["figure"] for shown in places().values() for p in shown}


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


# What a norm hands down, chains of layers, times and trials


def run(tab, script):
    return torch.tensor(tab.run(script), dtype=torch.float64)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_gradients_equal_normlib(opened, row):
    tab = opened("plane")
    x = torch.tensor(row)
    dy = torch.linspace(-1, 2, len(row))
    arguments = f"{json.dumps(dy.tolist())}, {json.dumps(row)}"
    got = run(tab, f"Norms.rmsNormGrad({arguments})")
    want = gradients.rms_norm_backward(dy, x, x.shape, eps=1e-5)[0]
    # what is left of two nearly equal numbers has the error of the larger ones
    atol = 1e-12 * (dy.abs().max() / (x.square().mean() + 1e-5).sqrt()).item()
    torch.testing.assert_close(got, want, rtol=1e-11, atol=atol)
    if len(row) == 1:  # a batch of one has no statistics
        return
    got = run(tab, f"Norms.batchNormGrad({arguments})")
    want = gradients.batch_norm_backward(dy[:, None], x[:, None], eps=1e-5)[0][:, 0]
    atol = 1e-12 * (dy.abs().max() / (x.var(correction=0) + 1e-5).sqrt()).item()
    torch.testing.assert_close(got, want, rtol=1e-9, atol=atol)


def test_the_chain_of_layers_equals_torch(opened):
    width, depth, count = 8, 5, 4
    tab = opened("depth")
    numbers = count * width + depth * width**2
    drawn = run(
        tab, f"(() => {{ const n = normals(3); return Array.from({{length: {numbers}}}, n); }})()"
    )
    rows = drawn[: count * width].reshape(count, width)
    weights = drawn[count * width :].reshape(depth, width, width)
    sizes = []
    cosines = []
    above = torch.ones(count, count, dtype=torch.bool).triu(1)
    for layer in range(depth + 1):
        if layer > 0:
            rows = (rows @ weights[layer - 1].T * (2 / width) ** 0.5).relu()
        sizes.append(rows.square().mean().sqrt())
        unit = torch.nn.functional.normalize(rows, dim=1)
        cosines.append((unit @ unit.T)[above].mean())
    found = tab.run(f"Chain.signal({width}, {depth}, {count}, 3)")
    torch.testing.assert_close(torch.tensor(found["sizes"]), torch.stack(sizes), **CLOSE)
    torch.testing.assert_close(torch.tensor(found["likeness"]), torch.stack(cosines), **CLOSE)


def test_rows_that_have_died_are_alike(opened):
    tab = opened("depth")
    assert tab.run("Chain.likeness([[0, 0], [0, 0], [1, 0]])") == 1
    assert tab.run("Chain.likeness([[0, 1], [1, 0]])") == 0


def test_the_random_numbers_are_normal(opened):
    drawn = run(
        opened("depth"),
        "(() => { const n = normals(1); return Array.from({length: 20000}, n); })()",
    )
    # the errors of mean, variance and fourth moment of 20,000 numbers, five times over
    assert abs(drawn.mean()) < 5 * 20_000**-0.5
    assert abs(drawn.var() - 1) < 5 * (2 / 20_000) ** 0.5
    assert abs(drawn.pow(4).mean() - 3) < 5 * (96 / 20_000) ** 0.5
    assert abs((drawn[1:] * drawn[:-1]).mean()) < 5 * 20_000**-0.5


def test_intervals_equal_those_of_the_lesson(opened):
    tab = opened("trial")
    for n in (2, 5, 20):
        first = torch.linspace(-1, 2, n).square()
        quantile = measures.student_quantile(n)
        got = tab.run(f"Norms.paired({json.dumps(first.tolist())}, {quantile!r})")
        want = measures.paired(first, torch.zeros(n))
        assert got["mean"] == pytest.approx(want.mean)
        assert got["reach"] == pytest.approx((want.high - want.low) / 2)


def test_a_thousand_trials_find_the_truth_in_19_of_20_intervals_at_each_number_of_seeds(opened):
    tab = opened("trial")
    figure = "document.querySelector('[data-figure=trial]')"
    press = f"[...{figure}.querySelectorAll('button')].at(-1).click()"
    slider = f"{figure}.querySelector('input')"
    for n in (2, 5, 20):
        tab.run(f"{slider}.value = {n}; {slider}.dispatchEvent(new Event('input'))")
        tab.run(press)
        held = int(lines(tab, "trial")[-1].rpartition(" ")[2])
        assert abs(held - 950) < 5 * (1000 * 0.95 * 0.05) ** 0.5  # its quantile is that of n seeds


def test_a_call_takes_its_start_and_the_slower_of_bytes_and_operations(opened):
    machine = "bandwidth: 2e12, peak: 5e13, start: 4e-6"
    for moved, operations, seconds in [(1e6, 1e6, 4.5e-6), (1e6, 1e9, 2.4e-5), (0, 0, 4e-6)]:
        call = f"Norms.seconds({{bytes: {moved}, operations: {operations}, {machine}}})"
        assert opened("roof").run(call) == pytest.approx(seconds)


@pytest.mark.parametrize("figure", ["depth", "plane", "roof", "trial"])
def test_each_slider_says_its_value_and_moves_the_picture(opened, figure):
    tab = opened(figure)
    host = f"document.querySelector('[data-figure={figure}]')"
    drawn = f"{host}.querySelector('svg').innerHTML + {host}.querySelector('.status').innerHTML"
    for place in range(tab.run(f"{host}.querySelectorAll('input').length")):
        slider = f"{host}.querySelectorAll('input')[{place}]"
        before = tab.run(drawn)
        said = tab.run(f"{slider}.getAttribute('aria-valuetext')")
        tab.run(f"{slider}.focus()")
        tab.key("ArrowLeft")
        assert tab.run(f"{slider}.getAttribute('aria-valuetext')") != said
        assert tab.run(drawn) != before


def test_the_figures_apart_are_drawn_without_a_network(chromium, tmp_path):
    """The pages that `make release` writes: each figure is there, with something to move."""
    tab = chromium.tab()
    for page in figures_apart.write(tmp_path / "figures"):
        tab.open(page.as_uri())
        drawn = (
            "[...document.querySelectorAll('.interactive')].map((box) => ["
            "box.querySelectorAll('svg *').length, box.querySelectorAll('input, .handle').length])"
        )
        for marks, handles in tab.run(drawn):
            assert marks > 5, page
            assert handles > 0, page
        assert tab.outgoing() == []
        assert tab.errors == []
    tab.close()


def test_in_a_pair_no_gradient_passes_batch_norm(opened, chromium, site):
    tab = chromium.tab().size(1280, 900)
    tab.open((site / "01_batch_norm.html").as_uri(), READY)
    choice = f"{DRAG}.querySelector('select')"
    tab.run(f"{choice}.value = 2; {choice}.dispatchEvent(new Event('change'))")
    assert tab.run(f"{HANDLES}.length") == 2
    assert lines(tab, "drag")[-1].endswith("root mean square 0.00")
    tab.run(f"{choice}.value = 4; {choice}.dispatchEvent(new Event('change'))")
    assert not lines(tab, "drag")[-1].endswith("root mean square 0.00")
    tab.close()


def test_the_gradient_of_a_row_in_the_plane_is_dragged(opened):
    tab = opened("plane")
    host = "document.querySelector('[data-figure=plane]')"
    before = lines(tab, "plane")
    handle = f"{host}.querySelectorAll('.handle')[0]"
    tab.run(f"{handle}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = tab.run(f"{handle}.getBoundingClientRect().toJSON()")
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2
    tab.mouse("move", x, y)
    tab.mouse("press", x, y)
    tab.mouse("move", x - 20, y - 20)
    tab.mouse("release", x - 20, y - 20)
    assert lines(tab, "plane") != before
