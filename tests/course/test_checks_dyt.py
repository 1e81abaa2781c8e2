"""The checks of lesson 05 name the slips people make, and accept answers written otherwise."""

import copy
import math
from functools import partial

import pytest
import sympy
import torch
from torch import nn

from normcourse import training
from normcourse.checks import dyt as check
from normlib import layers, surgery
from tests.course.solutions import load

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")
y = sympy.Symbol("y", real=True)
log = sympy.log
G = 64 / (64 - y**2)
INTEGRAL = 4 * log((8 + y) / (8 - y))


WRONG_GAINS = {
    "the line's slope": (lambda w, rho, alpha: w / rho, "slope of the norm's line"),
    "alpha upside down": (lambda w, rho, alpha: w * alpha / rho, "alpha upside down"),
    "rho upside down": (lambda w, rho, alpha: w * rho / alpha, "rho upside down"),
    "both": (lambda w, rho, alpha: w * rho * alpha, "both upside down"),
    "no rho": (lambda w, rho, alpha: w / alpha, "rho is missing"),
    "no trained gain": (lambda w, rho, alpha: torch.ones(len(w)).double() / rho / alpha, "left"),
    "as it starts": (lambda w, rho, alpha: w, "of the opening"),
    "the page's alpha": (lambda w, rho, alpha: w / rho / 0.5, "that is given"),
    "the root of D": (lambda w, rho, alpha: root(w) * w / rho / alpha, "no sqrt(D)"),
    "root of rho": (lambda w, rho, alpha: w / math.sqrt(rho) / alpha, "no further root"),
    "rho squared": (lambda w, rho, alpha: w / rho / rho / alpha, "not squared"),
    "slope for gain": (lambda w, rho, alpha: w * alpha, "slope of this DyT"),
    "tripled": (lambda w, rho, alpha: 3 * w / rho / alpha, "off by"),
    "a number": (lambda w, rho, alpha: 1 / rho / alpha, "expected a tensor of shape (16,)"),
}


@pytest.mark.parametrize("wrong, message", WRONG_GAINS.values(), ids=WRONG_GAINS)
def test_a_wrong_gain_is_named(wrong, message):
    verdict = check.gain_for(wrong)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize(
    "gain",
    [
        lambda w, rho, alpha: w / rho / alpha,
        lambda w, rho, alpha: (1 / (rho * alpha)) * w.clone(),
        lambda w, rho, alpha: torch.stack([one / (rho * alpha) for one in w]),
    ],
)
def test_the_gain_may_be_written_otherwise(gain):
    assert check.gain_for(gain).startswith("[ok]")


@pytest.mark.parametrize(
    "separated, integral",
    [
        (4 / (8 - y) + 4 / (8 + y), 8 * sympy.atanh(y / 8)),
        (1 / (1 - (y / 8) ** 2), 4 * log(8 + y) - 4 * log(8 - y)),
        (G, sympy.integrate(G, y) - sympy.integrate(G, y).subs(y, 0)),
    ],
    ids=["artanh", "two logarithms", "SymPy's"],
)
def test_the_separated_equation_may_be_written_otherwise(separated, integral):
    assert check.separation(separated).startswith("[ok]")
    assert check.integration(integral).startswith("[ok]")


WRONG_SEPARATIONS = {
    "the bracket": (1 - y**2 / 64, INTEGRAL, "divide by it"),
    "no numerator": (1 / (64 - y**2), INTEGRAL, "numerator is D"),
    "plus": (64 / (64 + y**2), INTEGRAL, "minus"),
    "root of D on top": (8 / (64 - y**2), INTEGRAL, "not its root"),
    "D times the bracket": (64 - y**2, INTEGRAL, "divide by the bracket"),
    "sign of g": (-G, INTEGRAL, "changed places"),
    "y not squared": (1 / (1 - y / 8), INTEGRAL, "squared"),
    "no D": (1 / (1 - y**2), INTEGRAL, "divided by D in"),
    "root of D": (1 / (1 - y**2 / 8), INTEGRAL, "not by its root"),
    "one fraction": (4 / (8 - y), INTEGRAL, "add the one"),
    "numerators of 8": (8 / (8 - y) + 8 / (8 + y), INTEGRAL, "each of the two numerators"),
    "A of 1/16 in g": (
        sympy.Rational(1, 16) / (8 - y) + sympy.Rational(1, 16) / (8 + y),
        INTEGRAL,
        "not 1/16",
    ),
    "numerators of 1": (1 / (8 - y) + 1 / (8 + y), INTEGRAL, "16 on top"),
    "minus forgotten": (G, 4 * log(8 - y) + 4 * log(8 + y), "that sign again"),
    "minus forgotten, from 0": (G, 4 * log(64 - y**2) - 4 * log(64), "derivative of 8 - y"),
    "upside down": (G, -INTEGRAL, "upside down"),
    "factor forgotten": (G, log((8 + y) / (8 - y)), "sqrt(D)/2 = 4 is missing"),
    "factor of 8": (G, 2 * INTEGRAL, "half of that"),
    "A of 1/16": (G, INTEGRAL / 64, "not 1/16"),
    "factor of 32": (G, 8 * INTEGRAL, "not D/2"),
    "artanh": (G, sympy.atanh(y / 8), "artanh"),
    "not integrated": (G, G, "integrate it"),
    "differentiated": (G, sympy.diff(G, y), "derivative of g"),
    "negative argument": (G, 4 * log(8 + y) - 4 * log(y - 8), "no real logarithm"),
    "a constant": (G, INTEGRAL + 3, "subtract the constant"),
    "negative quotient": (G, 4 * log((y + 8) / (y - 8)), "(y + 8)/(y - 8) is negative"),
    "one logarithm, minus": (G, -4 * log(8 - y), "with 8 + y is missing, and G(0)"),
    "one logarithm": (G, 4 * log(8 + y), "with 8 - y is missing, and G(0)"),
    "artanh of y": (G, 8 * sympy.atanh(y), "artanh takes y/8"),
    "artanh of y, as a logarithm": (G, 4 * log((1 + y) / (1 - y)), "artanh takes y/8"),
    "half of it": (G, 4 * log((8 + y) / 8), "with 8 - y"),
    "the other half": (G, -4 * log((8 - y) / 8), "with 8 + y"),
    "base 10": (G, INTEGRAL / log(10), "base 10"),
    "solved for y": (G, 8 * sympy.tanh(y / 8), "y as a function of x"),
    "changed places": (INTEGRAL, G, "have changed places"),
    "logarithm of the denominator": (G, 64 * log(64 - y**2), "factor -2y"),
    "arctangent": (G, 8 * sympy.atan(y / 8), "arctangent"),
    "tripled": (G, 3 * INTEGRAL, "off by"),
}


@pytest.mark.parametrize(
    "separated, integral, message", WRONG_SEPARATIONS.values(), ids=WRONG_SEPARATIONS
)
def test_a_wrong_separation_is_named(separated, integral, message):
    verdicts = [check.separation(separated), check.integration(integral)]
    wrong = [verdict for verdict in verdicts if verdict.startswith("[x]")]
    assert message in wrong[0]
    assert len(wrong) == 1 or (separated, integral) == (INTEGRAL, G)


def root(weight):
    return math.sqrt(len(weight))


SMALL = 5  # norms of the network that the check of exercise 1 exchanges in


def only(net, i, new, at=None, rows_of=None, copied=True):
    """The right answer, but for what is given."""
    net = copy.deepcopy(net) if copied else net
    read = training.rows_read(net, training.digits().train_x[:100])
    norms = list(read)
    places = at(i) if at else [i]
    rows = read[norms[rows_of(i)]] if rows_of else None

    def in_its_place(norm):
        if norms.index(norm) not in places:
            return norm
        return new(norm, read[norm] if rows is None else rows)

    return surgery.replace(net, layers.RMSNorm, in_its_place)[0]


def measured_on_the_test(net, i, new):
    net = copy.deepcopy(net)
    read = training.rows_read(net, training.digits().test_x[50:150])
    chosen = list(read)[i]

    def in_its_place(norm):
        return new(norm, read[norm]) if norm is chosen else norm

    return surgery.replace(net, layers.RMSNorm, in_its_place)[0]


def without_the_others(net, i, new):
    net = copy.deepcopy(net)
    read = training.rows_read(net, training.digits().train_x[:100])
    chosen = list(read)[i]

    def in_its_place(norm):
        return new(norm, read[norm]) if norm is chosen else nn.Identity()

    return surgery.replace(net, layers.RMSNorm, in_its_place)[0]


def with_the_same_head(net, i, new):
    found = only(net, i, new)
    found[-1] = net[-1]
    return found


WRONG_ONLY = {
    "all": (partial(only, at=lambda i: range(SMALL)), "all norms were exchanged"),
    "none": (lambda net, i, new: copy.deepcopy(net), "no norm was exchanged"),
    "all but one": (
        partial(only, at=lambda i: [place for place in range(SMALL) if place != i]),
        "the other way round",
    ),
    "counted from 1": (partial(only, at=lambda i: [(i - 1) % SMALL]), "has the number 0, not 1"),
    "counted from the end": (partial(only, at=lambda i: [SMALL - 1 - i]), "from the end"),
    "up to it": (partial(only, at=lambda i: range(i + 1)), "exchanged were the norms [0, 1]"),
    "in place": (partial(only, copied=False), "the net itself was changed"),
    "the others taken out": (without_the_others, "something else has changed"),
    "rows of another": (partial(only, rows_of=lambda i: (i + 1) % SMALL), "rows of norm 2"),
    "rows of the test": (measured_on_the_test, "rows of test pictures"),
    "report too": (lambda *given: (only(*given), {}), "take the first"),
    "no network": (lambda *given: 3, "expected a network"),
    "another network": (lambda *given: nn.Linear(2, 2), "has no layer"),
    "shared": (with_the_same_head, "shares"),
    "no rows": (lambda net, i, new: only(net, i, lambda norm, rows: new(norm, 1.0)), "as its rows"),
    "changed order": (lambda net, i, new: only(net, i, lambda norm, x: new(x, norm)), "its norm"),
}


@pytest.mark.parametrize("wrong, message", WRONG_ONLY.values(), ids=WRONG_ONLY)
def test_a_wrong_exchange_of_one_norm_is_named(wrong, message):
    verdict = check.only(wrong)
    assert verdict.startswith("[x]") and message in verdict


def by_names(net, i, new):
    found = copy.deepcopy(net)
    names = [name for name, layer in net.named_modules() if isinstance(layer, layers.RMSNorm)]
    norm = found.get_submodule(names[i])
    rows = training.rows_read(found, training.digits().train_x[100:150])[norm]
    found.set_submodule(names[i], new(norm, rows))
    return found


@pytest.mark.parametrize("right", [only, by_names])
def test_one_norm_may_be_exchanged_otherwise(right):
    assert check.only(right).startswith("[ok]")


@pytest.fixture(scope="module")
def trained():
    return load("05_dyt")["trained"]


GOOD_PAIRS = [(1.6, 1.2), (3, 1), (1, 1.5), (-1.6, -1.2), (torch.tensor(1.6), 1.2)]


@pytest.mark.slow
@pytest.mark.parametrize("pair", GOOD_PAIRS, ids=str)
def test_more_than_one_pair_is_accepted(pair, trained):
    verdict = check.told_nothing(pair, trained)
    assert verdict.startswith("[ok]") and "without a norm" in verdict


WRONG_PAIRS = {
    "the start": ((0.5, 1), "the start of the opening"),
    "too flat": ((0.5, 1.2), "norm 0 needs about 1.5"),
    "a little too flat": ((1, 1), "The slope at 0 is 1 times the gain; norm 0 needs about 1.5"),
    "steep enough, bend far out": ((0.1, 15), "how much is too much"),
    "too low": ((3, 0.5), "where do a norm's outputs end"),
    "too high": ((5, 5), "how much is too much"),
    "upside down": ((1.6, -1.2), "so does your S"),
    "nothing": ((0.0, 1.2), "so does your S"),
    "not finite": ((math.inf, 1.2), "so does your S"),
    "a list for each norm": (([1.6] * 5, 1.2), "expected a number"),
    "one number": (1.6, "expected"),
    "three": ((1.6, 1.2, 1.0), "expected"),
}


@pytest.mark.parametrize("pair, message", WRONG_PAIRS.values(), ids=WRONG_PAIRS)
def test_a_pair_that_does_not_work_is_named(pair, message, trained):
    verdict = check.told_nothing(pair, trained)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize("nets", [3, [], [1, 2, 3, 4, 5]])
def test_the_pair_needs_the_five_networks(nets):
    assert "list of five networks" in check.told_nothing((1.6, 1.2), nets)


def test_what_the_pair_is_scored_by_is_the_swap_of_the_records(trained):
    data = training.digits()
    nets = [training.swapped(net, data.train_x[:100], "one pair") for net in trained]
    right = [round(400 * training.accuracy(net, data.test_x, data.test_y)) for net in nets]
    assert f"right of 400 {right}, " in check.told_nothing((1.6, 1.2), trained)
