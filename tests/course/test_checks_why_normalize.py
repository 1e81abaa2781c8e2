"""The checks of lesson 00 name the slips people make, and take right answers in unusual form."""

import math

import numpy
import pytest
import torch
from torch import nn

from normcourse import training
from normcourse.checks import why_normalize as check
from normlib import layers
from tests.course.solutions import every_slip, load

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

FACTORS = {
    "mean square": (lambda n, v: n * v / 2, "the size is its root"),
    "no ReLU": (lambda n, v: math.sqrt(n * v), "ReLU is missing"),
    "no ReLU, no root": (lambda n, v: n * v, "and so is the root"),
    "half of the size": (lambda n, v: math.sqrt(n * v) / 2, "belongs under the root"),
    "no n": (lambda n, v: math.sqrt(v / 2), "n is missing"),
    "a mean": (lambda n, v: math.sqrt(v / (2 * n)), "not their mean"),
    "v squared": (lambda n, v: math.sqrt(n / 2) * v, "do not square it"),
    "n outside": (lambda n, v: n * math.sqrt(v / 2), "n stands under the root"),
    "inverse": (lambda n, v: 1 / math.sqrt(n * v / 2), "one over the factor"),
    "He": (lambda n, v: 2 / n, "for which the factor is 1"),
    "torch's": (lambda n, v: math.sqrt(1 / 6), "use the v that is given"),
    "one size built in": (lambda n, v: math.sqrt(0.32), "the first one"),
    "thirty layers": (lambda n, v: (n * v / 2) ** 15, "the factor of thirty layers"),
    "He's deviation": (lambda n, v: math.sqrt(2 / n), "the standard deviation for which"),
    "a variance": (
        lambda n, v: math.sqrt(n * v * (math.pi - 1) / (2 * math.pi)),
        "does not subtract the mean",
    ),
    "times 2": (lambda n, v: math.sqrt(n * v * 2), "does not double"),
}


def profiled(*, ends=(nn.ReLU, training.Block), end=-1, order=(0, 1, 2), train=None, chained=True):
    """The solution with one thing changed."""
    measures = [load("00_why_normalize")[name] for name in ("size", "spread", "told_apart")]

    def student(net, x, digits):
        lists = [], [], []
        h = x
        if train is not None:
            net.train(train)
        for part in net[:end]:
            h = part(h if chained else x).detach()
            if isinstance(part, ends):
                lists[0].append(measures[0](h))
                lists[1].append(measures[1](h))
                lists[2].append(measures[2](h, digits))
        return tuple(lists[place] for place in order)

    return student


def unbiased(net, x, digits):
    sizes, spreads, shares = profiled()(net, x, digits)
    factor = (len(x) / (len(x) - 1)) ** 0.5
    return sizes, [spread * factor for spread in spreads], shares


def no_ratio(net, x, digits):
    sizes, spreads, shares = profiled()(net, x, digits)
    return sizes, [size * spread for size, spread in zip(sizes, spreads, strict=True)], shares


def changes_the_net(net, x, digits):
    with torch.no_grad():
        net[0].bias += 1
    return profiled()(net, x, digits)


def spreads_changed(change):
    def student(net, x, digits):
        sizes, spreads, shares = profiled()(net, x, digits)
        changed = [change(spread, size) for spread, size in zip(spreads, sizes, strict=True)]
        return sizes, changed, shares

    return student


def measured_on_x(net, x, digits):
    sizes, spreads, shares = profiled(ends=nn.Module)(
        nn.Sequential(nn.Identity(), net[0]), x, digits
    )
    return sizes * 3, spreads * 3, shares * 3


def input_too(net, x, digits):
    sizes, spreads, shares = profiled()(net, x, digits)
    return [1.0, *sizes], [1.0, *spreads], [1.0, *shares]


def head_too(net, x, digits):
    sizes, spreads, shares = profiled()(net, x, digits)
    return [*sizes, 1.0], [*spreads, 1.0], [*shares, 1.0]


def otherwise(list_number, measure):
    """The solution with one list measured in another way."""

    def student(net, x, digits):
        lists = list(profiled()(net, x, digits))
        lists[list_number] = []
        h = x
        for part in net[:-1]:
            h = part(h).detach()
            if isinstance(part, (nn.ReLU, training.Block)):
                lists[list_number].append(measure(h))
        return tuple(lists)

    return student


def along_the_row(h):
    return ((h - h.mean(1, keepdim=True)).square().mean() / h.square().mean()).sqrt().item()


def by_layer(net, x, digits):
    return list(zip(*profiled()(net, x, digits), strict=True))


PROFILES = {
    "input too": (input_too, "that of the input"),
    "head too, with the layers": (head_too, "leave it out"),
    "deviation": (otherwise(0, lambda h: h.std().item()), "does not subtract the mean"),
    "other mean": (otherwise(1, along_the_row), "the average ROW"),
    "by layer": (by_layer, "return three lists"),
    "always x": (profiled(chained=False), "yours gets x"),
    "no root": (spreads_changed(lambda spread, size: spread**2), "the root is missing"),
    "by the square": (spreads_changed(lambda spread, size: spread / size), "not by its square"),
    "no Block": (profiled(ends=nn.ReLU), "Block is missing"),
    "no ReLU": (profiled(ends=training.Block), "ReLU is missing"),
    "every part": (profiled(ends=nn.Module), "behind every part"),
    "head too": (profiled(ends=nn.Module, end=None), "leave it out"),
    "order": (profiled(order=(1, 0, 2)), "the order is"),
    "train mode": (profiled(train=True), "the net was changed"),
    "eval mode": (profiled(train=False), "the net was changed"),
    "weights": (changes_the_net, "the net was changed"),
    "behind Linear": (profiled(ends=(nn.Linear, training.Block)), "goes INTO"),
    "of x": (measured_on_x, "what came into the net"),
    "two lists": (profiled(order=(0, 1)), "expected a tuple"),
    "unbiased": (unbiased, "not over all but one"),
    "not divided by the size": (no_ratio, "a share of the size"),
    "the sum": (lambda *given: tuple(sum(part) for part in profiled()(*given)), "return a list"),
}


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
    "normalized shortcut": (lambda h, n, w: n(h) + w(n(h)).relu(), "NORMALIZED h"),
    "post": (lambda h, n, w: n(h + w(h).relu()), "behind the sum"),
    "output": (lambda h, n, w: h + n(w(h).relu()), "at its end"),
    "as in a plain net": (lambda h, n, w: h + n(w(h)).relu(), "between Linear and ReLU"),
    "no ReLU": (lambda h, n, w: h + w(n(h)), "the ReLU is missing"),
    "ReLU of the sum": (lambda h, n, w: (h + w(n(h))).relu(), "before the sum"),
    "ReLU first": (lambda h, n, w: h + w(n(h).relu()), "the Linear comes first"),
    "plain": (lambda h, n, w: w(h).relu(), "that is the plain layer"),
    "two norms": (lambda h, n, w: n(h + w(n(h)).relu()), "one norm is enough"),
    "no shortcut": (lambda h, n, w: w(n(h)).relu(), "the shortcut is missing"),
    "no norm": (lambda h, n, w: h + w(h).relu(), "the norm is missing"),
    "minus": (lambda h, n, w: h - w(n(h)).relu(), "not subtracted"),
    "in place": (in_place, "changed in place"),
    "detached": (lambda h, n, w: h + w(n(h.detach())).relu(), "gradient"),
    "no gradient at all": (lambda h, n, w: (h + w(n(h)).relu()).detach(), "gradient"),
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


NORMS = {
    "nothing": (norm_of(lambda h: h), "divide by the size"),
    "a constant": (norm_of(lambda h: h / 3), "divide by the size"),
    "the squares": (norm_of(lambda h: h / mean(h) ** 2), "do not leave as the rows themselves do"),
    "a root": (norm_of(lambda h: h / mean(h).sqrt()), "do not leave as the rows themselves do"),
    "a length": (norm_of(lambda h: h / (h.norm(dim=-1, keepdim=True) + 1e-6)), "is the measure"),
    "a range": (
        norm_of(lambda h: h / (h.amax(-1, True) - h.amin(-1, True) + 1e-6)),
        "A constant factor may help",
    ),
    "with signs": (norm_of(lambda h: h / (h.mean(-1, keepdim=True) + 1e-6)), "without a sign"),
    "no eps": (norm_of(lambda h: h / h.abs().mean(-1, keepdim=True)), "a row of zeros"),
    "detached": (norm_of(lambda h: (h / mean(h)).detach()), "no gradient"),
    "one number a row": (norm_of(mean), "came out"),
    "RMSNorm": (layers.RMSNorm, "that is the root mean square"),
    "LayerNorm": (layers.LayerNorm, "that is LayerNorm"),
    "BatchNorm": (nn.BatchNorm1d, "that is BatchNorm"),
    "no class": (layers.RMSNorm(64), "the check takes the class"),
    "the batch": (norm_of(lambda h: h / (h.square().mean().sqrt() + 1e-6)), "by itself"),
    "the columns": (norm_of(lambda h: h / (h.abs().mean(0) + 1e-6)), "by itself"),
    "a pair": (norm_of(lambda h: (h, h)), "returns a tuple"),
    "a median": (
        norm_of(lambda h: h / (h.abs().median(-1, keepdim=True).values + 1e-6)),
        "wanted 0.7",
    ),
}


@every_slip(
    {check.factor: FACTORS, check.profile: PROFILES, check.own_norm: NORMS}
    | {check.block: {name: (block_of(formula), says) for name, (formula, says) in BLOCKS.items()}}
)
def test_the_slip_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize(
    "answer",
    [
        lambda n, v: torch.tensor(n * v / 2).sqrt(),
        lambda n, v: numpy.sqrt(n * v / 2),
        lambda n, v: (n * v) ** 0.5 * 0.5**0.5,
    ],
    ids=["a tensor", "numpy", "two roots"],
)
def test_an_unusual_form_of_a_right_factor_is_accepted(answer):
    assert check.factor(answer).startswith("[ok]")


def test_a_block_may_be_a_function_that_makes_one():
    def made(norm, linear):
        return training.Block(nn.Sequential(linear, nn.ReLU()), lambda width: norm, 5)

    assert check.block(made).startswith("[ok]")


@pytest.mark.parametrize(
    "size",
    [
        lambda h: (h.abs() ** 3).mean(-1, keepdim=True) ** (1 / 3),
        lambda h: h.abs().amax(-1, keepdim=True),
    ],
    ids=["cubes", "the largest"],
)
def test_an_unusual_norm_is_accepted(size):
    assert check.own_norm(norm_of(lambda h: h / (size(h) + 1e-6))).startswith("[ok]")
