"""Checks of lesson 05: one norm exchanged, a gain for a slope, the separated equation, a curve.

Tables map what a check says to the wrong answer that earns it; v holds the values of one call.
"""

import copy
import functools
import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from normcourse import draw, training
from normcourse.checks.probes import call, calls, unshared
from normcourse.checks.values import describe, is_expression
from normcourse.checks.verdict import Slip, exercise, expect
from normcourse.training import swaps
from normlib import layers

PICTURES = 100  # training pictures; a norm's rows are those that it reads from them


@exercise(
    "Exercise 1 (one norm at a time)",
    "Norm 0 is the one that reads first",
    f"those of {PICTURES} training pictures",
)
def only(student: Callable) -> None:
    """student(net, i, new) -> a copy of the net, with new(norm, its rows) in the place of norm i.

    What stands there in the test computes what the norm does, so nothing else may change.
    """
    data = training.digits()
    net = _Turned(training.transformer(layers.RMSNorm, depth=2, width=8, seed=0))
    _other_gains(net)
    inputs = data.train_x[:PICTURES]
    rows_of = training.rows_read(net, inputs)
    read = [rows.clone() for rows in rows_of.values()]
    tested = [rows.clone() for rows in training.rows_read(net, data.test_x).values()]
    name_of = {layer: name for name, layer in net.named_modules()}
    names = [name_of[norm] for norm in rows_of]
    listed = [names.index(name) for name in name_of.values() if name in names]
    want = net(inputs)
    for i in (1, 0, 4):
        got = _exchanged(student, net, i)
        if isinstance(got, tuple):
            raise Slip("a tuple came back: surgery.replace returns (net, report); take the first.")
        if not isinstance(got, nn.Module):
            raise Slip(f"{describe(got)} came back, expected a network.")
        if any(isinstance(layer, _StandIn) for layer in net.modules()):
            raise Slip("the net itself was changed; exchange in copy.deepcopy(net).")
        stands = [place for place, name in enumerate(names) if _stands_at(got, name)]
        if stands != [i]:
            raise Slip(f"for i = {i}: {_wrong_place(stands, i, listed)}")
        unshared(net, got)
        stand_in = got.get_submodule(names[i])
        if stand_in.norm in list(net.modules()):
            raise Slip("new got a norm of the net, not of the copy; the two share their weights.")
        given = stand_in.rows
        assert isinstance(given, Tensor)
        _right_rows(given, read, i, list(rows_of)[i])
        if _shares_a_picture(given, tested[i]):
            raise Slip(
                "new got rows of test pictures; what is set on them cannot be tested on them."
            )
        _rows_of_training(given, training.rows_read(net, data.train_x)[list(rows_of)[i]])
        if not torch.allclose(got(inputs), want):
            raise Slip("besides the one norm, something else has changed in the copy.")


def one_exchanged(net: nn.Module, i: int, new: Callable) -> nn.Module:
    """The copy; it stands in for the reader's until that is right."""
    return training.swapped(net, training.digits().train_x[:PICTURES], new, only=i)


def _other_gains(net: nn.Module) -> None:
    """Each norm gets a gain of its own, as in a trained net: a fresh norm is another one."""
    norms = [layer for layer in net.modules() if isinstance(layer, layers.RMSNorm)]
    for seed, norm in enumerate(norms):
        norm.weight = nn.Parameter(1 + 0.3 * draw(8, seed=seed).to(norm.weight))


def _exchanged(student: Callable, net: nn.Module, i: int):
    try:
        return student(net, i, _StandIn)
    except TypeError as error:
        if not str(error).endswith("got None."):
            raise
        raise Slip(
            "in_its_place returned None; for the other norms let it return the norm itself."
        ) from None
    except ValueError as error:
        if "found no layer" not in str(error):
            raise
        raise Slip(
            "no norm of the copy was exchanged. Do the norms that you compare belong to net? "
            "Then read the rows from the copy: training.rows_read(copied, ...)."
        ) from None


class _Turned(nn.Sequential):
    """The net, which lists its last layers first: norms 3, 4, 0, 1, 2."""

    LAST = 4

    def __init__(self, net: nn.Sequential) -> None:
        layers_ = list(net)
        super().__init__(*layers_[-self.LAST :], *layers_[: -self.LAST])

    def forward(self, x: Tensor) -> Tensor:
        layers_ = list(self)
        for layer in layers_[self.LAST :] + layers_[: self.LAST]:
            x = layer(x)
        return x


class _StandIn(nn.Module):
    """Computes what the norm does, and keeps the rows that it was given."""

    def __init__(self, norm: nn.Module, rows: Tensor) -> None:
        super().__init__()
        if not isinstance(norm, layers.RMSNorm):
            raise Slip(f"new(norm, rows) got {describe(norm)} as its norm, expected an RMSNorm.")
        if not isinstance(rows, Tensor):
            raise Slip(f"new(norm, rows) got {describe(rows)} as its rows; take read[norm].")
        self.kept = (norm,)  # no child: who walks through net.modules() would walk for ever
        self.rows = rows

    @property
    def norm(self) -> nn.Module:
        return self.kept[0]

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


def _stands_at(net: nn.Module, name: str) -> bool:
    try:
        return isinstance(net.get_submodule(name), _StandIn)
    except AttributeError:
        raise Slip(f"the network that came back has no layer {name}; return the copy.") from None


def _wrong_place(stands: list[int], i: int, listed: list[int]) -> str:
    count = len(listed)
    if stands == [listed[i]]:
        return "you count the norms as the net lists them, not as they read: list(read)[i]."
    if not stands:
        return "no norm was exchanged."
    if len(stands) == count:
        return "all norms were exchanged; for the others return the norm itself."
    if stands == [place for place in range(count) if place != i]:
        return "all norms but this one were exchanged; it is the other way round."
    if stands == [i - 1]:
        return f"norm {stands[0]} was exchanged: the first norm has the number 0, not 1."
    if stands == [count - 1 - i]:
        return "it was counted from the end; norm 0 is the one that reads first."
    return f"exchanged were the norms {stands}, expected [{i}]."


def _right_rows(rows: Tensor, read: list[Tensor], i: int, norm: nn.Module) -> None:
    if not rows.any():
        raise Slip("new got zeros as its rows; it needs those that the norm reads, read[norm].")
    if rows.shape == read[i].shape and torch.allclose(rows, norm(read[i])):
        raise Slip("new got what the norm returns; it needs what the norm reads, read[norm].")
    for place, others in enumerate(read):
        if place != i and rows.shape == others.shape and torch.allclose(rows, others):
            raise Slip(f"new got the rows of norm {place}; it needs those of norm {i}, read[norm].")
    if rows.shape[-1:] != read[i].shape[-1:]:
        raise Slip(
            f"new got rows of shape {tuple(rows.shape)}; it needs those that the norm reads."
        )


def _rows_of_training(rows: Tensor, trained: Tensor) -> None:
    """Each row is one that the norm reads from the training pictures, and none is left out."""
    width = rows.shape[-1]
    tokens = trained.shape[1]
    rows = rows.reshape(-1, width)
    trained = trained.reshape(-1, width)
    for part in rows.to(trained).split(400):
        exact = "donot_use_mm_for_euclid_dist"
        nearest = torch.cdist(part, trained, compute_mode=exact).amin(1)
        if not (nearest < 1e-5).all():
            raise Slip("new got rows that the norm does not read; give it read[norm] as it is.")
    if len(rows) != PICTURES * tokens:
        raise Slip(f"new got {len(rows)} rows; it needs all rows of {PICTURES} training pictures.")


def _shares_a_picture(rows: Tensor, tested: Tensor) -> bool:
    """Whether the rows of the first picture are those of a test picture."""
    if rows.shape[1:] != tested.shape[1:]:
        return False
    return bool(torch.isclose(tested, rows[0]).flatten(1).all(1).any())


@exercise("Exercise 2 (the norm's slope)", "the slope of the DyT at 0")
def gain_for(student: Callable) -> None:
    """student(weight, rho, alpha) -> the gain (D,) with which a DyT has the slope of the norm."""
    cases = [
        {"weight": draw(16, seed=2), "rho": 3.0, "alpha": 0.7},
        {"weight": draw(9, seed=3), "rho": 0.4, "alpha": 0.2},
        {"weight": draw(5, seed=4), "rho": 1.3, "alpha": -0.6},
    ]
    calls(student, norms_gain, *cases, slips=GAINS)


def norms_gain(weight: Tensor, rho: float, alpha: float) -> Tensor:
    """The gain; it stands in for the reader's until that is right."""
    return weight / (rho * alpha)


def _gain_slip(formula: Callable) -> Callable:
    def gain(weight: Tensor, rho: float, alpha: float) -> Tensor:
        root = math.sqrt(len(weight))
        return formula(SimpleNamespace(weight=weight, rho=rho, alpha=alpha, root=root))

    return gain


GAINS = {
    message: _gain_slip(formula)
    for message, formula in {
        "that is the slope of the norm's line. The slope of DyT is the gain times alpha.": (
            lambda v: v.weight / v.rho
        ),
        "alpha upside down: the gain times alpha has to be weight / rho.": (
            lambda v: v.weight * v.alpha / v.rho
        ),
        "rho upside down: the norm divides by rho.": lambda v: v.weight * v.rho / v.alpha,
        "both upside down: the gain times alpha has to be weight / rho.": (
            lambda v: v.weight * v.rho * v.alpha
        ),
        "the fraction is upside down: the gain times alpha has to be weight / rho.": (
            lambda v: v.rho * v.alpha / v.weight
        ),
        "rho and weight have changed places: the norm's line has the slope weight / rho.": (
            lambda v: v.rho / (v.weight * v.alpha)
        ),
        "rho is missing: the norm's line has the slope weight / rho.": (
            lambda v: v.weight / v.alpha
        ),
        "the trained gain is left behind: the norm's line has the slope weight / rho.": (
            lambda v: torch.ones_like(v.weight) / (v.rho * v.alpha)
        ),
        "that is the gain of the opening; its slope is weight * alpha, not weight / rho.": (
            lambda v: v.weight
        ),
        "0.5 is the alpha of one start; take the alpha that is given.": (
            lambda v: 2 * v.weight / v.rho
        ),
        "no sqrt(D) belongs here: the slope of tanh at 0 is 1.": (
            lambda v: v.root * v.weight / (v.rho * v.alpha)
        ),
        "no sqrt(D) below: it belongs to the derived curve; the slope of tanh at 0 is 1.": (
            lambda v: v.weight / (v.rho * v.alpha * v.root)
        ),
        "the sign is lost: the slope has the sign of the weight.": (
            lambda v: v.weight.abs() / (v.rho * v.alpha)
        ),
        "a minus too many: the slope has the sign of the weight.": (
            lambda v: -v.weight / (v.rho * v.alpha)
        ),
        "the sign of alpha is lost: alpha is learned, and may be negative.": (
            lambda v: v.weight / (v.rho * abs(v.alpha))
        ),
        "alpha enters once, not squared.": lambda v: v.weight / (v.rho * v.alpha**2),
        "rho is a root already; no further root.": (lambda v: v.weight / (v.rho**0.5 * v.alpha)),
        "rho enters once, not squared.": lambda v: v.weight / (v.rho**2 * v.alpha),
        "that is the slope of this DyT; find the gain for which it is weight / rho.": (
            lambda v: v.weight * v.alpha
        ),
    }.items()
}


@exercise("Exercise 3 (separate)", "D = 64", "G(0) = 0", "between −8 and 8")
def separation(separated) -> None:
    """g(y) of the separated EQ-DYT-ODE at D = 64, as a SymPy expression in y."""
    import sympy  # takes half a second, and lesson 05 has it already

    y = sympy.Symbol("y", real=True)
    integral = 4 * sympy.log((8 + y) / (8 - y))
    slips = _separated_slips(y) | {"g: this is G; the two answers have changed places.": integral}
    expect(separated, 64 / (64 - y**2), slips, "g")


@exercise("Exercise 3 (integrate)", "D = 64", "G(0) = 0", "between −8 and 8")
def integration(integral) -> None:
    """G(y), the integral of g from 0 to y, as a SymPy expression in y."""
    import sympy

    y = sympy.Symbol("y", real=True)
    want = 4 * sympy.log((8 + y) / (8 - y))
    slips = _integral_slips(sympy.log, y, want)
    slips |= {
        "G: this is y as a function of x; G is a function of y: artanh, or a logarithm.": (
            8 * sympy.tanh(y / 8)
        ),
        "G: the arctangent belongs to 64 + y^2; with the minus sign it is artanh.": (
            8 * sympy.atan(y / 8)
        ),
        "G: artanh(y) ends at y = 1, and G at y = 8; artanh takes y/8.": 8 * sympy.atanh(y),
    }
    if is_expression(integral):
        if integral.has(sympy.Integral):
            raise Slip("G: an Integral is the question; split g into two fractions, on paper.")
        at_zero = integral.subs([(symbol, 0) for symbol in integral.free_symbols])
        if at_zero.is_number and at_zero.is_finite and abs(complex(at_zero)) > 1e-9:
            slips["G(0) is not 0: subtract the constant, then y = 0 lies at x = 0."] = (
                want + at_zero
            )
    expect(integral, want, slips, "G")


def _separated_slips(y) -> dict:
    return {
        "g: this is the bracket itself; it is on the right, so divide by it.": 1 - y**2 / 64,
        "g: the numerator is D = 64 (so each of two fractions has 4 on top, not 1/16).": (
            1 / (64 - y**2)
        ),
        "g: the sign of y^2 is a minus.": 64 / (64 + y**2),
        "g: the two terms of the denominator have changed places.": 64 / (y**2 - 64),
        "g: the numerator is D = 64, not its root.": 8 / (64 - y**2),
        "g: this is D times the bracket; it is on the right, so divide by the bracket.": 64 - y**2,
        "g: that is the fraction with 8 - y twice; the other has 8 + y, since y is squared.": (
            8 / (8 - y)
        ),
        "g: that is the fraction with 8 + y twice; the other one has 8 - y.": 8 / (8 + y),
        "g: y is squared in the equation: the bracket is 1 - y^2/64.": 64 / (64 - y),
        "g: y^2 is divided by D in the equation.": 1 / (1 - y**2),
        "g: y^2 is divided by D, not by its root.": 1 / (1 - y**2 / 8),
        "g: y^2 is divided by D, not by its square.": 1 / (1 - y**2 / 64**2),
        "g: D stands on top, not below.": 1 / (64 * (64 - y**2)),
        "g: A + B = sqrt(D) = 8, so each of the two numerators is 4, not 2.": 32 / (64 - y**2),
        "g: only the fraction with 8 - y is there; add the one with 8 + y.": 4 / (8 - y),
        "g: only the fraction with 8 + y is there; add the one with 8 - y.": 4 / (8 + y),
        "g: A = B, so the two fractions are added.": 4 / (8 - y) - 4 / (8 + y),
        "g: A + B = sqrt(D) = 8, so each of the two numerators is 4, not 1/8.": 2 / (64 - y**2),
        "g: A + B = sqrt(D) = 8, so each of the two numerators is 4.": 2 * 64 / (64 - y**2),
        "g: with the numerators 1 and 1 the sum has 16 on top, not 64.": 16 / (64 - y**2),
        "g: A + B = sqrt(D) = 8, so each of the two numerators is 4, not 32.": 8 * 64 / (64 - y**2),
        "g: 64 - y^2 is (8 - y)(8 + y); here stands y - 8, with the other sign.": (
            4 / (y - 8) + 4 / (y + 8)
        ),
    }


def _integral_slips(log: Callable, y, want) -> dict:
    return {
        "G: the integral of 1/(8 - y) is -ln(8 - y): the derivative of 8 - y is -1.": (
            4 * log(8 - y) + 4 * log(8 + y) - 8 * log(8)
        ),
        "G: that sign again, and G(0) is not 0: the integral of 1/(8 - y) is -ln(8 - y).": (
            4 * log(8 - y) + 4 * log(8 + y)
        ),
        "G: the quotient is upside down; G grows with y.": -want,
        "G: the factor sqrt(D)/2 = 4 is missing.": want / 4,
        "G: the factor is sqrt(D)/2 = 4; yours is 8.": 2 * want,
        "G: the factor is sqrt(D)/2, not D/2.": 8 * want,
        "G: the numerator D = 64 of g is lost: each of the two fractions has 4 on top, not 1/16.": (
            want / 64
        ),
        "G: artanh(y/8) = G / 8; here the factor sqrt(D) is missing.": want / 8,
        "G: the natural logarithm belongs here, not the one to the base 10.": want / math.log(10),
        "G: this is g; integrate it.": 64 / (64 - y**2),
        "G: this is the derivative of g; integrate.": 128 * y / (64 - y**2) ** 2,
        "G: y - 8 is negative between -8 and 8, and has no real logarithm; take 8 - y.": (
            4 * log(8 + y) - 4 * log(y - 8)
        ),
        "G: take 8 - y, whose integral has a minus sign: ln(y - 8) is not real between -8 and 8.": (
            4 * log(y - 8) + 4 * log(y + 8)
        ),
        "G: (y + 8)/(y - 8) is negative between -8 and 8, and has no real logarithm; take 8 - y.": (
            4 * log((y + 8) / (y - 8))
        ),
        "G: the derivative of ln(64 - y^2) has a factor -2y; split g into two fractions first.": (
            64 * log(64 - y**2)
        ),
        "G: one half is missing, that of the fraction with 8 - y.": 4 * log((8 + y) / 8),
        "G: one half is missing, that of the fraction with 8 + y.": -4 * log((8 - y) / 8),
        "G: the fraction with 8 - y is missing, and G(0) is not 0.": 4 * log(8 + y),
        "G: the fraction with 8 + y is missing, and G(0) is not 0.": -4 * log(8 - y),
        "G: 64 - y^2 is (8 - y)(8 + y): in the logarithm stands 8, not 64.": (
            4 * log((64 + y) / (64 - y))
        ),
        "G: artanh takes y/8: with y alone it ends at 1, not at 8.": 4 * log((1 + y) / (1 - y)),
    }


SPIKE = 100.0  # what one number of the first token becomes
KEPT = 90  # percent of RMSNorm's digits without a spike


@exercise(
    "Exercise 4 (a curve of your own)",
    "of two other networks",
    f"keep {KEPT}%",
    f"a spike of {SPIKE:.0f}",
)
def mine(student: Callable) -> str:
    """student(x, R) -> an element-wise function of x, no tanh, in the place of every RMSNorm."""
    x = draw(3, 4, 32, seed=5)
    y = call(student, x=x, R=1.7)
    if not isinstance(y, Tensor) or y.shape != x.shape:
        got = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else describe(y)
        raise Slip(f"{got} came back, expected a tensor of the shape of x, {tuple(x.shape)}.")
    if y.isnan().any():
        raise Slip("NaN came back; x has negative numbers, too.")
    one_by_one = torch.stack([call(student, x=number, R=1.7) for number in x[0, 0]])
    if not torch.allclose(y[0, 0], one_by_one):
        raise Slip("a number's output changes with the other numbers; it may depend on x and R.")
    _no_tanh(student)
    _falls_or_ignores_size(student)
    nets = _other_networks()
    names = sum(_right(net) for net in nets)
    spiked = sum(_right(_with_spike(net)) for net in nets)
    mine_nets = [_with_curve(net, student) for net in nets]
    plain = sum(map(_right, mine_nets))
    held = sum(_right(_with_spike(net)) for net in mine_nets)
    counts = f"in the two networks {plain} right digits without a spike, {held} with it"
    if min(plain, held) < KEPT / 100 * names:
        raise Slip(f"{counts}; {KEPT}% of RMSNorm's {names} are wanted. {_what_it_does(student)}")
    return f"{counts} (RMSNorm: {names} and {spiked})"


def cut_off(x: Tensor, size: float) -> Tensor:
    """A line that is cut off; it stands in for the reader's curve until that is right."""
    return (x / size).clamp(-2, 2)


def _no_tanh(student: Callable) -> None:
    """Slip if the function is height * tanh(slope * x / height)."""
    far, small = 1e6, 1e-6
    points = torch.tensor([far / 10, far, small, 0.5, 1.0, 2.0, 4.0, 8.0])
    farther_in, height, at_small, *between = call(student, x=points, R=1.0)
    if farther_in < 0.99 * height:
        return  # it has no bound
    tanh = height * torch.tanh(at_small / small * points[3:] / height)
    if not (tanh[0] > 0.999 * height) and torch.allclose(torch.stack(between), tanh, rtol=1e-3):
        raise Slip("that is a tanh; take another curve (2 * sigmoid - 1 is a tanh, too).")


def _slope(student: Callable, size: float) -> float:
    below, above = call(student, x=torch.tensor([-1e-3, 1e-3]), R=size).tolist()
    return (above - below) / 2e-3


def _falls_or_ignores_size(student: Callable) -> None:
    at_0 = call(student, x=torch.zeros(1), R=1.0).item()
    if abs(at_0) > 0.1:
        raise Slip(f"at x = 0 your curve is {at_0:.2g}; the norm makes 0 of 0.")
    at_1, at_2 = _slope(student, 1.0), _slope(student, 2.0)
    if at_1 < 0:
        raise Slip("your curve falls near 0, and the norm's line x / R rises.")
    x = draw(50, seed=6)
    if torch.equal(call(student, x=x, R=2.0), call(student, x=x, R=0.5)):
        raise Slip("R is not used; near 0 the norm's line is x / R.")
    if at_2 > 1.01 * at_1:
        raise Slip("R is upside down: the larger R is, the flatter is the norm's line x / R.")


def _what_it_does(student: Callable) -> str:
    """The first thing that is amiss: the slope at 0, or what becomes of the spike."""
    slope = _slope(student, 1.0)
    if not 0.8 < slope < 1.25:
        return f"Near 0 your curve has {slope:.2g} times the slope of the norm's line, x / R."
    at_spike = call(student, x=torch.tensor([SPIKE]), R=1.0).item()
    if abs(at_spike) > 8:
        return f"With R = 1 your curve makes {at_spike:.3g} of a spike of {SPIKE:.0f}."
    at_one, at_two = call(student, x=torch.tensor([1.0, 2.0]), R=1.0).tolist()
    return f"It bends too early: with R = 1 it makes {at_one:.2g} of 1, and {at_two:.2g} of 2."


@functools.cache
def _other_networks() -> list[nn.Module]:
    """Two networks as in the lesson, from other starts."""
    train = functools.partial(
        training.train, steps=80, optimizer="adam", lr=1e-2, warmup=10, batch_size=32
    )
    nets: list[nn.Module] = []
    for seed in (5, 6):
        norm = functools.partial(layers.RMSNorm, eps=1e-5)
        net = training.transformer(norm, depth=2, width=32, seed=seed)
        with torch.enable_grad():
            train(net, training.digits(), seed=seed)
        nets.append(net)
    return nets


def _right(net: nn.Module) -> int:
    data = training.digits()
    return round(len(data.test_x) * training.accuracy(net, data.test_x, data.test_y))


def _with_curve(net: nn.Module, student: Callable) -> nn.Module:
    def new(norm: nn.Module, rows: Tensor) -> nn.Module:
        return _Curve(student, norm, swaps.size(rows))

    return training.swapped(net, training.digits().train_x[:PICTURES], new)


class _Curve(nn.Module):
    def __init__(self, student: Callable, norm: nn.Module, size: float) -> None:
        super().__init__()
        self.student = student
        self.weight = norm.weight
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * call(self.student, x=x, R=self.size)


def _with_spike(net: nn.Module) -> nn.Module:
    """The net, in which one number of each picture's first token is SPIKE."""
    copied = copy.deepcopy(net)
    assert isinstance(copied, nn.Sequential)
    copied.insert(3, _Spike())
    return copied


class _Spike(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        picture = torch.arange(len(x))
        x[picture, 0, picture % x.shape[-1]] = SPIKE
        return x
