"""The checks of lesson 00b name the slips people make."""

import math

import numpy
import pytest
import torch
from torch import nn

from normcourse import training
from normcourse.checks import explosion as check
from normlib import layers
from tests.course.solutions import wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def growth(first=None, peak=None, rate=None):
    """Exercise 1's answer; an argument is a slip of W and its gains in the place of one part."""

    def student(W, steps):
        gains = [
            torch.linalg.matrix_norm(torch.linalg.matrix_power(W, t), 2)
            for t in range(1, steps + 1)
        ]
        return (
            first(W, gains) if first else gains[0].item(),
            peak(W, gains) if peak else max(gains).item(),
            rate(W, gains) if rate else torch.linalg.eigvals(W).abs().max().item(),
        )

    return student


def grows_in_place(W, steps):
    result = growth()(W, steps)
    W *= 0
    return result


def radius(W, gains):
    return torch.linalg.eigvals(W).abs().max().item()


def largest_frobenius(W, gains):
    return max(torch.linalg.matrix_power(W, t).norm().item() for t in range(1, len(gains) + 1))


def largest_elementwise(W, gains):
    return max(torch.linalg.matrix_norm(W**t, 2).item() for t in range(1, len(gains) + 1))


def of_largest_real_part(eigenvalues):
    return eigenvalues[eigenvalues.real.argmax()]


GROWTHS = {
    "first: Frobenius": (
        growth(first=lambda W, g: torch.linalg.norm(W).item()),
        "first: the Frobenius norm",
    ),
    "first: radius": (growth(first=radius), "first: an eigenvalue"),
    "first: entry": (growth(first=lambda W, g: W.abs().max().item()), "first: the largest entry"),
    "first: no root": (
        growth(first=lambda W, g: torch.linalg.eigvalsh(W.T @ W).max()),
        "a root is missing",
    ),
    "peak: bound": (
        growth(peak=lambda W, g: g[0].item() ** len(g)),
        "peak: the bound sigma_max^steps",
    ),
    "peak: last": (growth(peak=lambda W, g: g[-1].item()), "peak: that is the last step"),
    "peak: first": (growth(peak=lambda W, g: g[0].item()), "peak: that is the first step"),
    "peak: element-wise": (growth(peak=largest_elementwise), "W ** t is element-wise"),
    "peak: radius": (growth(peak=radius), "peak: eigenvalues do not see it"),
    "peak: Frobenius": (growth(peak=largest_frobenius), "peak: the Frobenius norm"),
    "peak: one step short": (lambda W, n: growth()(W, n - 1), "the last step counts, too"),
    "peak: steps ignored": (lambda W, n: growth()(W, 40), "yours looks beyond `steps`"),
    "rate: sigma": (growth(rate=lambda W, g: g[0].item()), "rate: singular values only bound it"),
    "rate: real part": (
        growth(rate=lambda W, g: torch.linalg.eigvals(W).real.max()),
        "not the real part",
    ),
    "rate: eigvalsh": (
        growth(rate=lambda W, g: torch.linalg.eigvalsh(W).abs().max()),
        "as if W were symmetric",
    ),
    "rate: all steps": (growth(rate=lambda W, g: g[-1].item()), "the gain of all steps together"),
    "rate: radius^steps": (growth(rate=lambda W, g: radius(W, g) ** len(g)), "radius^steps"),
    "rate: root": (growth(rate=lambda W, g: g[-1] ** (1 / len(g))), "after many more steps"),
    "peak: with W^0": (growth(peak=lambda W, g: max(1.0, *g)), "W^0 is no step"),
    "rate: smallest": (
        growth(rate=lambda W, g: torch.linalg.eigvals(W).abs().min()),
        "the LARGEST eigenvalue",
    ),
    # accepted before: the matrix was a scaled rotation, and its pair had the largest real part
    "rate: largest real part": (
        growth(rate=lambda W, g: of_largest_real_part(torch.linalg.eigvals(W)).abs()),
        "the largest ABSOLUTE value counts",
    ),
    "rate: last two gains": (growth(rate=lambda W, g: g[-1] / g[-2]), "the last two gains swing"),
    "rate: complex": (growth(rate=lambda W, g: torch.linalg.eigvals(W)[0]), "rate is complex"),
    "two parts": (lambda W, steps: growth()(W, steps)[:2], "expected a tuple (first, peak, rate)"),
    "in place": (grows_in_place, "W was changed in place"),
}


BRANCH_SIZES = {
    "1 / sqrt(K)": (lambda K: K**-0.5, "they may all point in one"),
    "1 / K^2": (lambda K: K**-2, "1 / K^2 switches the branches off"),
    "0": (lambda K: 0.0, "0 switches the branches off"),
    "1": (lambda K: 1.0, "each block may double"),
    "3 / K": (lambda K: 3 / K, "the K-th power of 1 + 3 / K"),
    "2 / K": (lambda K: 2 / K, "the K-th power of 1 + 2 / K"),
    "1 / 3": (lambda K: 1 / 3, "the share that must be left"),
    "ln(3) / K": (lambda K: math.log(3) / K, "just below a third"),
    "third root": (lambda K: 3 ** (1 / K) - 1, "less than a third"),
    "a constant": (lambda K: 0.1, "for K = 64"),
    "for one K only": (lambda K: 1 / 64, "for K = 10"),
    "negative": (lambda K: -1 / K, "from 0 on"),
    "text": (lambda K: "1 / K", "expected a number"),
}


def chain(depth, *, last=nn.Identity, width=64):
    parts = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts, last(), nn.Linear(width, 10))


def linear_chain(depth):
    return nn.Sequential(*(nn.Linear(64, 64) for _ in range(depth)), nn.Linear(64, 10))


class Hidden(nn.Module):
    def forward(self, h):
        return h + h


def block():
    return training.Block(nn.Linear(64, 64), layers.LayerNorm, 64)


DEEP = {
    "too few": (lambda: chain(29), "29 Linear maps"),
    "narrow": (lambda: chain(30, width=32), "0 Linear maps"),
    "no activation": (lambda: linear_chain(30), "two Linear maps are one"),
    "untrained": (lambda: chain(30), "Write it down and try on"),
    "a block": (lambda: chain(30, last=block), "has a shortcut"),
    "a class of one's own": (lambda: chain(30, last=Hidden), "may hide a shortcut"),
    "a class": (lambda: nn.Linear, "got a type"),
    "its accuracy": (lambda: 0.9, "got a float"),
}


WRONG = {
    check.growth: GROWTHS,
    check.branch_size: BRANCH_SIZES,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


# so each slip above is its one change
def test_the_unchanged_answers_of_these_tests_are_accepted():
    assert check.growth(growth()).startswith("[ok]")


def test_other_right_answers_are_accepted():
    assert check.branch_size(lambda K: 0.5 / K).startswith("[ok]")
    assert check.branch_size(lambda K: 1 - 3 ** (-1 / K)).startswith("[ok]")
    assert check.branch_size(lambda K: torch.tensor(1 / (K + 1))).startswith("[ok]")


def by_numpy(W, steps):
    power = numpy.eye(len(W))
    gains = []
    for _ in range(steps):
        power = W.numpy() @ power
        gains.append(numpy.linalg.norm(power, 2))
    return gains[0], numpy.max(gains), numpy.abs(numpy.linalg.eigvals(W.numpy())).max()


def by_svdvals(W, steps):
    powers = torch.stack([torch.linalg.matrix_power(W, t) for t in range(1, steps + 1)])
    gains = torch.linalg.svdvals(powers)[:, 0]
    eigenvalues = torch.linalg.eigvals(W)
    return gains[0], gains.amax(), torch.hypot(eigenvalues.real, eigenvalues.imag).max()


def by_products(W, steps):
    def gain(A):
        return torch.linalg.eigvalsh(A.mT @ A)[-1].clamp(min=0) ** 0.5

    first, *others = [gain(torch.linalg.matrix_power(W, t)) for t in range(1, steps + 1)]
    return first, max([first, *others]), max(abs(v) for v in torch.linalg.eigvals(W).tolist())


def as_tensors(W, steps):
    return [torch.tensor(v) for v in growth()(W, steps)]


def as_columns(W, steps):
    return [torch.tensor([[v]]) for v in growth()(W, steps)]


@pytest.mark.parametrize("answer", [by_numpy, by_svdvals, by_products, as_tensors, as_columns])
def test_other_ways_to_measure_growth_are_accepted(answer):
    assert check.growth(answer).startswith("[ok]")


@pytest.mark.parametrize(("make", "message"), DEEP.values(), ids=DEEP)
def test_a_net_that_is_not_what_was_asked_is_named(make, message):
    verdict = check.deep(make())
    assert verdict.startswith("[x]") and message in verdict
