"""The checks of lesson 02a name the slips people make."""

import math
from fractions import Fraction

import numpy
import pytest
import torch

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


def exchanged(placement, x, F, norm):
    return but(pre=RIGHT["post"], post=RIGHT["pre"])(placement, x, F, norm)


def in_place(placement, x, F, norm):
    x += F(norm(x))
    return x


def detached(placement, x, F, norm):
    return RIGHT["pre"](x, F, norm)


PLACES = {
    "pre and post exchanged": (exchanged, "that is Post-LN"),
    "normalized shortcut": (
        but(pre=lambda x, F, n: n(x) + F(n(x))),
        "shortcut goes through the norm",
    ),
    "pre without norm": (but(pre=lambda x, F, n: x + F(x)), "pre: there is no norm"),
    "pre without shortcut": (but(pre=lambda x, F, n: F(n(x))), "pre: the shortcut is missing"),
    "post reads the norm": (but(post=lambda x, F, n: n(x + F(n(x)))), "here it reads x"),
    "post is output": (but(post=RIGHT["output"]), "here it stands on the sum"),
    "output is post": (but(output=RIGHT["post"]), "only the branch is normalized"),
    "output is sandwich": (but(output=RIGHT["sandwich"]), "that is the sandwich"),
    "output without shortcut": (
        but(output=lambda x, F, n: n(F(x))),
        "output: the shortcut is missing",
    ),
    "output adds the sum": (
        but(output=lambda x, F, n: x + n(x + F(x))),
        "you normalize x + F(x)",
    ),
    "half a sandwich": (but(sandwich=RIGHT["pre"]), "norm behind the branch is missing"),
    "other half": (but(sandwich=RIGHT["output"]), "norm before the branch is missing"),
    "sandwich on the sum": (
        but(sandwich=lambda x, F, n: n(x + F(n(x)))),
        "belongs to the branch alone",
    ),
    "post on x alone": (but(post=lambda x, F, n: n(x) + F(x)), "stands on the whole sum"),
    "sandwich's shortcut": (
        but(sandwich=lambda x, F, n: n(x) + n(F(n(x)))),
        "sandwich: the shortcut goes through the norm",
    ),
    "two norms before": (but(sandwich=lambda x, F, n: x + F(n(n(x)))), "both norms stand before"),
    "all are pre": (detached, "that is Pre-LN"),
    "writes into x": (in_place, "changed in place"),
}


def size(formula):
    return lambda block, b: formula(block, b)


SIZES = {
    "mean square": (size(lambda k, b: 1 + k * b), "its root"),
    "sizes add": (size(lambda k, b: 1 + k * b**0.5), "sizes do not"),
    "product": (size(lambda k, b: (1 + b) ** (k / 2)), "multiplies from block to block"),
    "no start": (size(lambda k, b: (k * b) ** 0.5), "at the start is missing"),
    "squared again": (size(lambda k, b: (1 + k * b * b) ** 0.5), "do not square it again"),
    "one too few": (size(lambda k, b: (1 + (k - 1) * b) ** 0.5), "not l - 1"),
    "one block": (size(lambda k, b: (1 + b) ** 0.5), "that is one block"),
    "start outside": (size(lambda k, b: 1 + (k * b) ** 0.5), "stands under the root"),
    "product of squares": (size(lambda k, b: (1 + b) ** k), "multiplies mean squares"),
    "share": (size(lambda k, b: (1 + b) ** (-k / 2)), "share in Post-LN"),
    "inverse": (size(lambda k, b: (1 + k * b) ** -0.5), "that is its inverse"),
    "kept from the first": (size(lambda k, b: math.sqrt(13)), "the result of the first one"),
}
RATES = {
    "starts at 0": (lambda s, w, p: p * min(1, s / w) if w else p, "has to move"),
    "one early": (lambda s, w, p: p * min(1, (s + 1) / w) if w else p, "one step early"),
    "no cap": (lambda s, w, p: p * (s + 1) / (w + 1), "stop rising"),
    "falls": (lambda s, w, p: p * max(0, 1 - (s + 1) / (w + 1)), "starts at the peak and falls"),
    "constant": (lambda s, w, p: p, "no warm-up"),
    "0 behind": (lambda s, w, p: _share(s, w, p) if s <= w else 0.0, "yours is 0 there"),
    "root behind": (
        lambda s, w, p: p * min((s + 1) / (w + 1), ((w + 1) / (s + 1)) ** 0.5),
        "with a root",
    ),
    "share": (lambda s, w, p: min(1, (s + 1) / (w + 1)), "the peak is missing"),
    "square": (lambda s, w, p: p * min(1, ((s + 1) / (w + 1)) ** 2), "yours has a square"),
    "waits": (lambda s, w, p: p if s >= w else 0.0, "stays at 0"),
    # accepted before: each warm-up had 9 steps
    "9 built in": (
        lambda s, w, p: p * min(1, 0.1 + 0.9 * s / w) if w else p,
        "0.1 is the first share where warmup is 9",
    ),
    "10 built in": (lambda s, w, p: p * min(1, (s + 1) / 10) if w else p, "ten parts are right"),
    "divides by warmup": (
        lambda s, w, p: p if w == 0 and 1 / w else _share(s, w, p),
        "raised ZeroDivision",
    ),
}


def _share(step, warmup, peak):
    return peak * min(1, (step + 1) / (warmup + 1))


LEFT = {
    "no root": (lambda added: math.prod(1 / (1 + b) for b in added), "the root of 1 + b"),
    "pre": (lambda added: (1 + sum(added)) ** -0.5, "share in Pre-LN"),
    "sizes add": (lambda added: math.prod(1 / (1 + b**0.5) for b in added), "sizes do not"),
    "last": (lambda added: (1 + added[-1]) ** -0.5, "last block's factor alone"),
    "first": (lambda added: (1 + added[0]) ** -0.5, "first block's factor alone"),
    "mean": (lambda added: (1 + sum(added) / len(added)) ** (-len(added) / 2), "not their mean"),
    "inverse": (lambda added: math.prod((1 + b) ** 0.5 for b in added), "that is its inverse"),
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
        check.warmup_rate: RATES,
    }
)
def test_a_slip_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


UNUSUAL = {
    "a table of functions": (check.placements, but()),
    "a numpy number": (check.stream_size, lambda block, b: numpy.sqrt(1 + block * b)),
    "a running sum": (check.stream_size, lambda block, b: math.sqrt(sum([1.0] + [b] * block))),
    "a rate by a table": (
        check.warmup_rate,
        lambda s, w, p: numpy.linspace(p / (w + 1), p, w + 1)[min(s, w)],
    ),
    "a rate by fractions": (
        check.warmup_rate,
        lambda s, w, p: min(Fraction(1), Fraction(s + 1, w + 1)) * Fraction(p),
    ),
    "a rate by torch": (
        check.warmup_rate,
        lambda s, w, p: torch.tensor((s + 1) / (w + 1)).clamp(max=1).mul(p),
    ),
    "a rate by slope": (
        check.warmup_rate,
        lambda s, w, p: p - max(0, w - s) * (p / (w + 1)),
    ),
    "by cases": (
        check.warmup_rate,
        lambda s, w, p: p if s >= w else p * (s + 1) / (w + 1),
    ),
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
