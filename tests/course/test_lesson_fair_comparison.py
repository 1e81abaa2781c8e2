"""Lesson 06b's table "How sure is this?": what no cell of the lesson and no record shows."""

from types import SimpleNamespace

import pytest
import torch

from normcourse import draw, training
from normcourse.checks.fair_comparison import fair_error
from normlib import functional, layers
from tests.course.lesson_tables import NOTEBOOKS, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

LESSON = "06b_fair_comparison.ipynb"
CELLS = (
    "setup",
    "failure-tools",
    ("predict-01-answer", "of_dyt ="),
    ("fair-fitted", "rho ="),
    "fair-function",
    "material",
    ("material-nets", "nets ="),
    ("predict-04-answer", "winners ="),
    ("predict-05-answer", "moved ="),
    "bound-curve",
    ("sure-run", "for sample"),
)
CURVES = (torch.tanh, functional.isru)
WIDTHS = (8, 16, 32)
DRAWS = range(20)


@pytest.fixture(scope="module")
def lesson() -> SimpleNamespace:
    """The lesson's own functions; nothing is fitted or trained."""
    found = run_cells(LESSON, *CELLS)
    found["fair_error"] = fair_error
    return SimpleNamespace(**found)


def cubed(rows, width, seed):
    return draw(rows, width, seed=seed) ** 3


def shifted(rows, width, seed):
    return draw(rows, width, seed=seed) + 2


ROWS = ("large_channel", "normal", "row_sizes", "random_place", cubed, shifted)


@pytest.mark.parametrize("rows", each(ROWS, quick="large_channel"))
def test_the_fitted_side_wins_against_the_prescribed_one(lesson, rows):
    sample = rows if callable(rows) else getattr(lesson, rows)
    for width in WIDTHS:
        for seed in DRAWS:
            x = sample(300, width, seed)
            rho = x.square().mean().sqrt()
            fitted, prescribed = [], []
            for curve in CURVES:
                knee, scale, _ = lesson.fitted(curve, x, lesson.rms(x), lesson.one_scale)
                fitted.append(lesson.error_with(curve, knee, scale, x))
                prescribed.append(lesson.error_with(curve, width**0.5 * rho, width**0.5, x))
            assert fitted[0] < prescribed[1] and fitted[1] < prescribed[0]


@pytest.mark.slow  # the lesson shows the leads
@pytest.mark.parametrize("rows, sign", [("row_sizes", 1), ("random_place", -1)])
def test_compared_fairly_each_curve_leads_somewhere_and_a_line_is_worse(lesson, rows, sign):
    sample = getattr(lesson, rows)
    for width in WIDTHS:
        for seed in DRAWS:
            pair = sample(300, width, seed), sample(300, width, seed + 90)
            errors = [lesson.score(curve, *pair) for curve in CURVES]
            assert sign * lesson.lead_of_dyisru(*errors) > 0
            assert lesson.error_of_line(*pair) > 1.4 * max(errors)


@pytest.mark.slow  # the lesson shows one draw
@pytest.mark.parametrize("rows", ["normal", "row_sizes"])
def test_where_the_estimated_best_function_beats_dyisru(lesson, rows):
    sample = getattr(lesson, rows)
    for width in WIDTHS:
        for count in (200, 2000):
            wins = 0
            for seed in DRAWS:
                new = sample(3000, width, seed + 90)
                old = sample(count, width, seed)
                of_map = lesson.error_of_map(old, new)
                wins += of_map < lesson.error_of_dyisru(old, new)
            if rows == "normal":
                assert wins == 0
            elif (width, count) == (8, 200):
                assert wins <= 2
            else:
                assert wins >= 19


NETS = {
    "as in the lesson": ({}, {}),
    "half the width": ({"width": 16}, {}),
    "twice the width": ({"width": 64}, {}),
    "four times the steps": ({}, {"steps": 240}),
    "a tenth of the rate": ({}, {"lr": 1e-3}),
    "three times the rate": ({}, {"lr": 3e-2}),
}


@pytest.mark.slow  # the lesson shows its own nets
@pytest.mark.parametrize("kind", NETS)
def test_trained_nets_do_not_tell_the_curves_apart_and_mind_the_slope(lesson, kind, monkeypatch):
    model, how = NETS[kind]
    nets = []
    for seed in range(5):
        net = training.transformer(layers.RMSNorm, **{"depth": 2, "width": 32} | model, seed=seed)
        adam = {"optimizer": "adam", "steps": 60, "lr": 1e-2}
        training.train(net, lesson.data, **adam | how, seed=seed)
        nets.append(lesson.read_by_norms(net))
    for net in nets:
        pairs = [(x[:1600], x[1600:]) for x in net]
        of_dyt, of_dyisru = (sum(lesson.score(curve, *pair) for pair in pairs) for curve in CURVES)
        assert abs(lesson.lead_of_dyisru(of_dyt, of_dyisru)) < 0.1
        assert sum(lesson.error_of_line(*pair) for pair in pairs) < 1.2 * of_dyisru
    for curve in CURVES:
        names = SimpleNamespace(isru=curve, rms_norm=functional.rms_norm)
        monkeypatch.setitem(lesson.errors_moved.__globals__, "functional", names)
        for place in (0, 4):
            errors = torch.tensor([lesson.errors_moved(net[place]) for net in nets]).T
            best, of_knee, of_slope = errors[0], errors[2::2], errors[3::2]
            assert (of_slope > 1.3 * of_knee).all()
            assert (of_knee[0] < 1.25 * best).all()  # five times too far out


@pytest.mark.slow  # the lesson trains the one with tanh before the head
def test_the_lessons_net_with_tanh_in_the_blocks_is_the_records(lesson):
    record = training.load_record(NOTEBOOKS / "records/bounds.json")
    stored = next(run for run in record.runs if (run.norm, run.lr) == ("tanh_last_line", 1.0))
    net = lesson.deep_net(torch.nn.Tanh(), torch.nn.Identity(), stored.seed)
    assert training.train(net, lesson.data, steps=100, lr=1.0, seed=stored.seed).diverged
    assert stored.diverged
