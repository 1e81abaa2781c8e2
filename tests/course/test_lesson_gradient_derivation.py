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


@pytest.mark.parametrize("kind", each(KINDS))
def test_it_is_mostly_the_length_that_holds_the_rows_up(lesson, kind):
    """Rows held at their first length lose less than half as many, compared with the walk's."""
    _, how = KINDS[kind]
    w = gains(kind)
    lost = {}
    for hold in (False, True):
        of_walk = late(lesson["descend"](walk, w, hold=hold, **how)[0]).sum()
        of_formula = late(lesson["descend"](lesson["article"], w, hold=hold, **how)[0]).sum()
        lost[hold] = of_formula - of_walk
    assert lost[True] < 0.5 * lost[False]


@pytest.mark.parametrize("kind", each(KINDS))
def test_with_all_gains_3_the_length_is_all(lesson, kind):
    width, how = KINDS[kind]
    w = 3 * torch.ones(width)
    of_walk, _ = lesson["descend"](walk, w, hold=True, **how)
    of_formula, _ = lesson["descend"](lesson["article"], w, hold=True, **how)
    assert (late(of_walk).sum() - late(of_formula).sum()).abs() <= 4
    free, lengths = lesson["descend"](lesson["article"], w, **how)
    assert late(free).sum() > late(lesson["descend"](walk, w, **how)[0]).sum() + 50
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


@pytest.mark.parametrize(
    "w", [torch.tensor([0.5, 2.5]), torch.linspace(1, 5, 8)], ids=["D = 2", "gains from 1 to 5"]
)
def test_with_these_gains_the_direction_costs_most(lesson, w):
    descend, article = lesson["descend"], lesson["article"]
    w = w.double()
    free = late(descend(article, w)[0]).sum() - late(descend(walk, w)[0]).sum()
    held = (
        late(descend(article, w, hold=True)[0]).sum() - late(descend(walk, w, hold=True)[0]).sum()
    )
    assert held > 0.5 * free > 50


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
    nothing = ("predict-04-answer", "found = {}")
    names = run_cells("04_gradient_derivation.ipynb", *cells, nothing)
    names["block"] = check.through_a_block
    names["walk"] = walk
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
    for _ in range(21):
        parameters.append(torch.linspace(*gain, width).expand(5, 1, width).clone())
    descent = (optimizer or partial(SGD, lr=0.3))(parameters)
    generator = torch.Generator().manual_seed(0)
    for batch in torch.randint(1000, (steps, 32), generator=generator):
        found = network["by_hand"](parameters, batch, norm_gradient)
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
@pytest.mark.parametrize("kind", [kind for kind in NETS if kind != "3 blocks"])
def test_without_a_gradient_through_the_norms_it_is_worse_still(network, lesson, kind):
    """In 3 blocks the wrong gradient is worse than none."""
    formula = trained(network, lesson["article"], (1, 5), **NETS[kind])
    nothing = trained(network, network["nothing"], (1, 5), **NETS[kind])
    assert nothing.mean() < formula.mean() - 20


@pytest.mark.slow
def test_at_a_rate_too_large_for_the_walk_the_formula_can_read_more(network, lesson):
    right = trained(network, walk, (3, 3), width=128)
    formula = trained(network, lesson["article"], (3, 3), width=128)
    assert right.max() < 250 < formula.min()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in NETS if kind != "width 128"])
def test_all_gains_3_cost_digits_too(network, lesson, kind):
    right = trained(network, walk, (3, 3), **NETS[kind])
    formula = trained(network, lesson["article"], (3, 3), **NETS[kind])
    fewer = (formula < right).sum()
    assert fewer >= (1 if kind == "400 steps" else 4), (right, formula)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OWN, "rate 0.1", "momentum", "again others"])
def test_in_front_of_the_head_alone_it_costs_nearly_all(network, lesson, kind):
    """What the page believed, and that all norms together cost less."""

    def by_hand(parameters, batch, _):
        calls = []

        def first_call_alone(dy, x, w):  # the head's norm is the first on the way back
            calls.append(x)
            return (lesson["article"] if len(calls) == 1 else walk)(dy, x, w)

        return network["by_hand"](parameters, batch, first_call_alone)

    at_head = trained(network | {"by_hand": by_hand}, None, (1, 5), **NETS[kind])
    everywhere = trained(network, lesson["article"], (1, 5), **NETS[kind])
    assert at_head.max() < 100
    assert at_head.mean() < everywhere.mean()


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
