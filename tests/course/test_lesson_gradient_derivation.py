"""The claims of lesson 04: the rows left on the way, the network, and the test to paste, varied."""

from functools import partial

import pytest
import torch
from torch import Tensor

from normcourse import draw, training
from normcourse.checks import gradient_derivation as check
from normlib import gradients
from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

ROWS = 400
KINDS = {  # how many numbers a row has, and how descend is called
    OWN: (8, {}),
    "four times the steps": (8, {"steps": 1600}),
    "rate 0.005": (8, {"rate": 0.005}),
    "rate 0.5": (8, {"rate": 0.5}),
    "D = 4": (4, {}),
    "D = 64": (64, {}),
    "drawn gains": (8, {}),
}
CELLS = ("setup", "failure-gradients", "failure-descent", "net-function", "net-train")


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson defines, with the tests at its end."""
    return run_cells("04_gradient_derivation.ipynb", *CELLS, "test-fresh", "test")


def right(dy: Tensor, x: Tensor, w: Tensor) -> Tensor:
    return gradients.rms_norm_backward(w * dy, x, x.shape[-1:], eps=1e-5)[0]


def gains(kind: str, low: float = 0.5, high: float = 2.5) -> Tensor:
    """The page's, or drawn ones."""
    if kind == "drawn gains":
        return low + (high - low) * torch.rand(8, generator=torch.Generator().manual_seed(0))
    return torch.linspace(low, high, KINDS[kind][0])


@pytest.mark.parametrize("kind", each(KINDS))
def test_megatrons_line_leaves_rows_on_the_way(lesson, kind):
    _, how = KINDS[kind]
    w = gains(kind)
    arrived = lesson["descend"](right, w, **how)[-1]
    if kind == "four times the steps":
        assert arrived == ROWS
    assert lesson["descend"](lesson["megatron"], w, **how)[-1] <= arrived - 0.08 * ROWS


def test_with_gains_around_1_it_leaves_hardly_a_row_more(lesson):
    for kind in (OWN, "drawn gains"):
        w = gains(kind, 0.5, 1.5)
        arrived = lesson["descend"](right, w)[-1]
        assert arrived - 0.03 * ROWS <= lesson["descend"](lesson["megatron"], w)[-1] <= arrived


@pytest.mark.parametrize(("width", "percent"), [(8, 33), (64, 10), (512, 3.3), (4096, 1.3)])
def test_for_a_random_dy_the_mistake_shrinks_with_the_width(lesson, width, percent):
    w = torch.linspace(0.5, 2.5, width)
    for seed in range(10, 13):
        x, dy = draw(2, 409600 // width, width, seed=seed)
        truth = right(dy, x, w)
        off = 100 * (lesson["megatron"](dy, x, w) - truth).norm() / truth.norm()
        assert 0.8 * percent < off < 1.2 * percent


SGD = torch.optim.SGD
ADAM = torch.optim.Adam
NETS = {  # how the network is trained
    OWN: {},
    "rate 0.03": {"optimizer": partial(SGD, lr=0.03)},
    "rate 0.1": {"optimizer": partial(SGD, lr=0.1)},
    "momentum": {"optimizer": partial(SGD, lr=0.03, momentum=0.9)},
    "Adam 0.001": {"optimizer": partial(ADAM, lr=0.001)},
    "Adam 0.003": {"optimizer": partial(ADAM, lr=0.003)},
    "Adam 0.01": {"optimizer": partial(ADAM, lr=0.01)},
    "other seeds": {"seeds": range(3, 6)},
    "width 32": {"width": 32},
    "width 128": {"width": 128},
    "3 blocks": {"depth": 4},
    "400 steps": {"steps": 400},
}


def trained(
    lesson, gradient, optimizer=None, steps=100, width=64, depth=21, seeds=range(3)
) -> float:
    """Mean test accuracy in percent; the lesson's training where nothing is said."""
    data = training.digits()
    found = []
    for seed in seeds:
        norm = partial(lesson["RMSNorm"], gradient=gradient)
        net = training.mlp(norm, depth=depth, width=width, residual=True, seed=seed)
        descent = (optimizer or partial(SGD, lr=0.3))(net.parameters())
        generator = torch.Generator().manual_seed(0)
        for _ in range(steps):
            batch = torch.randint(1000, (32,), generator=generator)
            logits = net(data.train_x[batch])
            descent.zero_grad()
            torch.nn.functional.cross_entropy(logits, data.train_y[batch]).backward()
            descent.step()
        found.append(100 * training.accuracy(net, data.test_x, data.test_y))
    return sum(found) / len(found)


def test_the_network_of_the_table_is_the_lessons(lesson):
    net = lesson["train"](lesson["network"](right, 0), steps=5)
    data = training.digits()
    own = 100 * training.accuracy(net, data.test_x, data.test_y)
    assert trained(lesson, right, steps=5, seeds=[0]) == own


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETS)
def test_gains_that_start_at_1_hide_megatrons_line(lesson, kind):
    difference = trained(lesson, right, **NETS[kind]) - trained(
        lesson, lesson["megatron"], **NETS[kind]
    )
    assert abs(difference) < 3


# The test to paste


def as_layer(lesson, line):
    """A norm whose backward pass is a line of exercise 2: of dy, weight, xhat and r."""

    def gradient(dy, x, w):
        xhat, r = lesson["normalized"](x)
        return line(dy, w, xhat, r)

    return lambda x, w: lesson["HandWritten"].apply(x, w, gradient)


def test_the_test_to_paste_accepts_what_is_right(lesson):
    for line in (
        check.one_line,
        lambda dy, w, h, r: w * dy / r - h * (w * dy * h).mean(-1, keepdim=True) / r,
    ):
        lesson["test_backward"](as_layer(lesson, line))
        lesson["test_fresh_layer"](as_layer(lesson, line))


@pytest.mark.parametrize("message", check.COLLECTED)
def test_the_test_to_paste_rejects_every_wrong_line(lesson, message):
    with pytest.raises(AssertionError):
        lesson["test_backward"](as_layer(lesson, check.COLLECTED[message]))


def test_a_wrong_gradient_of_the_gain_is_rejected_too(lesson):
    def without_a_sum_over_the_rows(x, w):
        xhat, _ = lesson["normalized"](x)
        return w.detach() * xhat + (w - w.detach()) * xhat[:1]

    with pytest.raises(AssertionError):
        lesson["test_backward"](without_a_sum_over_the_rows)
