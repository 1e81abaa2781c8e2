"""The checks of lesson 02a name the slips people make."""

import math

import numpy
import pytest
import torch
from torch.nn.functional import layer_norm

from normcourse.checks import placement as check
from tests.course.solutions import every_slip

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

RIGHT = {
    "pre": lambda x, F, norm: x + F(norm(x)),
    "post": lambda x, F, norm: norm(x + F(x)),
    "output": lambda x, F, norm: x + norm(F(x)),
    "sandwich": lambda x, F, norm: x + norm(F(norm(x))),
}


def but(**wrong):
    """A right answer with one place written in another way."""
    places = RIGHT | wrong
    return lambda placement, x, F, norm: places[placement](x, F, norm)


def swapped(placement, x, F, norm):
    return but(pre=RIGHT["post"], post=RIGHT["pre"])(placement, x, F, norm)


def in_place(placement, x, F, norm):
    x += F(norm(x))
    return x


def always_pre(placement, x, F, norm):
    return RIGHT["pre"](x, F, norm)


PLACES = {
    "pre and post swapped": (swapped, "that is Post-LN"),
    "normalized shortcut": (
        but(pre=lambda x, F, n: n(x) + F(n(x))),
        "residual connection passes through the norm",
    ),
    "pre without norm": (but(pre=lambda x, F, n: x + F(x)), "pre: there is no norm"),
    "pre without x": (but(pre=lambda x, F, n: F(n(x))), "pre: the residual connection is missing"),
    "post reads the norm": (but(post=lambda x, F, n: n(x + F(n(x)))), "it should read x"),
    "post is output": (but(post=RIGHT["output"]), "it belongs to the sum"),
    "output is post": (but(output=RIGHT["post"]), "only the branch should be normalized"),
    "output is sandwich": (but(output=RIGHT["sandwich"]), "that is the sandwich"),
    "output without x": (
        but(output=lambda x, F, n: n(F(x))),
        "output: the residual connection is missing",
    ),
    "output adds the sum": (
        but(output=lambda x, F, n: x + n(x + F(x))),
        "you normalize x + F(x)",
    ),
    "half a sandwich": (but(sandwich=RIGHT["pre"]), "norm after the branch is missing"),
    "other half": (but(sandwich=RIGHT["output"]), "norm before the branch is missing"),
    "sandwich on the sum": (
        but(sandwich=lambda x, F, n: n(x + F(n(x)))),
        "belongs to the branch alone",
    ),
    "post on x alone": (but(post=lambda x, F, n: n(x) + F(x)), "belongs to the whole sum"),
    "sandwich without x": (
        but(sandwich=lambda x, F, n: n(x) + n(F(n(x)))),
        "sandwich: the residual connection passes through the norm",
    ),
    "two norms before": (but(sandwich=lambda x, F, n: x + F(n(n(x)))), "both norms come before"),
    "post of two parts": (but(post=lambda x, F, n: n(x) + n(F(x))), "you normalize its two parts"),
    "output of norm(x)": (
        but(output=lambda x, F, n: n(x) + n(F(x))),
        "output: the residual connection passes through the norm",
    ),
    "a norm of its own": (
        but(output=lambda x, F, n: x + layer_norm(F(x), x.shape[-1:])),
        "output: call the norm that you are given",
    ),
    "all are pre": (always_pre, "that is Pre-LN"),
    # accepted before: only the values were compared
    "detached": (
        but(pre=lambda x, F, n: x.detach() + F(n(x))),
        "the residual connection is detached",
    ),
    "detached sum": (but(post=lambda x, F, n: n(x + F(x)).detach()), "no gradient comes back"),
    "writes into x": (in_place, "changed in place"),
}


def size(formula):
    return lambda block, b: formula(block, b)


SIZES = {
    "mean square": (size(lambda k, b: 1 + k * b), "its root"),
    "roots add": (size(lambda k, b: 1 + k * b**0.5), "RMS values do not"),
    "product": (size(lambda k, b: (1 + b) ** (k / 2)), "multiplies from block to block"),
    "no start": (size(lambda k, b: (k * b) ** 0.5), "before the first block, is missing"),
    "squared again": (size(lambda k, b: (1 + k * b * b) ** 0.5), "do not square it again"),
    "one too few": (size(lambda k, b: (1 + (k - 1) * b) ** 0.5), "not l - 1"),
    "one block": (size(lambda k, b: (1 + b) ** 0.5), "that is one block"),
    "start outside": (size(lambda k, b: 1 + (k * b) ** 0.5), "belongs under the root"),
    "product of squares": (size(lambda k, b: (1 + b) ** k), "multiplies mean squares"),
    "share": (size(lambda k, b: (1 + b) ** (-k / 2)), "share in Post-LN"),
    "inverse": (size(lambda k, b: (1 + k * b) ** -0.5), "that is its inverse"),
    "kept from the first": (size(lambda k, b: math.sqrt(13)), "the result of the first one"),
}
LEFT = {
    "no root": (lambda added: math.prod(1 / (1 + b) for b in added), "the root of 1 + b"),
    "pre": (lambda added: (1 + sum(added)) ** -0.5, "share in Pre-LN"),
    "roots add": (
        lambda added: math.prod(1 / (1 + b**0.5) for b in added),
        "RMS values do not",
    ),
    "last": (lambda added: (1 + added[-1]) ** -0.5, "last block's factor alone"),
    "first": (lambda added: (1 + added[0]) ** -0.5, "first block's factor alone"),
    "mean": (lambda added: (1 + sum(added) / len(added)) ** (-len(added) / 2), "not their mean"),
    "inverse": (lambda added: math.prod((1 + b) ** 0.5 for b in added), "that is its inverse"),
    "inverse without the root": (
        lambda added: math.prod(1 + b for b in added),
        "inverse, without the root",
    ),
    "sum": (lambda added: sum((1 + b) ** -0.5 for b in added), "multiplied, not added"),
    "no stream": (lambda added: math.prod(b**-0.5 for b in added), "is missing under the root"),
    "squared": (lambda added: math.prod((1 + b * b) ** -0.5 for b in added), "do not square"),
    "one too few": (lambda added: math.prod((1 + b) ** -0.5 for b in added[:-1]), "last block is"),
    "from the second": (
        lambda added: math.prod((1 + b) ** -0.5 for b in added[1:]),
        "the first block is missing",
    ),
    "the branches": (
        lambda added: 1 - math.prod((1 + b) ** -0.5 for b in added),
        "what the branches add",
    ),
    "b of one half": (lambda added: 1.5 ** (-len(added) / 2), "off by"),
}


@every_slip(
    {
        check.placements: PLACES,
        check.stream_size: SIZES,
        check.what_is_left: LEFT,
    }
)
def test_a_slip_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


UNUSUAL = {
    "a table of functions": (check.placements, but()),
    "a numpy number": (check.stream_size, lambda block, b: numpy.sqrt(1 + block * b)),
    "a running sum": (check.stream_size, lambda block, b: math.sqrt(sum([1.0] + [b] * block))),
    "by torch": (
        check.what_is_left,
        lambda added: (1 + torch.tensor(added)).rsqrt().prod(),
    ),
    "one root": (check.what_is_left, lambda added: math.prod(1 + b for b in added) ** -0.5),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_passes(name):
    check_, answer = UNUSUAL[name]
    assert check_(answer).startswith("[ok]")
