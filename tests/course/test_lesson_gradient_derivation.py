"""The table "How sure is this?" of lesson 04: the rows that are left on the way, varied."""

import pytest
import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks import gradient_derivation as check
from normcourse.training.published import added, tangent
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
    "drawn gains": (8, {}),
}


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson's opening defines, and the walk."""
    cells = ("setup", "failure-gradients", "failure-descent")
    return run_cells("04_gradient_derivation.ipynb", *cells)


def walk(dy: Tensor, x: Tensor, w: Tensor) -> Tensor:
    return gradients.rms_norm_backward(w * dy, x, x.shape[-1:], eps=1e-5)[0]


def gains(kind: str, low: float = 0.5, high: float = 2.5) -> Tensor:
    """The page's, or eight of its own for each of the 20 draws."""
    if kind == "drawn gains":
        generator = torch.Generator().manual_seed(0)
        return low + (high - low) * torch.rand(20, 1, 8, generator=generator)
    return torch.linspace(low, high, KINDS[kind][0])


def late(losses: Tensor) -> Tensor:
    """How many rows of 20 have not arrived, one number a draw."""
    return (losses[-1] >= 0.01).sum(-1)


@pytest.mark.parametrize("kind", each(KINDS))
def test_the_published_line_leaves_rows_on_the_way_in_each_draw(lesson, kind):
    _, how = KINDS[kind]
    w = gains(kind)
    of_walk = late(lesson["descend"](walk, w, **how)[0])
    of_line = late(lesson["descend"](lesson["published"], w, **how)[0])
    if kind == "four times the steps":
        assert of_walk.sum() == 0
    more = (of_line > of_walk).sum()
    most = {"rate 0.005": 12, "drawn gains": 19}  # at that rate few rows arrive, either way
    assert more >= most.get(kind, 20)
    assert of_line.sum() >= of_walk.sum() + 0.08 * ROWS


@pytest.mark.parametrize("kind", each(KINDS))
def test_it_is_the_length_that_holds_the_rows_up(lesson, kind):
    width, how = KINDS[kind]
    w = gains(kind)
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


@pytest.mark.parametrize("kind", each(KINDS))
def test_with_gains_below_1_the_published_line_is_the_faster_one(lesson, kind):
    w = gains(kind, 0.2, 0.8)
    _, how = KINDS[kind]
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w, **how)
    of_line, lines = descend(published, w, **how)
    swapped, _ = descend(walk, w, lengths=lines, **how)
    step = 400 if kind == "rate 0.005" else 100  # at that rate it takes longer
    assert of_line[step].median() < 0.8 * losses[step].median()
    assert swapped[step].median() < 0.8 * losses[step].median()
    assert (lines[-1] / lines[0]).median() < 0.9
    assert (walks[-1] / walks[0]).median() >= 1


def test_with_gains_around_1_it_leaves_hardly_a_row_more(lesson):
    for w in (gains(OWN, 0.5, 1.5), gains("drawn gains", 0.5, 1.5)):
        of_walk = late(lesson["descend"](walk, w)[0]).sum()
        of_line = late(lesson["descend"](lesson["published"], w)[0]).sum()
        assert of_walk <= of_line <= of_walk + 0.03 * ROWS


def test_with_a_constant_gain_of_1_5_it_is_slower_and_arrives(lesson):
    w = torch.full((8,), 1.5)
    of_walk, _ = lesson["descend"](walk, w)
    of_line, lengths = lesson["descend"](lesson["published"], w)
    assert (lengths[-1] / lengths[0]).median() > 1.3
    assert late(of_line[:101]).sum() > late(of_walk[:101]).sum() + 0.2 * ROWS
    assert late(of_line).sum() < 0.02 * ROWS


def test_with_a_constant_gain_of_3_the_length_alone_leaves_rows_on_the_way(lesson):
    w = torch.full((8,), 3.0)
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w)
    of_line, lines = descend(published, w)
    assert late(losses).sum() == 0
    assert 0.35 * ROWS < late(of_line).sum() < 0.47 * ROWS
    assert late(descend(walk, w, lengths=lines)[0]).sum() > 0.35 * ROWS
    assert late(descend(published, w, lengths=walks)[0]).sum() == 0


def test_with_gains_of_mean_1_half_of_it_is_direction(lesson):
    w = gains(OWN, 0.1, 1.9)
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w)
    of_line, lines = descend(published, w)
    assert (late(of_line) > late(losses)).all()
    more = late(of_line).sum() - late(losses).sum()
    assert 80 <= more <= 100
    of_length = late(descend(walk, w, lengths=lines)[0]).sum() - late(losses).sum()
    of_direction = late(descend(published, w, lengths=walks)[0]).sum() - late(losses).sum()
    for half in (of_length, of_direction):
        assert 0.45 * more < half < 0.7 * more


def test_with_gains_from_1_to_5_either_mistake_is_enough(lesson):
    w = torch.linspace(1, 5, 8)
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w)
    of_line, lines = descend(published, w)
    assert late(losses).sum() < 5
    assert (late(of_line) > late(losses)).all()
    assert late(descend(walk, w, lengths=lines)[0]).sum() > 0.9 * ROWS
    assert late(descend(published, w, lengths=walks)[0]).sum() > 0.6 * ROWS


@pytest.fixture(scope="module")
def network() -> dict:
    """What the lesson defines of its network."""
    cells = ("setup", "failure-gradients", "net-passes", "net-train")
    names = run_cells("04_gradient_derivation.ipynb", *cells)
    names["block"] = check.through_a_block
    return names


def trained(network, norm_gradient, steps) -> tuple[Tensor, Tensor]:
    """Gains from 1 to 5, the rate 0.1: right test digits, and the rows' length at the last norm."""
    parameters = network["train"](norm_gradient, 1, 5, 0.1, steps)
    _, rows = network["forward"](parameters, network["data"].test_x)
    return network["named"](parameters), rows[-1].norm(dim=-1).median(dim=-1).values


def test_in_the_network_the_published_line_makes_the_rows_longer(network, lesson):
    digits, length = trained(network, walk, 20)
    of_line, lines = trained(network, lesson["published"], 20)
    assert (lines > 1.2 * length).all()
    assert of_line.sum() < digits.sum()


@pytest.mark.slow
def test_in_the_network_the_part_across_the_row_does_more_than_the_part_along_it(network):
    ends = [trained(network, line, 100)[0] for line in (walk, added, tangent)]
    right, with_part, without_part = ends
    assert (with_part > without_part).all()
    lost = (right - with_part).double().mean()
    assert 0 < lost < 0.5 * (right - without_part).double().mean()


@pytest.mark.slow
def test_with_a_constant_gain_of_3_the_part_along_the_row_does_it(network, lesson):
    ends = []
    for line in (walk, lesson["published"], added, tangent):
        parameters = network["train"](line, 3, 3, rate=0.1)
        ends.append(network["named"](parameters))
    right, published, with_part, without_part = ends
    assert (published < right - 80).all()
    assert (with_part < without_part - 30).all()
    assert (without_part > right - 20).all()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_the_published_line_does_its_damage_at_the_head(network, lesson, rate):
    train, published = network["train"], lesson["published"]
    at_head = train(walk, 1, 5, rate, at_head=published)
    in_blocks = train(published, 1, 5, rate, at_head=walk)
    assert network["named"](at_head).max() < 60
    assert network["named"](in_blocks).min() > 330


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
