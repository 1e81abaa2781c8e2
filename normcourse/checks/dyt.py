"""Checks of lesson 05: one norm exchanged, a gain for a slope, the separated equation, an error.

Tables map what a check says to the wrong answer that earns it; v holds the values of one call.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from normcourse import draw, training
from normcourse.checks.probes import calls, unshared
from normcourse.checks.values import describe, is_expression
from normcourse.checks.verdict import Slip, exercise, expect
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
        given = got.get_submodule(names[i]).rows
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
        self.norm = norm
        self.rows = rows

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
    if len(rows) < PICTURES * tokens:
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


@exercise("Exercise 4 (the error of a curve)")
def error_of(student: Callable) -> None:
    """student(curve, y) -> (error, gain): |gain curve - y| / |y| with the best gain, and the gain.

    [EQ-RELATIVE-ERROR]
    """
    cases = [_values_of_a_curve(6, 5), _values_of_a_curve(9, 4, seed=2)]
    calls(student, error_with_gain, *cases, slips=CURVE_SLIPS, what=("error", "gain"))


def _values_of_a_curve(*shape: int, seed: int = 0) -> dict:
    x = draw(*shape, seed=seed) + 0.2
    noise = 0.3 * draw(*shape, seed=seed + 1)
    return {"curve": torch.tanh(x), "y": 1.7 * x + noise}


def error_with_gain(curve: Tensor, y: Tensor) -> tuple[float, float]:
    """The error with the best gain, and that gain; it stands in until the reader's is right."""
    return _error_with((curve * y).sum() / curve.square().sum(), curve, y)


def _error_with(gain: Tensor, curve: Tensor, y: Tensor) -> tuple[float, float]:
    """The error with this gain."""
    return ((gain * curve - y).norm() / y.norm()).item(), gain.item()


def _gain_slip_of(formula: Callable) -> Callable:
    return lambda curve, y: _error_with(formula(curve, y), curve, y)


def _error_slip(formula: Callable) -> Callable:
    """The right gain; and this formula of gain * curve, of y and of the curve as the error."""

    def wrong(curve: Tensor, y: Tensor) -> tuple[float, float]:
        _, gain = error_with_gain(curve, y)
        return formula(gain * curve, y, curve).item(), gain

    return wrong


def _centred_gain(curve: Tensor, y: Tensor) -> Tensor:
    centred = curve - curve.mean()
    return (centred * y).sum() / centred.square().sum()


CURVE_SLIPS: dict[str, Callable] = {
    "no gain: multiply the curve by the number that brings it nearest to y.": _gain_slip_of(
        lambda curve, y: torch.ones(())
    ),
    "the sign of the gain is turned round: with that gain the curve runs away from y.": (
        _gain_slip_of(lambda curve, y: -(curve * y).sum() / curve.square().sum())
    ),
    "the gain is half of the best one: the derivative of the squares has a 2 on both sides.": (
        _gain_slip_of(lambda curve, y: (curve * y).sum() / curve.square().sum() / 2)
    ),
    "no mean is subtracted before the gain: sum of curve * y over the sum of curve^2.": (
        _gain_slip_of(_centred_gain)
    ),
    "the gain is upside down: sum of curve * y over the sum of curve^2.": _gain_slip_of(
        lambda curve, y: curve.square().sum() / (curve * y).sum()
    ),
    "below stands the sum of curve^2, not of y^2: the gain multiplies the curve.": _gain_slip_of(
        lambda curve, y: (curve * y).sum() / y.square().sum()
    ),
    "that gain brings y nearest to the curve, turned round: least squares of gain * curve - y.": (
        _gain_slip_of(lambda curve, y: y.square().sum() / (curve * y).sum())
    ),
    "equal lengths are not least squares: put the derivative by the gain to 0.": _gain_slip_of(
        lambda curve, y: y.norm() / curve.norm()
    ),
    "a mean of y / curve is ruled by numbers near 0: least squares of gain * curve - y.": (
        _gain_slip_of(lambda curve, y: (y / curve).mean())
    ),
    "one gain for all rows together, not the mean of the gains of the rows.": _gain_slip_of(
        lambda curve, y: ((curve * y).sum(1) / curve.square().sum(1)).mean()
    ),
    "a median of y / curve is not least squares.": _gain_slip_of(
        lambda curve, y: (y / curve).median()
    ),
    "equal standard deviations are not least squares: put the derivative by the gain to 0.": (
        _gain_slip_of(lambda curve, y: y.std() / curve.std())
    ),
    "sums of the numbers are not least squares: multiply by the curve before you sum.": (
        _gain_slip_of(lambda curve, y: y.sum() / curve.sum())
    ),
    "equal largest numbers are not least squares.": _gain_slip_of(
        lambda curve, y: y.abs().max() / curve.abs().max()
    ),
    "the gain is right, and not in the error: the length of gain * curve - y.": _error_slip(
        lambda best, y, curve: (curve - y).norm() / y.norm()
    ),
    "error: that is the length of a sum; the difference is gain * curve - y.": _error_slip(
        lambda best, y, curve: (best + y).norm() / y.norm()
    ),
    "error: divide by the length of y, not of the curve.": _error_slip(
        lambda best, y, curve: (best - y).norm() / best.norm()
    ),
    "error: divide by the length of y, not of the curve before its gain.": _error_slip(
        lambda best, y, curve: (best - y).norm() / curve.norm()
    ),
    "error: the root is missing; lengths are asked for, not their squares.": _error_slip(
        lambda best, y, curve: (best - y).square().sum() / y.square().sum()
    ),
    "error: that is the length of the difference; divide by the length of y.": _error_slip(
        lambda best, y, curve: (best - y).norm()
    ),
    "error: that is a root mean square; divide by the one of y.": _error_slip(
        lambda best, y, curve: (best - y).square().mean().sqrt()
    ),
    "error: a length is the root of the sum of squares, not the sum of the sizes.": _error_slip(
        lambda best, y, curve: (best - y).abs().sum() / y.abs().sum()
    ),
    "error: a length is the root of the sum of squares, not the largest number.": _error_slip(
        lambda best, y, curve: (best - y).abs().max() / y.abs().max()
    ),
    "error: one length of all rows together, not the mean over rows.": _error_slip(
        lambda best, y, curve: ((best - y).norm(dim=1) / y.norm(dim=1)).mean()
    ),
    "the order is (error, gain).": lambda curve, y: error_with_gain(curve, y)[::-1],
}
