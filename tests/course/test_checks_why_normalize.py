"""The checks of lesson 00 name the slips people make, and take right answers in unusual form."""

import copy
import math

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import training
from normcourse.checks import why_normalize as check
from normlib import layers
from tests.course.solutions import every_slip

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

FACTORS = {
    "mean square": (lambda n, v: n * v / 2, "the scale is its root"),
    "no ReLU": (lambda n, v: math.sqrt(n * v), "ReLU is missing"),
    "no ReLU, no root": (lambda n, v: n * v, "and so is the root"),
    "half of the size": (lambda n, v: math.sqrt(n * v) / 2, "belongs under the root"),
    "no n": (lambda n, v: math.sqrt(v / 2), "n is missing"),
    "a mean": (lambda n, v: math.sqrt(v / (2 * n)), "not their mean"),
    "v squared": (lambda n, v: math.sqrt(n / 2) * v, "do not square it"),
    "n outside": (lambda n, v: n * math.sqrt(v / 2), "n belongs under the root"),
    "inverse": (lambda n, v: 1 / math.sqrt(n * v / 2), "one over the factor"),
    "He": (lambda n, v: 2 / n, "for which the factor is 1"),
    "torch's": (lambda n, v: math.sqrt(1 / 6), "use the v that is given"),
    "torch's, to three digits": (lambda n, v: 0.408, "0.408 is the factor with PyTorch's default"),
    "one size built in": (lambda n, v: math.sqrt(0.32), "the first one"),
    "thirty layers": (lambda n, v: (n * v / 2) ** 15, "the factor of thirty layers"),
    "He's deviation": (lambda n, v: math.sqrt(2 / n), "the standard deviation for which"),
    "a variance": (
        lambda n, v: math.sqrt(n * v * (math.pi - 1) / (2 * math.pi)),
        "does not subtract the mean",
    ),
    "a mean of what leaves": (lambda n, v: math.sqrt(n * v / 2 / math.pi), "that is the mean of"),
    "times 2": (lambda n, v: math.sqrt(n * v * 2), "does not double"),
    "torch's third": (lambda n, v: math.sqrt(n * v / 6), "the 1/3 belongs to PyTorch's default"),
    "64 in place of n": (lambda n, v: math.sqrt(64 * v / 2), "the factor with 64 inputs"),
    "only v under the root": (lambda n, v: n * v**0.5 / 2, "only v is under your root"),
}


def he(n):
    return 2 / n


STEADY = {
    "He's deviation": (lambda n: math.sqrt(2 / n), "that is the standard deviation"),
    "no ReLU": (lambda n: 1 / n, "ReLU is missing"),
    "ReLU the wrong way": (lambda n: 0.5 / n, "the variance has to double"),
    "inverse": (lambda n: n / 2, "one over the variance"),
    "no n": (lambda n: 2, "n is missing"),
    "the square": (lambda n: 4 / n, "the root of n v / 2"),
    "torch's": (lambda n: 1 / 3 / n, "that is PyTorch's default"),
    "no ReLU, a deviation": (lambda n: n**-0.5, "and without ReLU"),
    "torch's third": (lambda n: 3 / n, "the 3 belongs to PyTorch's default"),
    "the factor": (lambda n: 1, "the question is the variance"),
    "n twice": (lambda n: 2 / n / n, "divide by n once"),
    "a bound": (lambda n: (6 / n) ** 0.5, "the bound of a uniform draw"),
    "a bound squared": (lambda n: 6 / n, "its variance is a third"),
    "one size built in": (lambda n: 1 / 32, "the first one"),
}


@pytest.mark.parametrize(("factor", "message"), FACTORS.values(), ids=FACTORS)
def test_the_slip_in_the_factor_is_named(factor, message):
    verdict = check.factor(factor, he)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize(("steady", "message"), STEADY.values(), ids=STEADY)
def test_the_slip_in_the_steady_variance_is_named(steady, message):
    verdict = check.factor(lambda n, v: math.sqrt(n * v / 2), steady)
    assert verdict.startswith("[x]") and message in verdict


def unwritten(n):
    raise NotImplementedError


@pytest.mark.parametrize("steady", [unwritten, lambda n: ...], ids=["stub", "..."])
def test_what_is_still_missing_is_named(steady):
    verdict = check.factor(lambda n, v: math.sqrt(n * v / 2), steady)
    assert verdict.startswith("[x]") and "now write steady(n)" in verdict


def test_the_thirty_layers_get_the_reader_s_variance():
    """The verdict of the solution says what scale the lesson measures with He's initialization."""
    verdict = check.factor(lambda n, v: math.sqrt(n * v / 2), lambda n: torch.tensor(2 / n))
    net = training.mlp(depth=30, init="he")
    scale = net[:-1](training.digits().validation_x).square().mean().sqrt().item()
    assert verdict.startswith("[ok]")
    assert "your factor is 0.408, and the network's is 0.40" in verdict
    assert f"is {scale:.1f} instead of 1e-12" in verdict


def block_of(formula):
    class Block(nn.Module):
        def __init__(self, norm, linear):
            super().__init__()
            self.norm = norm
            self.linear = linear

        def forward(self, h):
            return formula(h, self.norm, self.linear)

    return Block


def in_place(h, norm, linear):
    h += torch.relu(linear(norm(h)))
    return h


BLOCKS = {
    "normalized residual": (lambda h, n, w: n(h) + w(n(h)).relu(), "NORMALIZED h"),
    "post": (lambda h, n, w: n(h + w(h).relu()), "after the sum"),
    "output": (lambda h, n, w: h + n(w(h).relu()), "yours comes last"),
    "as in a plain net": (lambda h, n, w: h + n(w(h)).relu(), "between Linear and ReLU"),
    "no ReLU": (lambda h, n, w: h + w(n(h)), "the ReLU is missing"),
    "ReLU of the sum": (lambda h, n, w: (h + w(n(h))).relu(), "before the sum"),
    "ReLU first": (lambda h, n, w: h + w(n(h).relu()), "the Linear comes first"),
    "plain": (lambda h, n, w: w(h).relu(), "that is the plain layer"),
    "two norms": (lambda h, n, w: n(h + w(n(h)).relu()), "one norm is enough"),
    "no residual": (lambda h, n, w: w(n(h)).relu(), "the residual connection is missing"),
    "no norm": (lambda h, n, w: h + w(h).relu(), "the norm is missing"),
    "norm beside the branch": (lambda h, n, w: n(h) + w(h).relu(), "what bypasses it"),
    "two in the branch": (lambda h, n, w: h + n(w(n(h)).relu()), "at its end as well"),
    "two before the ReLU": (lambda h, n, w: h + n(w(n(h))).relu(), "a second one after the Linear"),
    "a leaky ReLU": (lambda h, n, w: h + F.leaky_relu(w(n(h))), "yours has a leaky ReLU"),
    "by the root of 2": (lambda h, n, w: (h + w(n(h)).relu()) / 2**0.5, "by the root of 2"),
    "a tanh": (lambda h, n, w: h + w(n(h)).tanh(), "yours has a tanh"),
    "a sigmoid": (lambda h, n, w: h + w(n(h)).sigmoid(), "yours has a sigmoid"),
    "a GELU": (lambda h, n, w: h + F.gelu(w(n(h))), "yours has a GELU"),
    "minus": (lambda h, n, w: h - w(n(h)).relu(), "not subtracted"),
    "no bias": (lambda h, n, w: h + (n(h) @ w.weight.T).relu(), "the bias of the Linear"),
    "half": (lambda h, n, w: (h + w(n(h)).relu()) / 2, "the sum is not halved"),
    "three terms": (lambda h, n, w: h + n(h) + w(n(h)).relu(), "added to the sum as well"),
    "in place": (in_place, "changed in place"),
    "detached": (lambda h, n, w: h + w(n(h.detach())).relu(), "gradient"),
    "no gradient at all": (lambda h, n, w: (h + w(n(h)).relu()).detach(), "gradient"),
}


class Hidden(nn.Module):
    """Neither norm nor linear is registered."""

    def __init__(self, norm, linear):
        super().__init__()
        self.parts = [norm, linear]

    def forward(self, h):
        return h + torch.relu(self.parts[1](self.parts[0](h)))


class OfItsOwn(nn.Module):
    """Another norm or another Linear than the one that is given."""

    def __init__(self, norm, linear):
        super().__init__()
        self.norm = norm
        self.linear = linear

    def forward(self, h):
        return h + torch.relu(self.linear(self.norm(h)))


def norm_of_its_own(norm, linear):
    return OfItsOwn(nn.LayerNorm(5), linear)


def linear_of_its_own(norm, linear):
    return OfItsOwn(norm, nn.Linear(5, 5))


class HalfHidden(Hidden):
    def __init__(self, norm, linear):
        super().__init__(norm, linear)
        self.norm = norm


class InTrainingOnly(OfItsOwn):
    """The branch is left out in evaluation."""

    def forward(self, h):
        return super().forward(h) if self.training else h


def weight_detached(h, norm, linear):
    return h + F.linear(norm(h), linear.weight.detach(), linear.bias).relu()


def norm_detached(h, norm, linear):
    return h + linear(F.layer_norm(h, (5,), norm.weight.data, norm.bias, norm.eps)).relu()


def called_by_the_formula(h, norm, linear):
    return h + F(norm(h))


def called_by_an_unknown_name(h, norm, linear):
    raise NameError("name 'F' is not defined")


BUILT = {name: (block_of(formula), says) for name, (formula, says) in BLOCKS.items()} | {
    "F as a function": (block_of(called_by_the_formula), "In the formula, F is the branch"),
    "F, unknown": (block_of(called_by_an_unknown_name), "F is not imported here"),
    "a module called as a function": (
        block_of(lambda h, norm, linear: h + nn.ReLU(linear(norm(h)))),
        "nn.ReLU is a module",
    ),
    "a norm without its gain": (
        block_of(lambda h, norm, linear: h + linear(F.layer_norm(h, (5,))).relu()),
        "without its gain and bias",
    ),
    "in a list": (Hidden, "norm.weight is not among the parameters()"),
    "half in a list": (HalfHidden, "linear.weight is not among the parameters()"),
    "in training only": (InTrainingOnly, "after eval()"),
    "no module": (
        lambda norm, linear: lambda h: h + linear(norm(h)).relu(),
        "expected a module (nn.Module)",
    ),
    "a norm by hand": (
        block_of(lambda h, norm, linear: h + linear(h / h.std(-1, keepdim=True)).relu()),
        "does not call self.norm",
    ),
    "a norm of its own": (norm_of_its_own, "use the norm that MyBlock is given"),
    "a linear of its own": (linear_of_its_own, "use the linear that MyBlock is given"),
    "linear's weight detached": (block_of(weight_detached), "linear.weight gets no gradient"),
    "the norm's gain detached": (block_of(norm_detached), "norm.weight gets no gradient"),
}


def norm_of(formula):
    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()

        def forward(self, h):
            return formula(h)

    return Norm


def mean(h):
    return h.abs().mean(-1, keepdim=True) + 1e-6


@pytest.fixture
def untrained(monkeypatch):
    """The training, which takes a second, is left out."""
    monkeypatch.setattr(check, "_trained", lambda student: 0.6)


NORMS = {
    "nothing": (norm_of(lambda h: h), "divide by its scale"),
    "a constant": (norm_of(lambda h: h / 3), "divide by its scale"),
    "the squares": (norm_of(lambda h: h / mean(h) ** 2), "do not leave as the rows themselves do"),
    "a root": (norm_of(lambda h: h / mean(h).sqrt()), "do not leave as the rows themselves do"),
    "a length": (norm_of(lambda h: h / (h.norm(dim=-1, keepdim=True) + 1e-6)), "up to a constant"),
    "half of RMSNorm": (
        norm_of(lambda h: 4 * h / (h.norm(dim=-1, keepdim=True) + 1e-6)),
        "RMSNorm, up to a constant factor",
    ),
    "RMSNorm and a percent": (
        norm_of(lambda h: 1.01 * h / (h.square().mean(-1, keepdim=True) + 1e-6).sqrt()),
        "RMSNorm, up to a constant factor",
    ),
    "LayerNorm with torch's std": (
        norm_of(lambda h: (h - h.mean(-1, True)) / (h.std(-1, keepdim=True) + 1e-5)),
        "LayerNorm, up to a constant factor",
    ),
    "twice LayerNorm": (
        norm_of(lambda h: 2 * F.layer_norm(h, (64,))),
        "LayerNorm, up to a constant factor",
    ),
    "minus LayerNorm with a large eps": (
        norm_of(lambda h: -F.layer_norm(h, (64,), eps=1e-2)),
        "LayerNorm, up to a constant factor",
    ),
    "zeros": (norm_of(lambda h: 0 * h), "your norm returns zeros"),
    "a third of what a range makes": (
        norm_of(lambda h: h / 3 / (h.amax(-1, True) - h.amin(-1, True) + 1e-6)),
        "multiply by a constant factor",
    ),
    "with signs": (norm_of(lambda h: h / (h.mean(-1, keepdim=True) + 1e-6)), "count minus signs"),
    "the largest, with its sign": (
        norm_of(lambda h: h / (h.amax(-1, keepdim=True) + 1e-6)),
        "a scale is not negative",
    ),
    "no eps": (norm_of(lambda h: h / h.abs().mean(-1, keepdim=True)), "a row of zeros"),
    "detached": (norm_of(lambda h: (h / mean(h)).detach()), "no gradient"),
    "one number a row": (norm_of(mean), "came out"),
    "RMSNorm": (layers.RMSNorm, "that is the root mean square"),
    "LayerNorm": (layers.LayerNorm, "that is LayerNorm"),
    "BatchNorm": (nn.BatchNorm1d, "that is BatchNorm"),
    "no class": (layers.RMSNorm(64), "the check takes the class"),
    "the batch": (norm_of(lambda h: h / (h.square().mean().sqrt() + 1e-6)), "by itself"),
    "the first row's size": (
        norm_of(lambda h: h / (h[0].square().mean().sqrt() + 1e-6)),
        "measure each row by itself",
    ),
    "the size of the first rows": (
        norm_of(lambda h: h / (h[:20].square().mean().sqrt() + 1e-6)),
        "measure each row by itself",
    ),
    "the sum": (
        norm_of(lambda h: h / (h.abs().sum(-1, keepdim=True) + 1e-6)),
        "multiply by a constant factor, the same for all rows",
    ),
    "the columns": (norm_of(lambda h: h / (h.abs().mean(0) + 1e-6)), "by itself"),
    "a pair": (norm_of(lambda h: (h, h)), "returns a tuple"),
    "a median": (
        norm_of(lambda h: h / (h.abs().median(-1, keepdim=True).values + 1e-6)),
        "of the rows leave with a scale above 50",
    ),
    "all ones": (norm_of(lambda h: 0 * h + 1), "nothing of the row is left"),
    "signs": (norm_of(lambda h: h.sign()), "do not keep their proportions"),
    "a tanh of the row": (norm_of(lambda h: (h / mean(h)).tanh()), "keep their proportions"),
    "too small for the net": (
        norm_of(lambda h: 0.25 * h / (h.abs().amax(-1, keepdim=True) + 1e-6)),
        "multiply by a constant factor",
    ),
}


@every_slip({check.own_norm: NORMS, check.block: BUILT})
def test_the_slip_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize(
    "answer",
    [
        lambda n, v: torch.tensor(n * v / 2).sqrt(),
        lambda n, v: numpy.sqrt(n * v / 2),
        lambda n, v: (n * v) ** 0.5 * 0.5**0.5,
        lambda n, v: torch.tensor(n * v / 2, dtype=torch.float32).sqrt(),
        lambda n, v: numpy.float32(n * v / 2) ** numpy.float32(0.5),
        lambda n, v: torch.tensor(n * v / 2, dtype=torch.float32).sqrt().item(),
        lambda n, v: float(numpy.sqrt(numpy.float32(n * v / 2))),
    ],
    ids=[
        "a tensor",
        "numpy",
        "two roots",
        "float32",
        "numpy's float32",
        "float32's item",
        "numpy's float32 as a float",
    ],
)
def test_an_unusual_form_of_a_right_factor_is_accepted(answer):
    assert check.factor(answer, he).startswith("[ok]")


def test_a_block_may_be_a_function_that_makes_one():
    def made(norm, linear):
        return training.Block(nn.Sequential(linear, nn.ReLU()), lambda width: norm, 5)

    assert check.block(made).startswith("[ok]")


class ByInheritance(training.Block):
    def __init__(self, norm, linear):
        super().__init__(nn.Sequential(linear, nn.ReLU()), lambda width: norm, 5)


class InAList(nn.Module):
    def __init__(self, norm, linear):
        super().__init__()
        self.branch = nn.ModuleList([norm, linear])
        self.scale = nn.Parameter(torch.ones(()))  # of one's own, used

    def forward(self, h):
        norm, linear = self.branch
        return h + self.scale * torch.relu(linear(norm(h)))


class OfCopies(nn.Module):
    def __init__(self, norm, linear):
        super().__init__()
        self.branch = nn.Sequential(copy.deepcopy(norm), copy.deepcopy(linear), nn.ReLU())

    def forward(self, h):
        return self.branch(h).add(h)


@pytest.mark.parametrize("made", [ByInheritance, InAList, OfCopies])
def test_a_block_may_hold_its_parts_in_another_way(made):
    assert check.block(made).startswith("[ok]")


MEASURES = {
    "cubes": lambda h: (h.abs() ** 3).mean(-1, keepdim=True) ** (1 / 3),
    "the largest": lambda h: h.abs().amax(-1, keepdim=True),
    "centred": lambda h: (h - h.mean(-1, keepdim=True)).abs().mean(-1, keepdim=True),
    # the mean stays: neither of the lesson's norms
    "a deviation": lambda h: h.std(-1, keepdim=True),
    "roots": lambda h: h.abs().sqrt().mean(-1, keepdim=True).square(),
    "detached": lambda h: h.abs().mean(-1, keepdim=True).detach(),
    "every other number": lambda h: h[:, ::2].square().mean(-1, keepdim=True).sqrt(),
}


@pytest.mark.parametrize(
    "norm",
    [
        lambda h: h / (h.var(-1, keepdim=True) + 1e-5).sqrt(),
        lambda h: h / (h.square().amax(-1, keepdim=True) + 1e-5).sqrt(),
        lambda h: h / ((h.abs() ** 3).mean(-1, keepdim=True) + 1e-5) ** (1 / 3),
        lambda h: h / (h.pow(4).mean(-1, keepdim=True) + 1e-5) ** (1 / 4),
        lambda h: h / (h.amax(-1, keepdim=True) - h.amin(-1, keepdim=True) + 1e-5),
        lambda h: h / (mean(h) + 1e-4),
    ],
)
def test_an_epsilon_like_torch_s_is_small_enough(norm, untrained):
    assert check.own_norm(norm_of(norm)).startswith("[ok]")


def test_an_epsilon_as_large_as_the_row_is_named():
    for norm in (lambda h: h / (mean(h) + 1), lambda h: h / ((mean(h) ** 4 + 1e-2) ** (1 / 4))):
        verdict = check.own_norm(norm_of(norm))
        assert "the number that you add is too large" in verdict


def test_of_a_measure_that_grows_otherwise_no_epsilon_is_blamed():
    verdict = check.own_norm(norm_of(lambda h: h / (mean(h).sqrt() + 1e-6)))
    assert "divide by something that grows as the row does" in verdict
    assert "the number that you add" not in verdict


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_an_unusual_norm_is_none_of_the_lesson_s(measure, untrained):
    assert check.own_norm(norm_of(lambda h: h / (measure(h) + 1e-6))).startswith("[ok]")


@pytest.mark.slow
def test_the_accuracy_that_a_norm_brings_is_said():
    measure = MEASURES["cubes"]
    norm = norm_of(lambda h: h / (measure(h) + 1e-6))
    net = training.mlp(norm, depth=30, residual=True, init="torch")
    run = training.train(net, training.digits(), steps=100, lr=0.1)
    verdict = check.own_norm(norm)
    assert verdict.startswith("[ok]")
    assert f"thirty layers reach {run.validation_accuracy[-1]:.0%} in 100 steps" in verdict


@pytest.mark.parametrize(
    ("reached", "said"),
    [(0.93, "reach 93% in 100 steps"), (0.41, "less than 50%"), (None, "layers overflow")],
)
def test_what_the_thirty_layers_reach_is_said_and_not_judged(reached, said, monkeypatch):
    monkeypatch.setattr(check, "_trained", lambda student: reached)
    verdict = check.own_norm(norm_of(lambda h: h / mean(h)))
    assert verdict.startswith("[ok]") and said in verdict
