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
    "all of it": (lambda w, rho, alpha: rho * alpha / w, "the fraction is upside down"),
    "rho and w": (lambda w, rho, alpha: rho / (w * alpha), "have changed places"),
    "no rho": (lambda w, rho, alpha: w / alpha, "rho is missing"),
    "no trained gain": (lambda w, rho, alpha: torch.ones(len(w)).double() / rho / alpha, "left"),
    "as it starts": (lambda w, rho, alpha: w, "of the opening"),
    "the page's alpha": (lambda w, rho, alpha: w / rho / 0.5, "that is given"),
    "the root of D": (lambda w, rho, alpha: root(w) * w / rho / alpha, "no sqrt(D)"),
    "the derived gain": (lambda w, rho, alpha: w / (rho * alpha * root(w)), "no sqrt(D) below"),
    "root of rho": (lambda w, rho, alpha: w / math.sqrt(rho) / alpha, "no further root"),
    "rho squared": (lambda w, rho, alpha: w / rho / rho / alpha, "not squared"),
    "no sign": (lambda w, rho, alpha: w.abs() / rho / alpha, "the sign is lost"),
    "a minus": (lambda w, rho, alpha: -w / rho / alpha, "a minus too many"),
    "no sign of alpha": (lambda w, rho, alpha: w / rho / abs(alpha), "sign of alpha is lost"),
    "alpha squared": (lambda w, rho, alpha: w / rho / alpha**2, "alpha enters once"),
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
    "y not squared": (1 / (1 - y / 8), INTEGRAL, "since y is squared"),
    "one fraction twice": (4 / (8 - y) + 4 / (8 - y), INTEGRAL, "the fraction with 8 - y twice"),
    "the other fraction twice": (4 / (8 + y) + 4 / (8 + y), INTEGRAL, "with 8 + y twice"),
    "y not squared, over D": (1 / (1 - y / 64), INTEGRAL, "squared in the equation: the bracket"),
    "no D": (1 / (1 - y**2), INTEGRAL, "divided by D in"),
    "root of D": (1 / (1 - y**2 / 8), INTEGRAL, "not by its root"),
    "D squared": (1 / (1 - y**2 / 64**2), INTEGRAL, "not by its square"),
    "D below": (G / 64**2, INTEGRAL, "not below"),
    "numerators of 2": (G / 2, INTEGRAL, "is 4, not 2"),
    "one fraction": (4 / (8 - y), INTEGRAL, "add the one"),
    "fractions subtracted": (4 / (8 - y) - 4 / (8 + y), INTEGRAL, "are added"),
    "numerators of 8": (8 / (8 - y) + 8 / (8 + y), INTEGRAL, "each of the two numerators"),
    "A of 1/16 in g": (
        sympy.Rational(1, 16) / (8 - y) + sympy.Rational(1, 16) / (8 + y),
        INTEGRAL,
        "not 1/16",
    ),
    "numerators of 1/8": (G / 32, INTEGRAL, "is 4, not 1/8"),
    "numerators of 32": (32 / (8 - y) + 32 / (8 + y), INTEGRAL, "is 4, not 32"),
    "y minus 8": (4 / (y - 8) + 4 / (y + 8), INTEGRAL, "with the other sign"),
    "numerators of 1": (1 / (8 - y) + 1 / (8 + y), INTEGRAL, "16 on top"),
    "minus forgotten": (G, 4 * log(8 - y) + 4 * log(8 + y), "that sign again"),
    "minus forgotten, from 0": (G, 4 * log(64 - y**2) - 4 * log(64), "derivative of 8 - y"),
    "upside down": (G, -INTEGRAL, "upside down"),
    "factor forgotten": (G, log((8 + y) / (8 - y)), "sqrt(D)/2 = 4 is missing"),
    "factor of 8": (G, 2 * INTEGRAL, "yours is 8"),
    "A of 1/16": (G, INTEGRAL / 64, "not 1/16"),
    "factor of 32": (G, 8 * INTEGRAL, "not D/2"),
    "artanh": (G, sympy.atanh(y / 8), "artanh"),
    "not integrated": (G, G, "integrate it"),
    "differentiated": (G, sympy.diff(G, y), "derivative of g"),
    "negative argument": (G, 4 * log(8 + y) - 4 * log(y - 8), "no real logarithm"),
    "negative argument, plus": (G, 4 * log(y - 8) + 4 * log(y + 8), "take 8 - y, whose"),
    "a constant": (G, INTEGRAL + 3, "subtract the constant"),
    "negative quotient": (G, 4 * log((y + 8) / (y - 8)), "(y + 8)/(y - 8) is negative"),
    "one logarithm, minus": (G, -4 * log(8 - y), "with 8 + y is missing, and G(0)"),
    "one logarithm": (G, 4 * log(8 + y), "with 8 - y is missing, and G(0)"),
    "artanh of y": (G, 8 * sympy.atanh(y), "artanh takes y/8"),
    "artanh of y, as a logarithm": (G, 4 * log((1 + y) / (1 - y)), "artanh takes y/8"),
    "64 for 8": (G, 4 * log((64 + y) / (64 - y)), "stands 8, not 64"),
    "half of it": (G, 4 * log((8 + y) / 8), "with 8 - y"),
    "the other half": (G, -4 * log((8 - y) / 8), "with 8 + y"),
    "base 10": (G, INTEGRAL / log(10), "base 10"),
    "solved for y": (G, 8 * sympy.tanh(y / 8), "y as a function of x"),
    "changed places": (INTEGRAL, G, "have changed places"),
    "logarithm of the denominator": (G, 64 * log(64 - y**2), "factor -2y"),
    "arctangent": (G, 8 * sympy.atan(y / 8), "arctangent"),
    "not done": (G, sympy.Integral(G, y), "an Integral is the question"),
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


def compared_with_the_net(net, i, new):
    copied = copy.deepcopy(net)
    read = training.rows_read(net, training.digits().train_x[:100])
    chosen = list(read)[i]

    def in_its_place(norm):
        return new(norm, read[norm]) if norm is chosen else norm

    return surgery.replace(copied, layers.RMSNorm, in_its_place)[0]


def with_others(net, i, new, other):
    net = copy.deepcopy(net)
    read = training.rows_read(net, training.digits().train_x[:100])
    chosen = list(read)[i]

    def in_its_place(norm):
        return new(norm, read[norm]) if norm is chosen else other()

    return surgery.replace(net, layers.RMSNorm, in_its_place)[0]


def without_the_others(net, i, new):
    return with_others(net, i, new, other=lambda: None)


def with_the_same_head(net, i, new):
    found = only(net, i, new)
    found[3] = net[3]
    return found


def by_names(net, i, new):
    found = copy.deepcopy(net)
    names = [name for name, layer in net.named_modules() if isinstance(layer, layers.RMSNorm)]
    norm = found.get_submodule(names[i])
    rows = training.rows_read(found, training.digits().train_x[100:200])[norm]
    found.set_submodule(names[i], new(norm, rows))
    return found


def with_rows(changed):
    """The right norm, with its rows changed."""

    def answer(net, i, new):
        return only(net, i, lambda norm, rows: new(norm, changed(rows)))

    return answer


WRONG_ONLY = {
    "all": (partial(only, at=lambda i: range(SMALL)), "all norms were exchanged"),
    "none": (lambda net, i, new: copy.deepcopy(net), "no norm was exchanged"),
    "None": (without_the_others, "in_its_place returned None"),
    "norms of the net": (compared_with_the_net, "read the rows from the copy"),
    "all but one": (
        partial(only, at=lambda i: [place for place in range(SMALL) if place != i]),
        "the other way round",
    ),
    "counted from 1": (partial(only, at=lambda i: [(i - 1) % SMALL]), "has the number 0, not 1"),
    "counted from the end": (partial(only, at=lambda i: [SMALL - 1 - i]), "from the end"),
    "as the net lists them": (by_names, "as the net lists them, not as they read"),
    "up to it": (partial(only, at=lambda i: range(i + 1)), "exchanged were the norms [0, 1]"),
    "in place": (partial(only, copied=False), "the net itself was changed"),
    "the others taken out": (partial(with_others, other=nn.Identity), "something else has changed"),
    "the others fresh": (
        partial(with_others, other=lambda: layers.RMSNorm(8)),
        "something else has changed",
    ),
    "rows of another": (partial(only, rows_of=lambda i: (i + 1) % SMALL), "rows of norm 2"),
    "rows of the test": (measured_on_the_test, "rows of test pictures"),
    "zeros": (with_rows(torch.zeros_like), "zeros as its rows"),
    "doubled rows": (with_rows(lambda rows: 2 * rows), "rows that the norm does not read"),
    "noise": (with_rows(torch.randn_like), "rows that the norm does not read"),
    "ones": (with_rows(torch.ones_like), "rows that the norm does not read"),
    "sizes of numbers": (with_rows(torch.abs), "rows that the norm does not read"),
    "rows of size 1": (
        with_rows(lambda rows: rows / rows.square().mean(-1, keepdim=True).sqrt()),
        "rows that the norm does not read",
    ),
    "mean picture": (with_rows(lambda rows: rows.mean(0)), "rows that the norm does not read"),
    "one row": (with_rows(lambda rows: rows[0, 0]), "got 1 rows"),
    "ten pictures": (with_rows(lambda rows: rows[:10]), "got 80 rows"),
    "what it returns": (
        lambda net, i, new: only(net, i, lambda norm, rows: new(norm, norm(rows))),
        "what the norm returns",
    ),
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


def by_place(net, i, new):
    found = copy.deepcopy(net)
    norm, rows = list(training.rows_read(found, training.digits().train_x[100:200]).items())[i]
    (name,) = [name for name, layer in found.named_modules() if layer is norm]
    found.set_submodule(name, new(norm, rows))
    return found


def by_setattr(net, i, new):
    """Walks through the copy while it exchanges."""
    copied = copy.deepcopy(net)
    read = training.rows_read(copied, training.digits().train_x[:100])
    chosen = list(read)[i]
    for module in copied.modules():
        for name, child in module.named_children():
            if child is chosen:
                setattr(module, name, new(chosen, read[chosen]))
    return copied


def with_all_pictures(net, i, new):
    copied = copy.deepcopy(net)
    read = training.rows_read(copied, training.digits().train_x)
    chosen = list(read)[i]

    def in_its_place(norm):
        return new(norm, read[norm]) if norm is chosen else norm

    return surgery.replace(copied, layers.RMSNorm, in_its_place)[0]


def with_a_norm_of_the_net(net, i, new):
    norm = list(training.rows_read(net, training.digits().train_x[:100]))[i]
    return only(net, i, lambda _, rows: new(norm, rows))


@pytest.mark.parametrize(
    "wrong, message",
    [(with_all_pictures, "all rows of 100"), (with_a_norm_of_the_net, "a norm of the net")],
)
def test_rows_of_other_pictures_and_a_norm_of_the_net_are_named(wrong, message):
    verdict = check.only(wrong)
    assert verdict.startswith("[x]") and message in verdict


FLAT = with_rows(lambda rows: rows.reshape(-1, rows.shape[-1]))


@pytest.mark.parametrize("right", [only, by_place, by_setattr, FLAT, check.one_exchanged])
def test_one_norm_may_be_exchanged_otherwise(right):
    assert check.only(right).startswith("[ok]")


RIGHT_CURVES = {
    "cut off": lambda x, R: (x / R).clamp(-2, 2),
    "cut off as the derived one": lambda x, R: nn.functional.hardtanh(x / R, -5.6, 5.6),
    "arctangent": lambda x, R: torch.atan(x / R),
    "softsign": lambda x, R: x / (R + x.abs() / 5.6),
    "a square root below": lambda x, R: (x / R) / (1 + (x / R) ** 2 / 32).sqrt(),
    "a wave": lambda x, R: x / R * torch.exp(-((x / R) ** 2) / 18),
    "where": lambda x, R: torch.where(x.abs() < 4 * R, x / R, 4 * x.sign()),
}


@pytest.mark.parametrize("right", RIGHT_CURVES.values(), ids=RIGHT_CURVES)
def test_a_curve_that_keeps_the_digits_is_accepted(right):
    assert check.mine(right).startswith("[ok]")


WRONG_CURVES = {
    "tanh": (lambda x, R: 5.6 * torch.tanh(x / R / 5.6), "that is a tanh"),
    "sigmoid": (lambda x, R: 2 * torch.sigmoid(2 * x / R) - 1, "that is a tanh"),
    "a quarter of a tanh": (lambda x, R: torch.tanh(x / R / 4), "that is a tanh"),
    "line": (lambda x, R: x / R, "makes 100 of a spike of 100"),
    "cut off far out": (lambda x, R: (x / R).clamp(-10, 10), "makes 10 of a spike"),
    "identity": (lambda x, R: x, "R is not used"),
    "no R": (lambda x, R: x.clamp(-3, 3), "R is not used"),
    "times R": (lambda x, R: (x * R).clamp(-4, 4), "R is upside down"),
    "half the slope": (lambda x, R: (x / R / 2).clamp(-4, 4), "0.5 times the slope"),
    "square root": (lambda x, R: x.sign() * (x.abs() / R).sqrt(), "32 times the slope"),
    "sign": (lambda x, R: x.sign() * R, "R is upside down"),
    "cut off early": (lambda x, R: (x / R).clamp(-0.5, 0.5), "It bends too early"),
    "turned round": (lambda x, R: -(x / R).clamp(-4, 4), "falls near 0"),
    "one side": (lambda x, R: (x / R).clamp(0, 4), "0.5 times the slope"),
    "not through 0": (lambda x, R: torch.sigmoid(x / R), "at x = 0 your curve is 0.5"),
    "RMSNorm": (lambda x, R: x / x.square().mean(-1, keepdim=True).sqrt(), "other numbers"),
    "a mean": (lambda x, R: (x / R - (x / R).mean()).clamp(-3, 3), "other numbers"),
    "the largest": (lambda x, R: 3 * x / x.abs().max(), "other numbers"),
    "NaN": (lambda x, R: (x / R).sqrt(), "NaN"),
    "in place": (lambda x, R: x.div_(R).clamp_(-2, 2), "in place"),
    "numpy": (lambda x, R: (x / R).clamp(-2, 2).numpy(), "a ndarray came back"),
    "nothing": (lambda x, R: None, "is the return missing"),
    "another shape": (lambda x, R: (x / R).clamp(-2, 2).flatten(), "shape (384,)"),
}


@pytest.mark.parametrize("wrong, message", WRONG_CURVES.values(), ids=WRONG_CURVES)
def test_a_wrong_curve_is_named(wrong, message):
    verdict = check.mine(wrong)
    assert verdict.startswith("[x]") and message in verdict, verdict
