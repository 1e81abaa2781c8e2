"""The table "How sure is this?" of lesson 04: the rows that are left on the way, varied."""

import pytest
import torch
from torch import Tensor

from normcourse import draw
from normlib import gradients
from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

ROWS = 400
KINDS = {  # how many numbers has a row, and how descend is called
    OWN: (8, {}),
    "four times the steps": (8, {"steps": 1600}),
    "rate 0.005": (8, {"rate": 0.005}),
    "rate 0.5": (8, {"rate": 0.5}),
    "D = 4": (4, {}),
    "D = 64": (64, {}),
}


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson's opening defines, and the walk."""
    cells = ("setup", "failure-gradients", "failure-descent")
    return run_cells("04_gradient_derivation.ipynb", *cells)


def walk(dy: Tensor, x: Tensor, w: Tensor) -> Tensor:
    return gradients.rms_norm_backward(w * dy, x, x.shape[-1:], eps=1e-5)[0]


def late(losses: Tensor) -> Tensor:
    """How many rows of 20 have not arrived, one number a draw."""
    return (losses[-1] >= 0.01).sum(-1)


@pytest.mark.parametrize("kind", each(KINDS))
def test_the_published_line_leaves_rows_on_the_way_in_each_draw(lesson, kind):
    width, how = KINDS[kind]
    w = torch.linspace(0.5, 2.5, width)
    of_walk = late(lesson["descend"](walk, w, **how)[0])
    of_line = late(lesson["descend"](lesson["published"], w, **how)[0])
    more = (of_line > of_walk).sum()
    assert more >= (12 if kind == "rate 0.005" else 20)  # there few rows arrive, either way
    assert of_line.sum() >= of_walk.sum() + 0.08 * ROWS


@pytest.mark.parametrize("kind", each(KINDS))
def test_it_is_the_length_that_holds_the_rows_up(lesson, kind):
    width, how = KINDS[kind]
    w = torch.linspace(0.5, 2.5, width)
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w, **how)
    of_walk = late(losses).sum()
    losses, lines = descend(published, w, **how)
    of_line = late(losses).sum()
    of_length = late(descend(walk, w, lengths=lines, **how)[0]).sum() - of_walk
    of_direction = late(descend(published, w, lengths=walks, **how)[0]).sum() - of_walk
    share = 0.5 if width == 4 else 0.7
    assert of_length > share * (of_line - of_walk)
    assert of_direction < (0.5 if width == 4 else 0.35) * (of_line - of_walk)


@pytest.mark.parametrize("width", [4, 8, 64])
@pytest.mark.parametrize("steps", [400, pytest.param(1600, marks=pytest.mark.slow)])
def test_with_gains_below_1_the_published_line_is_the_faster_one(lesson, width, steps):
    w = torch.linspace(0.2, 0.8, width)
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w, steps=steps)
    of_line, lines = descend(published, w, steps=steps)
    swapped, _ = descend(walk, w, steps=steps, lengths=lines)
    assert of_line[steps // 4].median() < 0.8 * losses[steps // 4].median()
    assert swapped[steps // 4].median() < 0.8 * losses[steps // 4].median()
    assert (lines[-1] / lines[0]).median() < 0.9
    assert (walks[-1] / walks[0]).median() >= 1


def test_with_gains_from_1_to_5_either_mistake_is_enough(lesson):
    w = torch.linspace(1, 5, 8)
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w)
    _, lines = descend(published, w)
    assert late(losses).sum() < 5
    assert late(descend(walk, w, lengths=lines)[0]).sum() > 0.9 * ROWS
    assert late(descend(published, w, lengths=walks)[0]).sum() > 0.6 * ROWS


@pytest.mark.parametrize("width", [8, 64])
def test_targets_that_no_output_reaches(lesson, width):
    w = torch.linspace(0.5, 2.5, width)
    normalized = lesson["normalized"]
    start, targets = draw(2, 20, 20, width, seed=1)
    ends = []
    for gradient in (walk, lesson["published"]):
        x = start
        for _ in range(400):
            dy = w * normalized(x)[0] - targets
            x = x - 0.05 * gradient(dy, x, w)
        ends.append((w * normalized(x)[0] - targets).square().sum(-1) / 2)
    right, line = ends
    assert ((line > 2 * right + 0.01).sum(-1) >= 8).all()


@pytest.mark.parametrize(("width", "percent"), [(8, 33), (64, 10), (512, 3.3), (4096, 1.3)])
def test_for_a_random_dy_the_mistake_shrinks_with_the_width(lesson, width, percent):
    w = torch.linspace(0.5, 2.5, width)
    for seed in range(10, 13):
        x, dy = draw(2, 409600 // width, width, seed=seed)
        y = w * lesson["normalized"](x)[0]
        for arriving, low, high in ((dy, 0.8, 1.2), (y, 100 / percent, 200 / percent)):
            truth = walk(arriving, x, w)
            off = 100 * (lesson["published"](arriving, x, w) - truth).norm() / truth.norm()
            assert low * percent < off < high * percent
