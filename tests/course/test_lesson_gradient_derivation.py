"""The table "How sure is this?" of lesson 04: the rows left on the way, and the network, varied."""

from functools import partial

import pytest
import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks import gradient_derivation as check
from normlib import gradients
from tests.course.lesson_tables import OWN, cells_of, each, run_cells

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
def test_the_articles_formula_leaves_rows_on_the_way_in_each_draw(lesson, kind):
    _, how = KINDS[kind]
    w = gains(kind)
    of_walk = late(lesson["descend"](walk, w, **how)[0])
    of_line = late(lesson["descend"](lesson["article"], w, **how)[0])
    if kind == "four times the steps":
        assert of_walk.sum() == 0
    more = (of_line > of_walk).sum()
    most = {"rate 0.005": 12, "drawn gains": 19}  # at that rate few rows arrive, either way
    assert more >= most.get(kind, 20)
    assert of_line.sum() >= of_walk.sum() + 0.08 * ROWS


@pytest.fixture(scope="module")
def late_of_parts(lesson):
    """How many rows have not arrived, with the walk and with each part of the mistake."""
    names = lesson | {"walk": walk}
    exec(cells_of("04_gradient_derivation.ipynb")["parts"], names)
    moves = (walk, names["only_across"], names["only_along"], lesson["article"])

    def count(w: Tensor, **how) -> list[int]:
        return [late(lesson["descend"](move, w, **how)[0]).sum().item() for move in moves]

    return count


@pytest.mark.parametrize("kind", [*each(KINDS), "rate 0.1", "rate 0.2"])
def test_the_part_along_the_row_costs_more_rows_than_the_part_across(late_of_parts, kind):
    _, how = KINDS.get(kind, (8, {"rate": float(kind.split()[-1])} if "rate" in kind else {}))
    w = torch.linspace(0.5, 2.5, 8) if kind not in KINDS else gains(kind)
    of_walk, across, along, both = late_of_parts(w, **how)
    assert of_walk <= across < along < both
    assert along - of_walk > 1.5 * (across - of_walk)


@pytest.mark.parametrize("rate", [0.005, 0.05, 0.2])
def test_with_gains_from_1_to_5_the_two_parts_cost_about_the_same(late_of_parts, rate):
    of_walk, across, along, _ = late_of_parts(torch.linspace(1, 5, 8), rate=rate)
    assert 0.8 * (along - of_walk) < across - of_walk < 1.25 * (along - of_walk)


@pytest.mark.parametrize("rate", [0.005, 0.05, 0.5])
def test_in_rows_of_two_numbers_the_part_across_costs_more(late_of_parts, rate):
    of_walk, across, along, _ = late_of_parts(torch.tensor([0.5, 2.5]).double(), rate=rate)
    assert across - of_walk > 2 * (along - of_walk)


@pytest.mark.parametrize("kind", each(KINDS))
def test_with_all_gains_3_the_part_along_is_all(lesson, late_of_parts, kind):
    width, how = KINDS[kind]
    w = 3 * torch.ones(width)
    of_walk, across, along, both = late_of_parts(w, **how)
    assert abs(of_walk - across) <= 4
    assert abs(along - both) <= 4
    assert both > of_walk + 50
    _, lengths = lesson["descend"](lesson["article"], w, **how)
    assert (lengths[-1] / lengths[0]).median() > 4


@pytest.mark.parametrize("kind", each(KINDS))
def test_with_gains_below_1_the_articles_formula_is_the_faster_one(lesson, kind):
    w = gains(kind, 0.2, 0.8)
    _, how = KINDS[kind]
    losses, of_walk = lesson["descend"](walk, w, **how)
    of_formula, shrunk = lesson["descend"](lesson["article"], w, **how)
    step = 400 if kind == "rate 0.005" else 100  # at that rate it takes longer
    assert of_formula[step].median() < 0.8 * losses[step].median()
    assert (shrunk[-1] / shrunk[0]).median() < 0.9
    assert (of_walk[-1] / of_walk[0]).median() >= 1


def test_a_larger_rate_does_as_much_and_does_not_save_rows_that_grow(lesson):
    descend, article = lesson["descend"], lesson["article"]
    assert late(descend(walk, gains(OWN, 0.2, 0.8), rate=0.2)[0]).sum() < 10
    assert late(descend(article, gains(OWN), rate=0.2)[0]).sum() > 150
    assert late(descend(walk, gains(OWN), rate=0.2)[0]).sum() == 0


def test_with_gains_around_1_or_all_equal_it_leaves_hardly_a_row_more(lesson):
    for w in (gains(OWN, 0.5, 1.5), gains("drawn gains", 0.5, 1.5), gains(OWN, 1.5, 1.5)):
        of_walk = late(lesson["descend"](walk, w)[0]).sum()
        of_line = late(lesson["descend"](lesson["article"], w)[0]).sum()
        assert of_walk <= of_line <= of_walk + 0.03 * ROWS


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
    names = run_cells("04_gradient_derivation.ipynb", *cells)
    names["block"] = check.through_a_block
    return names


def trained(
    network,
    norm_gradient,
    gain,
    optimizer=None,
    steps=100,
    width=64,
    seed=0,
    blocks=20,
    head=1,
    at_head=None,
    order=False,
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
    shuffle = torch.Generator().manual_seed(seed)
    for _ in range(21):
        spread = torch.linspace(*gain, width)
        if order:  # another one in each norm
            spread = spread[torch.randperm(width, generator=shuffle)]
        parameters.append(spread.expand(5, 1, width).clone())
    descent = (optimizer or partial(SGD, lr=0.3))(parameters)
    generator = torch.Generator().manual_seed(0)
    for batch in torch.randint(1000, (steps, 32), generator=generator):
        found = network["by_hand"](parameters, batch, norm_gradient, at_head)
        for parameter, gradient in zip(parameters, found, strict=True):
            parameter.grad = gradient
        descent.step()
    return network["digits_read"](parameters).double()


def test_the_network_of_the_table_is_the_lessons(network):
    own = trained(network, walk, (1, 5), steps=5)
    parameters = network["train"](walk, 1, 5, steps=5)
    assert (own == network["digits_read"](parameters)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETS)
def test_gains_that_start_at_1_hide_the_articles_formula(network, lesson, kind):
    right = trained(network, walk, (1, 1), **NETS[kind])
    formula = trained(network, lesson["article"], (1, 1), **NETS[kind])
    assert (right - formula).mean().abs() <= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETS)
def test_gains_from_1_to_5_show_it(network, lesson, kind):
    right = trained(network, walk, (1, 5), **NETS[kind])
    formula = trained(network, lesson["article"], (1, 5), **NETS[kind])
    lost = (right - formula).mean()
    if kind == "400 steps":
        assert 0 < lost < 30
        return
    assert (formula < right).sum() >= 4  # of five starts
    assert lost > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*NETS, "gains in another order", "another order at rate 0.1"])
def test_more_than_half_of_the_cost_comes_from_the_heads_norm(network, lesson, kind):
    """Nearly all of it, as the page has it: there the blocks cost less than a tenth of all."""
    how = NETS.get(kind, {"order": True})
    if "another order at" in kind:
        how = how | NETS["rate 0.1"]
    article = lesson["article"]
    right = trained(network, walk, (1, 5), **how).mean()
    everywhere = trained(network, article, (1, 5), **how).mean()
    in_blocks = trained(network, article, (1, 5), at_head=walk, **how).mean()
    at_head = trained(network, walk, (1, 5), at_head=article, **how).mean()
    assert at_head < everywhere < right
    assert right - in_blocks < 0.5 * (right - everywhere)
    if kind != "400 steps":
        assert at_head < 80
    if kind == OWN:
        assert right - in_blocks < 0.1 * (right - everywhere)


@pytest.mark.slow
def test_at_rate_0_1_the_formula_costs_more_than_half_of_the_digits(network, lesson):
    right = trained(network, walk, (1, 5), **NETS["rate 0.1"])
    formula = trained(network, lesson["article"], (1, 5), **NETS["rate 0.1"])
    assert right.mean() > 350
    assert formula.mean() < 0.5 * right.mean()


@pytest.mark.slow
def test_at_rate_1_the_walk_is_bad_too_where_the_gains_start_at_1(network):
    right = trained(network, walk, (1, 1), optimizer=partial(SGD, lr=1.0))
    assert right.mean() < 200


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.001, 0.003, 0.01])
def test_adam_nearly_hides_it(network, lesson, rate):
    optimizer = partial(ADAM, lr=rate)
    right = trained(network, walk, (1, 5), optimizer)
    formula = trained(network, lesson["article"], (1, 5), optimizer)
    assert (right - formula).mean() < 40


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.001, 0.003, 0.01])
def test_adam_at_gain_1_hides_it(network, lesson, rate):
    optimizer = partial(ADAM, lr=rate)
    right = trained(network, walk, (1, 1), optimizer)
    formula = trained(network, lesson["article"], (1, 1), optimizer)
    assert (right - formula).mean().abs() <= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OWN, "rate 0.1"])
def test_gains_below_1_are_no_advantage_in_the_network(network, lesson, kind):
    right = trained(network, walk, (0.2, 0.8), **NETS[kind])
    formula = trained(network, lesson["article"], (0.2, 0.8), **NETS[kind])
    assert (formula - right).mean().abs() <= 10


@pytest.mark.parametrize(("width", "percent"), [(8, 33), (64, 10), (512, 3.3), (4096, 1.3)])
def test_for_a_random_dy_the_mistake_shrinks_with_the_width(lesson, width, percent):
    w = torch.linspace(0.5, 2.5, width)
    for seed in range(10, 13):
        x, dy = draw(2, 409600 // width, width, seed=seed)
        truth = walk(dy, x, w)
        off = 100 * (lesson["article"](dy, x, w) - truth).norm() / truth.norm()
        assert 0.8 * percent < off < 1.2 * percent
