"""Checks of lesson 00: one layer's factor, the residual block, a norm.

Each table maps what a check says to the wrong answer that earns it.
"""

import math
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.nn import functional

from normcourse import draw, training
from normcourse.checks.probes import calls, same_gradients
from normcourse.checks.values import describe
from normcourse.checks.verdict import (
    FLOAT32,
    Slip,
    exercise,
)
from normlib import layers

WIDTH, DEPTH = 64, 30
FACTORS = {  # of n inputs and the variance v
    "that is the factor of the MEAN SQUARE; the scale is its root.": lambda n, v: n * v / 2,
    "ReLU is missing: it keeps half of the mean square.": lambda n, v: math.sqrt(n * v),
    "ReLU is missing, and so is the root.": lambda n, v: n * v,
    "ReLU halves the MEAN SQUARE, not the scale: the 1/2 belongs under the root.": (
        lambda n, v: math.sqrt(n * v) / 2
    ),
    "n is missing: z is a sum of n products.": lambda n, v: math.sqrt(v / 2),
    "z is a sum of n products, not their mean: multiply by n.": lambda n, v: math.sqrt(v / n / 2),
    "v is the variance already, not the standard deviation: do not square it.": (
        lambda n, v: v * math.sqrt(n / 2)
    ),
    "that is the factor with 64 inputs; use the n that is given.": lambda n, v: math.sqrt(32 * v),
    "squares add up, so n belongs under the root as well.": lambda n, v: n * math.sqrt(v / 2),
    "that is one over the factor.": lambda n, v: math.sqrt(2 / (n * v)),
    "that is the variance for which the factor is 1; the question is the factor for any v.": (
        lambda n, v: 2 / n
    ),
    "that is the standard deviation for which the factor is 1; the question is the factor for any "
    "v.": lambda n, v: math.sqrt(2 / n),
    "that is the standard deviation of the output; the scale does not subtract the mean.": (
        lambda n, v: math.sqrt(n * v * (1 / 2 - 1 / (2 * math.pi)))
    ),
    "that is the mean of the output; the scale is its root mean square.": (
        lambda n, v: math.sqrt(n * v / (2 * math.pi))
    ),
    "ReLU keeps half of the mean square; it does not double it.": lambda n, v: math.sqrt(2 * n * v),
    "a third of 1/n is PyTorch's default; use the v that is given.": lambda n, v: math.sqrt(1 / 6),
    "0.408 is the factor with PyTorch's default; use the v that is given.": lambda n, v: 0.408,
    "the 1/3 belongs to PyTorch's default; v is the variance already.": (
        lambda n, v: math.sqrt(n * v / 6)
    ),
    "only v is under your root: n and the 1/2 belong there as well.": (
        lambda n, v: n * math.sqrt(v) / 2
    ),
    "that is the factor of thirty layers; the question is one layer.": lambda n, v: (
        (n * v / 2) ** 15
    ),
}
LAYERS = [{"n": 64, "v": 0.01}, {"n": 9, "v": 0.7}]
INPUTS = [{"n": 64}, {"n": 9}]
STEADY = {  # of n inputs
    "that is the standard deviation; the variance is its square.": lambda n: math.sqrt(2 / n),
    "ReLU is missing: it keeps half of the mean square.": lambda n: 1 / n,
    "ReLU halves the mean square, so the variance has to double: 2, not 1/2.": (
        lambda n: 1 / (2 * n)
    ),
    "that is one over the variance.": lambda n: n / 2,
    "n is missing: z is a sum of n products.": lambda n: 2.0,
    "the factor is the root of n v / 2; it is 1 where n v / 2 is 1.": lambda n: 4 / n,
    "that is PyTorch's default, for which the factor is not 1.": lambda n: 1 / (3 * n),
    "that is a standard deviation, and without ReLU; ReLU keeps half of the mean square.": (
        lambda n: 1 / math.sqrt(n)
    ),
    "the 3 belongs to PyTorch's default; ReLU halves the mean square, so take 2.": lambda n: 3 / n,
    "that is the factor, 1; the question is the variance.": lambda n: 1.0,
    "the sum of n products has n times the variance of one: divide by n once.": (
        lambda n: 2 / n**2
    ),
    "that is the bound of a uniform draw with He's variance; the question is the variance.": (
        lambda n: math.sqrt(6 / n)
    ),
    "that is the square of a uniform draw's bound; its variance is a third of this square.": (
        lambda n: 6 / n
    ),
}
BLOCKS = {  # of h, norm, linear
    "the residual connection carries h itself; yours adds the NORMALIZED h.": (
        lambda h, norm, linear: norm(h) + torch.relu(linear(norm(h)))
    ),
    "the norm comes first in the branch; yours comes after the sum.": (
        lambda h, norm, linear: norm(h + torch.relu(linear(h)))
    ),
    "the norm comes first in the branch; yours comes last.": (
        lambda h, norm, linear: h + norm(torch.relu(linear(h)))
    ),
    "the norm comes before the Linear; yours comes between Linear and ReLU, as in a plain net.": (
        lambda h, norm, linear: h + torch.relu(norm(linear(h)))
    ),
    "the ReLU is missing: the branch is Linear, then ReLU.": lambda h, norm, linear: (
        h + linear(norm(h))
    ),
    "the ReLU belongs to the branch, before the sum; after it, it cuts h as well.": (
        lambda h, norm, linear: torch.relu(h + linear(norm(h)))
    ),
    "the residual connection is missing: add h.": lambda h, norm, linear: torch.relu(
        linear(norm(h))
    ),
    "the norm belongs to the branch; yours normalizes what bypasses it.": lambda h, norm, linear: (
        norm(h) + torch.relu(linear(h))
    ),
    "one norm is enough, at the start of the branch; yours has one at its end as well.": (
        lambda h, norm, linear: h + norm(torch.relu(linear(norm(h))))
    ),
    "one norm is enough, at the start of the branch; yours has a second one after the Linear.": (
        lambda h, norm, linear: h + torch.relu(norm(linear(norm(h))))
    ),
    "the branch is Linear, then ReLU; yours has a GELU.": lambda h, norm, linear: (
        h + functional.gelu(linear(norm(h)))
    ),
    "the norm is missing: the branch gets norm(h).": lambda h, norm, linear: (
        h + torch.relu(linear(h))
    ),
    "the bias of the Linear is missing: call linear(...), not its weight alone.": (
        lambda h, norm, linear: h + torch.relu(norm(h) @ linear.weight.T)
    ),
    "use the norm that is given, self.norm(h); yours normalizes without its gain and bias.": (
        lambda h, norm, linear: h + torch.relu(linear(functional.layer_norm(h, h.shape[-1:])))
    ),
    "the sum is not halved: h + F(norm(h)).": lambda h, norm, linear: (
        (h + torch.relu(linear(norm(h)))) / 2
    ),
    "the sum is not divided by the root of 2: h + F(norm(h)).": lambda h, norm, linear: (
        (h + torch.relu(linear(norm(h)))) / math.sqrt(2)
    ),
    "the branch is Linear, then ReLU; yours has a tanh.": lambda h, norm, linear: (
        h + torch.tanh(linear(norm(h)))
    ),
    "the branch is Linear, then ReLU; yours has a leaky ReLU.": lambda h, norm, linear: (
        h + functional.leaky_relu(linear(norm(h)))
    ),
    "the branch is Linear, then ReLU; yours has a sigmoid.": lambda h, norm, linear: (
        h + torch.sigmoid(linear(norm(h)))
    ),
    "norm(h) goes into the branch only; yours is added to the sum as well.": (
        lambda h, norm, linear: h + norm(h) + torch.relu(linear(norm(h)))
    ),
    "the branch is added, not subtracted.": lambda h, norm, linear: h - torch.relu(linear(norm(h))),
    "the Linear comes first in the branch, then the ReLU.": lambda h, norm, linear: (
        h + linear(torch.relu(norm(h)))
    ),
    "one norm is enough, at the start of the branch; yours has one after the sum as well.": (
        lambda h, norm, linear: norm(h + torch.relu(linear(norm(h))))
    ),
    "norm and residual connection are missing; that is the plain layer.": lambda h, norm, linear: (
        torch.relu(linear(h))
    ),
    "h is added twice.": lambda h, norm, linear: 2 * h + torch.relu(linear(norm(h))),
    "the branch is added, not multiplied.": lambda h, norm, linear: h * torch.relu(linear(norm(h))),
}


@exercise(
    "Exercise 1 (one layer's factor)",
    "the variance of the weights for which this factor is 1",
    "initializes the thirty layers with your variance",
)
def factor(student, steady) -> str:
    """student(n, v): what Linear and ReLU multiply the scale by, on average over random weights.

    steady(n): the variance for which this factor is 1. Returns, in words, what it does to the net.
    """
    # .item() of a tensor in float32 is a Python number: its dtype cannot be seen
    calls(
        student,
        lambda n, v: math.sqrt(n * v / 2),
        *LAYERS,
        slips=FACTORS,
        what="the factor",
        rtol=FLOAT32,
    )
    if _unwritten(steady):
        raise Slip("factor is right; now write steady(n).")
    calls(steady, lambda n: 2 / n, *INPUTS, slips=STEADY, what="steady", rtol=FLOAT32)
    default = 1 / (3 * WIDTH)
    first, last = _scales(default)
    measured = (last / first) ** (1 / (DEPTH - 1))
    return (
        f"with PyTorch's default your factor is {float(student(WIDTH, default)):.3f}, and the "
        f"network's is {measured:.2f}. With your variance the scale after thirty layers is "
        f"{_scales(float(steady(WIDTH)))[1]:.1f} instead of {last:.0e}."
    )


def _unwritten(steady) -> bool:
    """Whether the second of two functions is still the stub."""
    try:
        return steady(WIDTH) is Ellipsis
    except NotImplementedError as error:
        return not str(error)
    except Exception:  # calls tells what it is
        return False


def _scales(variance: float) -> tuple[float, float]:
    """After the first and the last of thirty layers, with weights of this variance."""
    net = training.mlp(depth=DEPTH, init="torch").double()
    x = training.digits().validation_x
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(math.sqrt(variance * 3 * WIDTH))
        return tuple(h.square().mean().sqrt().item() for h in (net[:2](x), net[:-1](x)))


CALLED_F = ("name 'F' is not defined", "'module' object is not callable")


@exercise("Exercise 2 (the block)", "two or three Linear layers")
def block(student) -> None:
    """student(norm, linear) makes a module with h -> h + relu(linear(norm(h)))."""
    norm = layers.LayerNorm(5, dtype=torch.float64)
    linear = nn.Linear(5, 5, dtype=torch.float64)
    with torch.no_grad():
        for place, parameter in enumerate([*norm.parameters(), *linear.parameters()]):
            parameter.copy_(1 + draw(*parameter.shape, seed=place))

    def forward(h):
        try:
            return student(norm, linear)(h)
        except (NameError, TypeError) as error:
            if str(error) in CALLED_F:
                raise Slip(
                    "F is not imported here: write torch.relu(...). In the formula, F is the "
                    "branch, Linear then ReLU; in your code the Linear is self.linear."
                ) from None
            if "'ReLU'" in str(error):
                raise Slip("nn.ReLU is a module: write torch.relu(x), or nn.ReLU()(x).") from None
            raise

    def evaluated(h):
        made = student(norm, linear)
        return (made.eval() if isinstance(made, nn.Module) else made)(h)

    def bound(formula):
        return lambda h: formula(h, norm, linear)

    reference = bound(lambda h, norm, linear: h + torch.relu(linear(norm(h))))
    slips = {message: bound(formula) for message, formula in BLOCKS.items()}
    cases = [{"h": 1 + draw(3, 5, seed=8)}, {"h": 2 * draw(2, 4, 5, seed=9)}]
    try:
        calls(forward, reference, *cases, slips=slips)
    except Slip as slip:
        _of_what_is_given(student(norm, linear), norm, linear)
        if "off by" in str(slip) and not _called(forward, norm):
            raise Slip("your forward does not call self.norm: the branch gets norm(h).") from None
        raise
    same_gradients(forward, reference, cases[0])
    calls(evaluated, reference, *cases, what="the output of your block after eval()")
    _learns(student(norm, linear), norm, linear, cases[0]["h"])


def _called(forward, part: nn.Module) -> bool:
    """Whether forward calls this part, whatever else it does."""
    calls_of_part: list[None] = []
    hook = part.register_forward_hook(lambda *_: calls_of_part.append(None))
    with hook, suppress(Exception):
        forward(torch.ones(2, 5, dtype=torch.float64))
    return bool(calls_of_part)


def _of_what_is_given(made, norm: nn.Module, linear: nn.Module) -> None:
    """Raise Slip if made holds parameters of its own instead of those that are missing."""
    held = list(made.parameters()) if isinstance(made, nn.Module) else []
    for name, part in {"norm": norm, "linear": linear}.items():
        given = list(part.parameters())
        kept = [any(torch.equal(p, own) for own in held) for p in given]
        if not any(kept) and len(held) >= len(given):
            raise Slip(f"use the {name} that MyBlock is given; yours makes one of its own.")


def _learns(made, norm: nn.Module, linear: nn.Module, h: Tensor) -> None:
    """Raise Slip unless an optimizer finds what the block is made of, with its gradients."""
    if not isinstance(made, nn.Module):
        raise Slip(f"MyBlock makes {describe(made)}, expected a module (nn.Module).")
    given = {
        f"{owner}.{name}": p
        for owner, part in (("norm", norm), ("linear", linear))
        for name, p in part.named_parameters()
    }
    weights = draw(*h.shape, seed=7)
    want = torch.autograd.grad((h + torch.relu(linear(norm(h)))), list(given.values()), weights)
    held = list(made.parameters())
    got = torch.autograd.grad(made(h), held, weights, allow_unused=True) if held else ()
    if len(held) < len(given):
        hidden = [name for name, part in given.items() if not any(part is p for p in held)]
        raise Slip(
            f"{hidden[0]} is not among the parameters() of your block, so no optimizer trains it: "
            "write self.norm = norm and self.linear = linear (a list hides them)."
        )
    for name, wanted in zip(given, want, strict=True):
        found = [g for g in got if g is not None and g.shape == wanted.shape]
        if not any(torch.allclose(gradient, wanted) for gradient in found):
            raise Slip(
                f"the values are right, but {name} gets no gradient or a wrong one: "
                "is it used through detach(), .data or no_grad?"
            )


LARGER, SMALLER = 100, 0.1
LEAST, MOST = 0.1, 5
HUGE = 10 * MOST  # the scale of a row, where a measure has found next to nothing
RATE, STEPS = 0.1, 100
KNOWN = {  # what a norm of one's own is not: (rows, width) -> rows
    "that is the root mean square, RMSNorm, up to a constant factor; find another measure.": (
        layers.RMSNorm
    ),
    "that is LayerNorm, up to a constant factor; find another measure.": layers.LayerNorm,
    "that is BatchNorm, up to a constant factor; find another measure.": layers.BatchNorm1d,
}


def _in_words(accuracy: float | None) -> str:
    """Where a net has failed, its accuracy is another one on each CPU: not said."""
    if accuracy is None:
        return "the numbers of thirty layers overflow"
    reached = f"{accuracy:.0%}" if accuracy >= 0.5 else "less than 50%"
    return f"thirty layers reach {reached} in {STEPS} steps"


@exercise(
    "Exercise 3 (a norm of your own)",
    f"MyNorm({WIDTH})",
    f"times {LARGER} and times {SMALLER}",
    f"between {LEAST} and {MOST}",
    f"trains thirty layers with it for {STEPS} steps at a learning rate of {RATE}",
)
def own_norm(student) -> str:
    """student(width) makes a module; rows of every scale leave it with a scale of about 1.

    A measure of a part of the row, or a detached one, is a measure too: accepted. Returns, in
    words, the accuracy of the net with it and the scale of its outputs after a ReLU.
    """
    if isinstance(student, nn.Module):
        raise Slip("the check takes the class, MyNorm, and makes one for each layer itself.")
    rows = draw(40, WIDTH, seed=11)
    leaf = rows.clone().requires_grad_()
    normed = _normed(student, leaf)
    if not normed.requires_grad:
        raise Slip("no gradient passes through your norm: nothing below it would learn.")
    normed = normed.detach()
    if not normed.any():
        raise Slip("your norm returns zeros: divide the row by its scale.")
    _not_known(student, 100 * rows)
    _by_itself(student, rows, normed)
    _divided(rows, normed)
    _one_scale(student, rows, normed)
    scales = normed.square().mean(1).sqrt()
    if not LEAST < scales.min() <= scales.max() < MOST:
        found = f"rows leave with scales from {scales.min():.2g} to {scales.max():.2g}"
        wanted = f"expected from {LEAST} to {MOST}"
        if scales.max() < 2 * scales.min():
            raise Slip(f"{found}, {wanted}: multiply by a constant factor, the same for all rows.")
        raise Slip(
            f"{found}, {wanted}: does your measure count minus signs? Take numbers without a sign "
            "(absolute values, or squares). A constant factor may help, too."
        )
    _without_sign(student, -1 - rows.abs())
    after_relu = _scales_after_relu(student)
    _same_after_relu(after_relu)
    return (
        f"{_in_words(_trained(student))}. After a ReLU its rows have a scale of "
        f"{after_relu.mean():.1f}. Write this down, and try another measure."
    )


def _not_known(student, rows: Tensor) -> None:
    """Raise Slip for a norm of the lesson, also times a constant; the rows are large beside eps."""
    normed = _normed(student, rows).detach()
    for message, make in KNOWN.items():
        known = make(WIDTH).double()(rows)
        factor = (normed * known).sum() / known.square().sum()
        if torch.allclose(normed, factor * known, rtol=1e-3, atol=1e-3 * factor.abs().item()):
            raise Slip(message)


def _normed(student, rows: Tensor) -> Tensor:
    normed = student(WIDTH)(rows)
    if not isinstance(normed, Tensor):
        raise Slip(f"your norm returns a {type(normed).__name__}, expected a tensor.")
    if normed.shape != rows.shape:
        raise Slip(f"{tuple(rows.shape)} went in, {tuple(normed.shape)} came out.")
    return normed


def _one_scale(student, rows: Tensor, normed: Tensor) -> None:
    for factor in (LARGER, SMALLER):
        scaled = _normed(student, factor * rows).detach()
        if torch.allclose(scaled, factor * normed, rtol=1e-3):
            raise Slip(
                "a row that is 100 times larger leaves 100 times larger: divide by its scale."
            )
        if not torch.allclose(scaled, normed, rtol=5e-2, atol=5e-2):
            differ = f"rows times {factor:g} do not leave as the rows themselves do: "
            if _grows(student, rows):
                raise Slip(
                    f"{differ}the number that you add is too large. Keep it far below a tenth of "
                    "the row's scale (a root makes it larger: the fourth root of 1e-5 is 0.06)."
                )
            raise Slip(f"{differ}divide by something that grows as the row does.")
    with_zeros = rows.index_fill(0, torch.tensor([3]), 0.0)
    if not _normed(student, with_zeros).isfinite().all():
        raise Slip("a row of zeros becomes NaN: add a small number to what you divide by.")


def _grows(student, rows: Tensor) -> bool:
    """Whether the measure grows as the rows do, once they are large beside what is added to it."""
    large, larger = (_normed(student, factor * rows).detach() for factor in (1e4, 1e6))
    return torch.allclose(large, larger, rtol=5e-2, atol=5e-2)


def _by_itself(student, rows: Tensor, normed: Tensor) -> None:
    """Raise Slip for a norm whose answer for a row depends on the others."""
    for some in (slice(20), slice(20, None)):  # a batch may be divided by its first row's scale
        alone = _normed(student, rows[some]).detach()
        if not torch.allclose(alone, normed[some]):
            raise Slip(
                "a row leaves with other numbers when other rows come with it: "
                "measure each row by itself."
            )


def _slope(rows: Tensor, normed: Tensor) -> Tensor:
    """(rows, 1): what each row was multiplied by, its mean left aside."""
    centred = rows - rows.mean(1, keepdim=True)
    return (normed * centred).sum(1, keepdim=True) / centred.square().sum(1, keepdim=True)


def _divided(rows: Tensor, normed: Tensor) -> None:
    """Raise Slip unless each row leaves divided by one number, minus one number or not."""
    centred = rows - rows.mean(1, keepdim=True)
    left = normed - normed.mean(1, keepdim=True)
    if torch.allclose(left, torch.zeros_like(left), atol=1e-6):
        raise Slip("nothing of the row is left, all its numbers are equal: divide h by its scale.")
    if not torch.allclose(left, _slope(rows, normed) * centred, rtol=1e-3, atol=1e-3):
        raise Slip(
            "the numbers of a row do not keep their proportions: divide all of them by one number, "
            "the scale of the row."
        )


def _without_sign(student, negative: Tensor) -> None:
    """Raise Slip for a measure that is below 0 in rows of negative numbers."""
    if _slope(negative, _normed(student, negative).detach()).min() < 0:
        raise Slip(
            "rows of negative numbers leave with their signs reversed: a scale is not negative, "
            "so measure numbers without a sign (absolute values, or squares)."
        )


def _scales_after_relu(student) -> Tensor:
    """The scale of each row that leaves the first norm of the lesson's net."""
    net = training.mlp(student, depth=DEPTH, residual=True, init="torch").double()
    with torch.no_grad():
        rows = _normed(student, net[:2](training.digits().validation_x))
    return rows.square().mean(1).sqrt()


def _same_after_relu(scales: Tensor) -> None:
    """Raise Slip for a measure that finds nearly nothing in rows with many zeros."""
    share = (~(scales < HUGE)).double().mean().item()
    if share > 0:
        raise Slip(
            f"after a ReLU many numbers of a row are 0, and there {share:.0%} of the rows leave "
            f"with a scale above {HUGE}: your measure finds nearly nothing in them. Take one that "
            "counts the numbers that are not 0."
        )


def _trained(student) -> float | None:
    """Accuracy of the lesson's net with the student's norm; None if its numbers overflowed."""
    net = training.mlp(student, depth=DEPTH, residual=True, init="torch").double()
    run = training.train(net, training.digits(), steps=STEPS, lr=RATE)
    return None if run.diverged else run.validation_accuracy[-1]
