"""Checks of lesson 05: the separated equation, another curve, RMSNorm to DyT, a network swapped.

Tables map what a check says to the wrong answer that earns it; v holds the values of one call.
"""

import copy
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from normcourse import draw, training
from normcourse.checks.probes import calls, same_gradients, unshared
from normcourse.checks.values import describe, is_expression
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normlib import layers, surgery


@exercise("Exercise 1 (separate and integrate)", "D = 64", "G(0) = 0", "between −8 and 8")
def separation(separated, integral) -> None:
    """g(y) and G(y) of the separated EQ-DYT-ODE at D = 64, as SymPy expressions in y."""
    import sympy  # takes half a second, and lesson 05 has it already

    y = sympy.Symbol("y", real=True)
    want = 4 * sympy.log((8 + y) / (8 - y))
    about_g = _separated_slips(y) | {"g: this is G; the two answers have changed places.": want}
    expect(separated, 64 / (64 - y**2), about_g, "g")
    slips = _integral_slips(sympy.log, y, want)
    slips |= {
        "G: this is y as a function of x; G is a function of y: artanh, or a logarithm.": (
            8 * sympy.tanh(y / 8)
        ),
        "G: the arctangent belongs to 64 + y^2; with the minus sign it is artanh.": (
            8 * sympy.atan(y / 8)
        ),
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
        "g: the numerator is D = 64; multiply numerator and denominator by D.": 1 / (64 - y**2),
        "g: the sign of y^2 is a minus.": 64 / (64 + y**2),
        "g: the two terms of the denominator have changed places.": 64 / (y**2 - 64),
        "g: y is squared in the equation.": 8 / (8 - y),
        "g: y^2 is divided by D in the equation.": 1 / (1 - y**2),
        "g: y^2 is divided by D, not by its root.": 1 / (1 - y**2 / 8),
        "g: only the fraction with 8 - y is there; add the one with 8 + y.": 4 / (8 - y),
        "g: only the fraction with 8 + y is there; add the one with 8 - y.": 4 / (8 + y),
        "g: A + B = sqrt(D) = 8, so each of the two numerators is 4.": 2 * 64 / (64 - y**2),
        "g: with the numerators 1 and 1 the sum has 16 on top, not 64.": 16 / (64 - y**2),
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
        "G: the factor is sqrt(D)/2 = 4, half of that.": 2 * want,
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
        "G: the derivative of ln(64 - y^2) has a factor -2y; split g into two fractions first.": (
            64 * log(64 - y**2)
        ),
        "G: one half is missing, that of the fraction with 8 - y.": 4 * log((8 + y) / 8),
        "G: one half is missing, that of the fraction with 8 + y.": -4 * log((8 - y) / 8),
    }


@exercise(
    "Exercise 2 (another curve)",
    r"y' = \frac{1}{\rho} (1 - \lvert y \rvert / \sqrt{D})",
    "y = 0 at x = 0",
    r"x \geq 0",
)
def another_curve(student: Callable) -> None:
    """student(x, rho, width): the solution of y' = (1 - |y| / sqrt(D)) / rho with y(0) = 0."""
    with_zeros = torch.tensor([0.0, 2.0, -0.5, -0.0, 0.3], dtype=torch.float64)
    cases = [
        {"x": 3 * draw(3, 5, seed=5), "rho": 1.7, "width": 9},
        {"x": with_zeros, "rho": 0.9, "width": 4},
        {"x": 2 * draw(2, 3, 4, seed=6), "rho": 0.6, "width": 16},
    ]
    slips = {message: _curve(wrong) for message, wrong in CURVES.items()}
    reference = _curve(lambda v: v.sign * v.level * (1 - torch.exp(-v.size / (v.rho * v.level))))
    calls(student, reference, *cases, slips=slips)
    same_gradients(student, reference, cases[0])


def _curve(formula: Callable) -> Callable:
    """A function of (x, rho, width) from one of v: x, its sign and size, rho, level sqrt(D)."""

    def curve(x: Tensor, rho: float, width: int) -> Tensor:
        level = math.sqrt(width)
        return formula(SimpleNamespace(x=x, sign=x.sign(), size=x.abs(), rho=rho, level=level))

    return curve


CURVES = {
    "for x < 0 the slope has to fall, too: the curve is odd, y(-x) = -y(x).": lambda v: (
        v.level * (1 - torch.exp(-v.x / (v.rho * v.level)))
    ),
    "y has the sign of x; your curve is the same on both sides.": lambda v: (
        v.level * (1 - torch.exp(-v.size / (v.rho * v.level)))
    ),
    "for x < 0 your curve is 0; it has to mirror the other side.": lambda v: (
        v.level * (1 - torch.exp(-v.x.clamp(min=0) / (v.rho * v.level)))
    ),
    "the integral of 1/(sqrt(D) - y) has a minus sign; yours grows without limit.": lambda v: (
        v.sign * v.level * (torch.exp(v.size / (v.rho * v.level)) - 1)
    ),
    "the constant: y = 0 at x = 0, so the 1 in front of the exponential stays.": lambda v: (
        -v.sign * v.level * torch.exp(-v.size / (v.rho * v.level))
    ),
    "the constant: at x = 0 the output has to be 0; then sqrt(D) multiplies the exponential, "
    "too.": lambda v: v.sign * (v.level - torch.exp(-v.size / (v.rho * v.level))),
    "that is the curve of the lesson; here |y| stands in the equation, not y^2.": lambda v: (
        v.level * torch.tanh(v.x / (v.rho * v.level))
    ),
    "the factor sqrt(D) in front is missing: where is the slope 0?": lambda v: (
        v.sign * (1 - torch.exp(-v.size / (v.rho * v.level)))
    ),
    "sqrt(D) is missing inside: the slope at 0 has to be 1/rho.": lambda v: (
        v.sign * v.level * (1 - torch.exp(-v.size / v.rho))
    ),
    "inside, sqrt(D) divides x; you multiply by it.": lambda v: (
        v.sign * v.level * (1 - torch.exp(-v.size * v.level / v.rho))
    ),
    "sqrt(D) is missing, inside and in front.": lambda v: v.sign * (1 - torch.exp(-v.size / v.rho)),
    "rho is missing: the slope at 0 has to be 1/rho.": lambda v: (
        v.sign * v.level * (1 - torch.exp(-v.size / v.level))
    ),
    "a larger rho means a smaller slope: rho divides x.": lambda v: (
        v.sign * v.level * (1 - torch.exp(-v.size * v.rho / v.level))
    ),
    "the root of D, not D.": lambda v: (
        v.sign * v.level**2 * (1 - torch.exp(-v.size / (v.rho * v.level**2)))
    ),
    "the sign in the exponential is a minus: yours falls without limit.": lambda v: (
        v.sign * v.level * (1 - torch.exp(v.size / (v.rho * v.level)))
    ),
    "the ends are right, but its slope falls as (1 - |y| / sqrt(D))^2: solve, do not guess.": (
        lambda v: v.x / v.rho / (1 + v.size / (v.rho * v.level))
    ),
    "that is the line of a size frozen altogether.": lambda v: v.x / v.rho,
    "at x = 0 yours is NaN, and y is 0 there: x / x.abs() has no value at 0; take x.sign().": (
        lambda v: v.x / v.size * v.level * (1 - torch.exp(-v.size / (v.rho * v.level)))
    ),
}


@exercise("Exercise 3 (RMSNorm to the paper's DyT)", "the alpha (1,)", r"\kappa = 1")
def to_paper_form(student: Callable) -> None:
    """student(weight, rho) -> (alpha (1,), weight (D,)).

    [EQ-DYT-SOLUTION] [EQ-DYT]
    """

    def tensors(weight: Tensor, rho: float) -> tuple:
        alpha, gain = parts(student(weight, rho), "alpha", "weight")
        if isinstance(alpha, float):
            alpha = weight.new_full((1,), alpha)
        return alpha, gain

    cases = [{"weight": draw(16, seed=2), "rho": 3.0}, {"weight": draw(9, seed=3), "rho": 0.4}]
    slips = {text: _paper_slip(alpha=wrong) for text, wrong in PAPER_ALPHA.items()}
    slips |= {text: _paper_slip(gain=wrong) for text, wrong in PAPER_WEIGHT.items()}
    calls(tensors, _paper_slip(), *cases, slips=slips, what=("alpha", "weight"))


def _paper_slip(alpha: Callable | None = None, gain: Callable | None = None) -> Callable:
    """The right answer, but for what is given; wrong functions take (weight, rho, root of D)."""
    alpha = alpha or (lambda weight, rho, root: 1 / (rho * root))
    gain = gain or (lambda weight, rho, root: weight * root)

    def answer(weight: Tensor, rho: float) -> tuple[Tensor, Tensor]:
        root = math.sqrt(len(weight))
        return weight.new_full((1,), alpha(weight, rho, root)), gain(weight, rho, root)

    return answer


PAPER_ALPHA = {
    "alpha: 1/rho belongs to kappa = sqrt(D); for kappa = 1 it is divided by sqrt(D).": (
        lambda weight, rho, root: 1 / rho
    ),
    "alpha: sqrt(D) divides x inside tanh, so it divides alpha.": (
        lambda weight, rho, root: root / rho
    ),
    "alpha: rho divides x; a larger rho means a smaller alpha.": (
        lambda weight, rho, root: rho / root
    ),
    "alpha: upside down: rho and sqrt(D) both divide x.": lambda weight, rho, root: rho * root,
    "alpha: 8 is the root of 64; take the root of len(weight).": lambda weight, rho, root: (
        1 / (rho * 8)
    ),
    "alpha: the root of D, not D.": lambda weight, rho, root: 1 / (rho * root**2),
    "alpha: 0.5 is the start of the paper, not the derived curve.": lambda weight, rho, root: 0.5,
    "alpha: rho is a root already; no further root.": lambda weight, rho, root: (
        1 / (rho**0.5 * root)
    ),
    "alpha: rho enters once, not squared.": lambda weight, rho, root: 1 / (rho**2 * root),
    "alpha: rho is missing.": lambda weight, rho, root: 1 / root,
}
PAPER_WEIGHT = {
    "weight: the curve ends at |w| sqrt(D); with this gain it ends at |w|, and its slope at 0 is "
    "sqrt(D) times too small.": lambda weight, rho, root: weight,
    "weight: the trained gain is left behind; it multiplies sqrt(D).": lambda weight, rho, root: (
        torch.full_like(weight, root)
    ),
    "weight: the trained gain is left behind, and sqrt(D) is missing.": lambda weight, rho, root: (
        torch.ones_like(weight)
    ),
    "weight: multiply by sqrt(D); alpha is what is divided.": lambda weight, rho, root: (
        weight / root
    ),
    "weight: the root of D, not D.": lambda weight, rho, root: weight * root**2,
    "weight: rho is in alpha already; the curve ends at |w| sqrt(D) for each rho.": (
        lambda weight, rho, root: weight * root / rho
    ),
}


@exercise("Exercise 4 (the swap)", "the five networks", "you may not train", "data.train_x[:100]")
def swap(student: Callable) -> None:
    """student(net, pictures) -> a copy of the Transformer with DyT in the place of each RMSNorm."""
    swapped = []
    for seed, (depth, width) in enumerate(((1, 16), (2, 24))):
        net = _restless(depth, width, seed)
        pictures = draw(40, 64, seed=20 + seed)
        before = copy.deepcopy(net.state_dict())
        got = student(net, pictures.clone())
        _check_swapped(got, net, before)
        swapped.append((net, pictures, got))
    for message, wrong in SWAPS.items():
        if all(
            torch.allclose(got(pictures), _converted(net, pictures, **wrong)(pictures))
            for net, pictures, got in swapped
        ):
            raise Slip(message)
    for net, pictures, got in swapped:
        want = net(pictures).detach()
        off = _off(got(pictures).detach(), want)
        derived = _off(_converted(net, pictures)(pictures), want)
        if not off <= 1.3 * derived:
            raise Slip(
                f"the answers are off by {off:.2f} of their size; "
                f"with the derived constants it is {derived:.2f}. Print α and the gain of each DyT."
            )
        unshared(net, got)


def _restless(depth: int, width: int, seed: int) -> nn.Module:
    """A network as training leaves it: with gains, biases and sizes of its own."""
    net = training.transformer(layers.RMSNorm, depth=depth, width=width, heads=2, seed=seed)
    with torch.no_grad():
        blocks = [module for module in net if isinstance(module, training.Block)]
        for block in blocks:  # the stream grows from norm to norm
            writer = [m for m in block.branch.modules() if isinstance(m, nn.Linear)][-1]
            writer.weight.mul_(4)
        for number, module in enumerate(net.modules()):
            if isinstance(module, layers.RMSNorm):
                for gain in module.parameters():
                    gain.copy_(1.5 + 0.3 * draw(width, seed=30 + number))
    return net


def _check_swapped(got, net: nn.Module, before: dict) -> None:
    after = net.state_dict()
    if list(after) != list(before) or any(not torch.equal(after[k], before[k]) for k in before):
        raise Slip("the net that was passed in has changed. Work on copy.deepcopy(net).")
    if not isinstance(got, nn.Module):
        raise Slip(f"expected a network, got {describe(got)}. Return the copy.")
    kinds = [type(module).__name__ for module in got.modules()]
    norms = [type(module).__name__ for module in net.modules()].count("RMSNorm")
    if "RMSNorm" in kinds:
        raise Slip(f"{kinds.count('RMSNorm')} of {norms} RMSNorm are left, the last norm included.")
    if kinds.count("DyT") != norms:
        raise Slip(f"expected {norms} layers.DyT, found {kinds.count('DyT')}.")
    for name, looked_at in (("the net that was passed in", net), ("the copy", got)):
        if any(m._forward_pre_hooks or m._forward_hooks for m in looked_at.modules()):
            raise Slip(f"your hooks are still on {name}: call handle.remove().")
    if any(module.scale != 1 for module in got.modules() if isinstance(module, layers.DyT)):
        raise Slip("the paper's form has the scale 1: leave `scale` out and fold it (exercise 3).")


def _off(logits: Tensor, want: Tensor) -> float:
    return ((logits - want).norm() / want.norm()).item()


def _converted(net: nn.Module, pictures: Tensor, **wrong) -> nn.Module:
    """The net with DyT in it; `wrong` replaces alpha or gain, functions of what is known."""
    known: Iterator[SimpleNamespace] = iter(_known(net, pictures))

    def new(norm) -> nn.Module:
        v = next(known)
        alpha = wrong.get("alpha", lambda v: 1 / (v.rho * v.root))(v)
        gain = wrong.get("gain", lambda v: v.gain * v.root)(v)
        dyt = layers.DyT(len(norm.weight), alpha_init=alpha, bias=False)
        dyt.weight = nn.Parameter(gain.detach())
        return dyt

    return surgery.replace(copy.deepcopy(net), layers.RMSNorm, new)[0]


@torch.no_grad()
def _known(net: nn.Module, pictures: Tensor) -> list[SimpleNamespace]:
    """Of each norm, in order: the size of its rows, of the first norm's rows, the gain, ..."""
    found: list[SimpleNamespace] = []

    def note(norm, inputs: tuple) -> None:
        rows = inputs[0]
        rho = rows.square().mean().sqrt().item()
        first = found[0].rho if found else rho
        found.append(
            SimpleNamespace(
                rho=rho,
                first=first,
                put_out=norm.forward(rows).square().mean().sqrt().item(),
                length=rows.square().sum(-1).mean().sqrt().item(),
                lengths=rows.norm(dim=-1).mean().item(),
                spread=rows.std().item(),
                spreads=rows.std(-1).mean().item(),
                absolute=rows.abs().mean().item(),
                gain=norm.weight,
                root=math.sqrt(len(norm.weight)),
            )
        )

    norms = [module for module in net.modules() if isinstance(module, layers.RMSNorm)]
    handles = [norm.register_forward_pre_hook(note) for norm in norms]
    net(pictures)
    for handle in handles:
        handle.remove()
    of_all = sum(v.rho for v in found) / len(found)
    for v, mirrored in zip(found, reversed(found), strict=True):
        v.mirrored = mirrored.rho
        v.of_all = of_all
    return found


SWAPS = {
    "that is the DyT of the opening: α = 0.5, and the gain as it was.": {
        "alpha": lambda v: 0.5,
        "gain": lambda v: v.gain,
    },
    "the gain is right, and α is still 0.5: it needs the size of the rows.": {
        "alpha": lambda v: 0.5
    },
    "α is right; the gain has to be multiplied by sqrt(D), or the curve ends too low.": {
        "gain": lambda v: v.gain
    },
    "the trained gain is left behind: it multiplies sqrt(D).": {
        "gain": lambda v: torch.full_like(v.gain, v.root)
    },
    "the trained gain is left behind, and sqrt(D) is missing.": {
        "gain": lambda v: torch.ones_like(v.gain)
    },
    "α is 1/ρ, which belongs to the scale sqrt(D); in the paper's form it is divided by it.": {
        "alpha": lambda v: 1 / v.rho
    },
    "neither constant is folded: α = 1/ρ and the old gain belong to no form of the curve.": {
        "alpha": lambda v: 1 / v.rho,
        "gain": lambda v: v.gain,
    },
    "each norm reads rows of its own size; you use the first norm's for all.": {
        "alpha": lambda v: 1 / (v.first * v.root)
    },
    "each norm reads rows of its own size; you use the mean of all sizes.": {
        "alpha": lambda v: 1 / (v.of_all * v.root)
    },
    "the size of rows of 1 is not theirs: ρ is missing in α.": {"alpha": lambda v: 1 / v.root},
    "ρ is upside down: larger rows need a smaller α.": {"alpha": lambda v: v.rho / v.root},
    "ρ is the ROOT mean square; you took the mean square.": {
        "alpha": lambda v: 1 / (v.rho**2 * v.root)
    },
    "ρ is the size of what a norm reads; you took the size of what it puts out.": {
        "alpha": lambda v: 1 / (v.put_out * v.root)
    },
    "the sizes are in the wrong order: the first norm's belongs to the first norm.": {
        "alpha": lambda v: 1 / (v.mirrored * v.root)
    },
    "ρ is the root MEAN square; you took the length of a row.": {
        "alpha": lambda v: 1 / (v.length * v.root)
    },
    "ρ is the root MEAN square; you took the mean length of a row.": {
        "alpha": lambda v: 1 / (v.lengths * v.root)
    },
    "ρ is the root mean SQUARE; you took the mean of the absolute values.": {
        "alpha": lambda v: 1 / (v.absolute * v.root)
    },
    "the standard deviation leaves out the mean; RMSNorm divides by the root mean square.": {
        "alpha": lambda v: 1 / (v.spread * v.root)
    },
    "the standard deviation of a row leaves out its mean; "
    "RMSNorm divides by the root mean square.": {"alpha": lambda v: 1 / (v.spreads * v.root)},
    "32 is the width of the networks on the page; here take it from the gain.": {
        "alpha": lambda v: 1 / (v.rho * math.sqrt(32)),
        "gain": lambda v: v.gain * math.sqrt(32),
    },
}
