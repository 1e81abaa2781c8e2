"""The table "How sure is this?" of lesson 04: the rows left on the way, and the network, varied."""

from functools import partial

import pytest
import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks import gradient_derivation as check
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


def test_with_gains_around_1_or_all_equal_it_leaves_hardly_a_row_more(lesson):
    for w in (gains(OWN, 0.5, 1.5), gains("drawn gains", 0.5, 1.5), gains(OWN, 1.5, 1.5)):
        of_walk = late(lesson["descend"](walk, w)[0]).sum()
        of_line = late(lesson["descend"](lesson["published"], w)[0]).sum()
        assert of_walk <= of_line <= of_walk + 0.03 * ROWS


def test_with_all_gains_equal_it_costs_rows_at_a_small_rate(lesson):
    w = gains(OWN, 1.5, 1.5)
    of_walk = ROWS - late(lesson["descend"](walk, w, rate=0.005)[0]).sum()
    of_line = ROWS - late(lesson["descend"](lesson["published"], w, rate=0.005)[0]).sum()
    assert of_line < 0.5 * of_walk


@pytest.mark.parametrize(
    ("w", "low", "high"),
    [
        (torch.linspace(0.1, 1.9, 8), 80, 100),
        (torch.linspace(0.1, 2.9, 8), 220, 250),
        (torch.tensor([0.5, 2.5]), 180, 230),
    ],
    ids=["mean 1", "0.1 to 2.9", "D = 2"],
)
def test_with_these_gains_much_of_it_is_direction(lesson, w, low, high):
    w = w.double()
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w)
    of_line, lines = descend(published, w)
    assert (late(of_line) > late(losses)).all()
    more = late(of_line).sum() - late(losses).sum()
    assert low <= more <= high
    of_length = late(descend(walk, w, lengths=lines)[0]).sum() - late(losses).sum()
    of_direction = late(descend(published, w, lengths=walks)[0]).sum() - late(losses).sum()
    for part in (of_length, of_direction):
        assert 0.45 * more < part <= more


def test_with_gains_from_1_to_5_either_mistake_is_enough(lesson):
    w = torch.linspace(1, 5, 8)
    descend, published = lesson["descend"], lesson["published"]
    losses, walks = descend(walk, w)
    of_line, lines = descend(published, w)
    assert late(losses).sum() < 5
    assert (late(of_line) > late(losses)).all()
    assert late(descend(walk, w, lengths=lines)[0]).sum() > 0.9 * ROWS
    assert late(descend(published, w, lengths=walks)[0]).sum() > 0.6 * ROWS


SGD = torch.optim.SGD
ADAM = torch.optim.Adam
NETS = {  # how the network is trained
    OWN: {},
    "rate 0.03": {"optimizer": partial(SGD, lr=0.03)},
    "rate 0.1": {"optimizer": partial(SGD, lr=0.1)},
    "momentum": {"optimizer": partial(SGD, lr=0.03, momentum=0.9)},
    "other starts": {"seed": 1},
    "again others": {"seed": 2},
    "and others": {"seed": 3},
    "width 32": {"width": 32},
    "width 128": {"width": 128},
    "3 blocks": {"blocks": 3},
    "a small head": {"head": 0.1},
    "400 steps": {"steps": 400},
}


@pytest.fixture(scope="module")
def network() -> dict:
    """What the lesson defines of its network."""
    cells = ("setup", "failure-gradients", "net-passes", "net-train")
    along = ("predict-04-answer", "PLACES")  # the gradients for the head alone
    names = run_cells("04_gradient_derivation.ipynb", *cells, along)
    names["block"] = check.through_a_block
    names["walk"] = walk
    return names


def trained(
    network,
    in_blocks,
    at_head,
    gain,
    optimizer=None,
    steps=100,
    width=64,
    seed=0,
    blocks=20,
    head=1,
    order=None,
):
    """Right digits of 400, one number a start; the lesson's training where nothing is said."""
    parameters = []
    fan_in = 64
    for n, fan_out in enumerate([width] * 21 + [10]):
        parameters.append(draw(5, fan_in, fan_out, seed=n + 1000 * seed) / (fan_in / 2) ** 0.5)
        fan_in = fan_out
    for matrix in parameters[1 + blocks : 21]:
        matrix.zero_()  # such a block hands its row on and learns nothing: its ReLU is shut
    parameters[21] *= head
    gains = torch.linspace(*gain, width)
    shuffle = torch.Generator().manual_seed(order or 0)
    for _ in range(21):
        places = range(width) if order is None else torch.randperm(width, generator=shuffle)
        parameters.append(gains[places].expand(5, 1, width).clone())
    descent = (optimizer or partial(SGD, lr=0.3))(parameters)
    generator = torch.Generator().manual_seed(0)
    for batch in torch.randint(1000, (steps, 32), generator=generator):
        found = network["by_hand"](parameters, batch, in_blocks, at_head)
        for parameter, gradient in zip(parameters, found, strict=True):
            parameter.grad = gradient
        descent.step()
    return network["named"](parameters).double()


def test_the_network_of_the_table_is_the_lessons(network):
    own = trained(network, walk, walk, (1, 5), steps=5)
    parameters = network["train"](walk, 1, 5, steps=5)
    assert (own == network["named"](parameters)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETS)
def test_gains_that_start_at_1_hide_the_published_line(network, lesson, kind):
    right = trained(network, walk, walk, (1, 1), **NETS[kind])
    line = trained(network, lesson["published"], lesson["published"], (1, 1), **NETS[kind])
    assert (right - line).mean().abs() <= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETS)
def test_gains_from_1_to_5_show_it_in_front_of_the_head(network, lesson, kind):
    published = lesson["published"]
    right = trained(network, walk, walk, (1, 5), **NETS[kind])
    everywhere = trained(network, published, published, (1, 5), **NETS[kind])
    in_blocks = trained(network, published, walk, (1, 5), **NETS[kind])
    at_head = trained(network, walk, published, (1, 5), **NETS[kind])
    assert everywhere.mean() < right.mean()
    assert (in_blocks > at_head).all()
    assert at_head.max() < 250
    if kind != "400 steps":
        assert at_head.max() < 100
        assert at_head.mean() < everywhere.mean()


@pytest.mark.slow
def test_in_front_of_the_head_either_part_of_the_mistake_can_cost_the_digits(network, lesson):
    def without(dy, x, w):
        return lesson["published"](dy, x, w) + walk(dy, x, w) - network["lengthening"](dy, x, w)

    along, rest = (
        torch.cat([trained(network, walk, part, (1, 5), seed=seed) for seed in range(4)])
        for part in (network["lengthening"], without)
    )
    assert along.min() < 60
    assert 140 < along.max() < 210
    assert rest.min() < 60
    assert 300 < rest.max() < 360


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_walk_at_the_lines_lengths_keeps_most_digits(network, seed):
    at_head = trained(network, walk, network["noting"], (1, 5), seed=seed)
    swapped = trained(network, walk, network["at_those_sizes"], (1, 5), seed=seed)
    assert not network["sizes"]  # one for each step
    assert at_head.max() < 100
    assert swapped.min() > 250


@pytest.mark.slow
def test_in_another_order_of_the_gains_some_starts_lose_digits_in_the_blocks(network, lesson):
    published = lesson["published"]
    right = trained(network, walk, walk, (1, 5), order=6)
    in_blocks = trained(network, published, walk, (1, 5), order=6)
    at_head = trained(network, walk, published, (1, 5), order=6)
    along = trained(network, walk, network["lengthening"], (1, 5), order=6)
    assert (in_blocks < 0.85 * right).sum() == 2
    assert (in_blocks > at_head).all()
    assert at_head.max() < 100
    assert 200 < along.max() < 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gain", "how", "lost"),
    [
        ((1, 5), {"optimizer": partial(SGD, lr=0.01), "steps": 400}, 10),
        ((1, 5), {"steps": 1200}, 30),
        ((0.5, 2.5), {"steps": 400}, 10),
    ],
    ids=["rate 0.01", "1200 steps", "smaller gains, 400 steps"],
)
def test_a_small_rate_or_many_steps_lose_few_digits_in_front_of_the_head(
    network, lesson, gain, how, lost
):
    right = trained(network, walk, walk, gain, **how)
    at_head = trained(network, walk, lesson["published"], gain, **how)
    assert (right - at_head).mean() < lost


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.001, 0.003, 0.01])
def test_adam_nearly_hides_it(network, lesson, rate):
    published = lesson["published"]
    optimizer = partial(ADAM, lr=rate)
    right = trained(network, walk, walk, (1, 5), optimizer)
    everywhere = trained(network, published, published, (1, 5), optimizer)
    at_head = trained(network, walk, published, (1, 5), optimizer)
    assert (right - everywhere).mean() < 40
    assert (right - at_head).mean() < 60


@pytest.mark.slow
def test_smaller_gains_cost_less_and_equal_or_larger_ones_cost_in_the_blocks(network, lesson):
    published = lesson["published"]
    right = trained(network, walk, walk, (0.5, 2.5))
    at_head = trained(network, walk, published, (0.5, 2.5))
    assert 75 < (right - at_head).mean() < 105
    for gain, starts in (((3, 3), 1), ((1, 10), 3)):
        in_blocks = trained(network, published, walk, gain)
        assert (in_blocks < 250).sum() == starts


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OWN, "rate 0.1"])
def test_gains_below_1_are_no_advantage_in_the_network(network, lesson, kind):
    right = trained(network, walk, walk, (0.2, 0.8), **NETS[kind])
    line = trained(network, lesson["published"], lesson["published"], (0.2, 0.8), **NETS[kind])
    assert (line - right).mean().abs() <= 10


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
