"""Checks of lesson 00: one layer's factor, depth over width, the block, a norm.

Each table maps what a check says to the wrong answer that earns it.
"""

import math
import statistics
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from normcourse import draw, training
from normcourse.checks.probes import calls, same_gradients
from normcourse.checks.values import describe
from normcourse.checks.verdict import (
    FLOAT32,
    Cases,
    Slip,
    every_case,
    exercise,
)
from normlib import layers

FACTORS = {  # of n inputs and the variance v
    "that is the factor of the MEAN SQUARE; the size is its root.": lambda n, v: n * v / 2,
    "ReLU is missing: it keeps half of the mean square.": lambda n, v: math.sqrt(n * v),
    "ReLU is missing, and so is the root.": lambda n, v: n * v,
    "ReLU halves the MEAN SQUARE, not the size: the 1/2 belongs under the root.": (
        lambda n, v: math.sqrt(n * v) / 2
    ),
    "n is missing: z is a sum of n products.": lambda n, v: math.sqrt(v / 2),
    "z is a sum of n products, not their mean: multiply by n.": lambda n, v: math.sqrt(v / n / 2),
    "v is the variance already, not the standard deviation: do not square it.": (
        lambda n, v: v * math.sqrt(n / 2)
    ),
    "that is the factor with 64 inputs; use the n that is given.": lambda n, v: math.sqrt(32 * v),
    "squares add up, so n stands under the root as well.": lambda n, v: n * math.sqrt(v / 2),
    "that is one over the factor.": lambda n, v: math.sqrt(2 / (n * v)),
    "that is the variance for which the factor is 1; the question is the factor for any v.": (
        lambda n, v: 2 / n
    ),
    "that is the standard deviation for which the factor is 1; the question is the factor for any "
    "v.": lambda n, v: math.sqrt(2 / n),
    "that is the standard deviation of what leaves; the size does not subtract the mean.": (
        lambda n, v: math.sqrt(n * v * (1 / 2 - 1 / (2 * math.pi)))
    ),
    "that is the mean of what leaves; the size is its root mean square.": (
        lambda n, v: math.sqrt(n * v / (2 * math.pi))
    ),
    "ReLU keeps half of the mean square; it does not double it.": lambda n, v: math.sqrt(2 * n * v),
    "a third of 1/n is torch's own v; use the v that is given.": lambda n, v: math.sqrt(1 / 6),
    "0.408 is the factor with torch's own v; use the v that is given.": lambda n, v: 0.408,
    "the 1/3 is torch's; v is the variance already, whichever it is.": (
        lambda n, v: math.sqrt(n * v / 6)
    ),
    "only v stands under your root: n and the 1/2 belong there as well.": (
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
    "that is torch's own variance, for which the factor is not 1.": lambda n: 1 / (3 * n),
    "that is a standard deviation, and without ReLU; ReLU keeps half of the mean square.": (
        lambda n: 1 / math.sqrt(n)
    ),
    "the 3 is torch's; ReLU keeps half of the mean square, so a 2 stands there.": lambda n: 3 / n,
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
    "the shortcut carries h itself; yours adds the NORMALIZED h.": (
        lambda h, norm, linear: norm(h) + torch.relu(linear(norm(h)))
    ),
    "the norm stands at the beginning of the branch; yours stands behind the sum.": (
        lambda h, norm, linear: norm(h + torch.relu(linear(h)))
    ),
    "the norm stands at the beginning of the branch; yours stands at its end.": (
        lambda h, norm, linear: h + norm(torch.relu(linear(h)))
    ),
    "the norm stands before the Linear; yours stands between Linear and ReLU, as in a plain net.": (
        lambda h, norm, linear: h + torch.relu(norm(linear(h)))
    ),
    "the ReLU is missing: the branch is Linear, then ReLU.": lambda h, norm, linear: (
        h + linear(norm(h))
    ),
    "the ReLU belongs to the branch, before the sum; behind it, it cuts the shortcut as well.": (
        lambda h, norm, linear: torch.relu(h + linear(norm(h)))
    ),
    "the shortcut is missing: add h.": lambda h, norm, linear: torch.relu(linear(norm(h))),
    "the norm belongs to the branch; yours stands on the shortcut.": lambda h, norm, linear: (
        norm(h) + torch.relu(linear(h))
    ),
    "one norm is enough, at the beginning of the branch; yours has one at its end as well.": (
        lambda h, norm, linear: h + norm(torch.relu(linear(norm(h))))
    ),
    "one norm is enough, at the beginning of the branch; yours has a second one behind it.": (
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
    "norm(h) goes into the branch alone; yours is added to the sum as well.": (
        lambda h, norm, linear: h + norm(h) + torch.relu(linear(norm(h)))
    ),
    "the shortcut is added, not subtracted.": lambda h, norm, linear: (
        h - torch.relu(linear(norm(h)))
    ),
    "the Linear comes first in the branch, then the ReLU.": lambda h, norm, linear: (
        h + linear(torch.relu(norm(h)))
    ),
    "one norm is enough, at the beginning of the branch; yours has one behind the sum as well.": (
        lambda h, norm, linear: norm(h + torch.relu(linear(norm(h))))
    ),
    "the norm and the shortcut are missing; that is the plain layer.": lambda h, norm, linear: (
        torch.relu(linear(h))
    ),
    "h is added twice.": lambda h, norm, linear: 2 * h + torch.relu(linear(norm(h))),
    "the branch is added, not multiplied.": lambda h, norm, linear: h * torch.relu(linear(norm(h))),
}


@exercise(
    "Exercise 1 (one layer's factor)",
    "which variance of the weights is this factor 1",
    "gives your variance to the thirty layers",
)
def factor(student, steady) -> str:
    """student(n, v): what Linear and ReLU multiply the size by, on average over random weights.

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
    return (
        "with your variance the size behind the thirty layers is "
        f"{_last_size(float(steady(WIDTH))):.1f}, with torch's it was "
        f"{_last_size(1 / (3 * WIDTH)):.0e}. (The factor is 1 on average over random weights; "
        "one draw of them drifts, mostly downward.)"
    )


def _unwritten(steady) -> bool:
    """Whether the second of two functions is still the stub."""
    try:
        return steady(WIDTH) is Ellipsis
    except NotImplementedError as error:
        return not str(error)
    except Exception:  # calls tells what it is
        return False


def _last_size(variance: float) -> float:
    """Behind the last ReLU of the lesson's thirty layers."""
    net = training.mlp(depth=30, init="torch").double()
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(math.sqrt(variance * 3 * WIDTH))
        return net[:-1](training.digits().validation_x).square().mean().sqrt().item()


STARTS = 3
DEPTHS = (3, 10, 30)
WIDTHS = (16, 32, 64, 128, 256, 512)
KEPT = 0.33
OTHER_MARK = 0.25


@exercise(
    "Exercise 2 (depth over width)",
    f"the seeds 0 to {STARTS - 1}",
    "the mean of the three shares",
    f"for {DEPTHS[0]}, {DEPTHS[1]} and {DEPTHS[2]} layers",
    f"widths {', '.join(map(str, WIDTHS[:-1]))} and {WIDTHS[-1]}",
    f"at least {KEPT}",
    f"if the mark is {OTHER_MARK}",
)
def depth_over_width(kept, narrowest) -> str:
    """kept(depth, width): the mean share told apart; narrowest: {depth: the least width}.

    Returns, in words, what ten times the depth asks for.
    """
    with every_case() as cases:
        for depth, width in ((4, 24), (8, 40)):
            _one_share(kept, depth, width, cases)
    expected = ", ".join(map(str, DEPTHS))
    if narrowest == {}:
        raise Slip(f"kept is right; now measure, and fill narrowest for the depths {expected}.")
    if not isinstance(narrowest, Mapping) or set(narrowest) != set(DEPTHS):
        raise Slip(f"narrowest is a dict with the depths {expected} as keys.")
    for depth in DEPTHS:
        _least_width(depth, narrowest[depth])
    deeper = DEPTHS[-1] // DEPTHS[0]
    wider = narrowest[DEPTHS[-1]] // narrowest[DEPTHS[0]]
    return (
        f"at the mark {KEPT}, depth times {deeper} asks here for width times {wider}. At the mark "
        f"{OTHER_MARK} it is another factor: read it off your shares."
    )


def _one_share(kept, depth: int, width: int, cases: Cases) -> None:
    data = training.digits()
    shares = []
    first = []
    of_training = []
    sizes = []
    for seed in range(STARTS):
        net = training.mlp(depth=depth, width=width, seed=seed).double()
        with torch.no_grad():
            behind_one = net[:2](data.validation_x)
            behind_all = net[:-1](data.validation_x)
            behind_all_of_training = net[:-1](data.train_x)
        shares.append(_told_apart(behind_all, data.validation_y))
        first.append(_told_apart(behind_one, data.validation_y))
        of_training.append(_told_apart(behind_all_of_training, data.train_y))
        sizes.append(behind_all.square().mean().sqrt().item())
    slips = {
        "that is the share of one start, with the seed 0; take the mean of all three.": shares[0],
        "that is the sum over the starts; divide by their number.": sum(shares),
        "that is the largest of the three shares; take their mean.": max(shares),
        "that is the smallest of the three shares; take their mean.": min(shares),
        "that is the share behind the first layer; take the last one.": statistics.mean(first),
        "that is the size; the share told apart is the second list.": statistics.mean(sizes),
        "those are the training pictures; take the validation pictures.": (
            statistics.mean(of_training)
        ),
        "those are the seeds 1 to 3; take 0 to 2.": _share(depth, width, seeds=range(1, 4)),
        "that is the share at the width 64; use the width that is given.": _share(depth, WIDTH),
        "depth and width have changed places.": _share(width, depth),
    }
    got = kept(depth, width)
    cases.expect(got, statistics.mean(shares), slips, f"kept({depth}, {width})")


def _least_width(depth: int, width) -> None:
    if width is None:
        raise Slip(f"kept is right; now measure: narrowest[{depth}] is still None.")
    if width not in WIDTHS:
        raise Slip(f"narrowest[{depth}] is {width!r}, expected one of the numbers {WIDTHS}.")
    share = _share(depth, width)
    if share < KEPT:
        raise Slip(f"{depth} layers of width {width} keep {share:.2f}, less than {KEPT}: go wider.")
    half = width // 2
    if half in WIDTHS and _share(depth, half) >= KEPT:
        raise Slip(f"{depth} layers of width {half} keep at least {KEPT}, too: go narrower.")


def _share(depth: int, width: int, seeds: range = range(STARTS)) -> float:
    """The mean share told apart behind the last layer."""
    data = training.digits()
    shares = []
    for seed in seeds:
        net = training.mlp(depth=depth, width=width, seed=seed).double()
        with torch.no_grad():
            shares.append(_told_apart(net[:-1](data.validation_x), data.validation_y))
    return statistics.mean(shares)


def _told_apart(h: Tensor, digits: Tensor) -> float:
    """Of equally long rows: averages of the first half, and the rows of the second."""
    rows = h / h.square().mean(1, keepdim=True).sqrt()
    half = len(rows) // 2
    known = rows[:half]
    judged = rows[half:]
    averages = torch.stack([known[digits[:half] == digit].mean(0) for digit in range(10)])
    nearest = (judged[:, None] - averages).square().sum(-1).argmin(1)
    return (nearest == digits[half:]).double().mean().item()


CALLED_F = ("name 'F' is not defined", "'module' object is not callable")


@exercise("Exercise 3 (the block)", "two or three Linear maps")
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
                    "F is the formula's name for the branch, Linear then ReLU; in your code the "
                    "Linear is self.linear."
                ) from None
            raise

    def bound(formula):
        return lambda h: formula(h, norm, linear)

    reference = bound(lambda h, norm, linear: h + torch.relu(linear(norm(h))))
    slips = {message: bound(formula) for message, formula in BLOCKS.items()}
    cases = [{"h": 1 + draw(3, 5, seed=8)}, {"h": 2 * draw(2, 4, 5, seed=9)}]
    try:
        calls(forward, reference, *cases, slips=slips)
    except Slip:
        _of_what_is_given(student(norm, linear), norm, linear)
        raise
    same_gradients(forward, reference, cases[0])
    _learns(student(norm, linear), norm, linear, cases[0]["h"])


def _of_what_is_given(made, norm: nn.Module, linear: nn.Module) -> None:
    """Raise Slip if made holds parameters of its own in the place of those that are missing."""
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


WIDTH = 64
LARGER, SMALLER = 100, 0.1
LEAST, MOST = 0.1, 5
RATES, STEPS, WANTED = (0.1, 0.3, 1.0), 100, 0.6
KNOWN = {  # what a norm of one's own is not: (rows, width) -> rows
    "that is the root mean square, RMSNorm, up to a constant factor; find another size.": (
        layers.RMSNorm
    ),
    "that is LayerNorm, up to a constant factor; find another size.": layers.LayerNorm,
    "that is BatchNorm, up to a constant factor; find another size.": layers.BatchNorm1d,
}


def _in_words(accuracy: float | None) -> str:
    """Where a net has failed, its digits are another CPU's: not said."""
    if accuracy is None:
        return "overflowed numbers"
    return f"{accuracy:.2f}" if accuracy >= 0.5 else "less than half"


@exercise(
    "Exercise 4 (a norm of your own)",
    f"MyNorm({WIDTH})",
    f"times {LARGER} and times {SMALLER}: all three times",
    f"between {LEAST} and {MOST}",
    f"thirty layers with shortcuts, trains it for {STEPS} steps",
    f"at the rates {RATES[0]}, {RATES[1]} and {RATES[2]:g}",
    "at the best of them from two more starts",
    f"From {WANTED} on",
)
def own_norm(student) -> str:
    """student(width) makes a module; rows of every scale leave it with one size of about 1.

    A size that is measured on a part of the row, or detached, is a size too: accepted. Returns the
    accuracy of the net with it at each of RATES, at the best of them from two more starts, and the
    size of its rows, in words.
    """
    if isinstance(student, nn.Module):
        raise Slip("the check takes the class, MyNorm, and makes one for each layer itself.")
    rows = draw(40, WIDTH, seed=11)
    leaf = rows.clone().requires_grad_()
    normed = _normed(student, leaf)
    if not normed.requires_grad:
        raise Slip("no gradient comes back through your norm: nothing below it would learn.")
    normed = normed.detach()
    if not normed.any():
        raise Slip("your norm returns zeros: divide the row by its size.")
    _not_known(student, 100 * rows)
    _one_scale(student, rows, normed)
    _divided(rows, normed)
    sizes = normed.square().mean(1).sqrt()
    if not LEAST < sizes.min() <= sizes.max() < MOST:
        found = f"rows leave with sizes from {sizes.min():.2g} to {sizes.max():.2g}"
        wanted = f"expected from {LEAST} to {MOST}"
        if sizes.max() < 2 * sizes.min():
            raise Slip(f"{found}, {wanted}: multiply by a constant factor, the same for all rows.")
        raise Slip(
            f"{found}, {wanted}: does your measure count minus signs? Take numbers without a sign "
            "(absolute values, or squares). A constant factor may help, too."
        )
    _without_sign(student, -1 - rows.abs())
    reached = [_trained(student, rate) for rate in RATES]
    found = ", ".join(
        f"{_in_words(accuracy)} at the rate {rate:g}"
        for rate, accuracy in zip(RATES, reached, strict=True)
    )
    if max(accuracy or 0.0 for accuracy in reached) < WANTED:
        raise Slip(
            f"a norm it is, and with it the net reached {found}; wanted {WANTED} at one of them. "
            f"{_behind_relu(student)}Write it down and try another measure."
        )
    best = max(zip(reached, RATES, strict=True), key=lambda pair: pair[0] or 0.0)[1]
    more = " and ".join(_in_words(_trained(student, best, seed=seed)) for seed in (1, 2))
    return (
        f"with it the net reached {found}; two more starts at the rate {best:g} reached {more}. "
        f"Behind a ReLU its rows have a size of {_sizes_behind_relu(student).mean():.1f}. "
        "Write this down, and try another measure."
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
            raise Slip("rows that are 100 times larger leave 100 times larger: divide by the size.")
        if not torch.allclose(scaled, normed, rtol=5e-2, atol=5e-2):
            raise Slip(
                f"rows times {factor:g} do not leave as the rows themselves do: "
                "divide by something that grows as the row does, and if you add a small number to "
                "it, keep that far below a tenth of the row's size "
                "(a root makes it larger: the fourth root of 1e-5 is 0.06)."
            )
    with_zeros = rows.index_fill(0, torch.tensor([3]), 0.0)
    if not _normed(student, with_zeros).isfinite().all():
        raise Slip("a row of zeros becomes NaN: add a small number to what you divide by.")
    for some in (slice(20), slice(20, None)):  # a batch may be divided by its first row's size
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
        raise Slip("nothing of the row is left, all its numbers are equal: divide h by its size.")
    if not torch.allclose(left, _slope(rows, normed) * centred, rtol=1e-3, atol=1e-3):
        raise Slip(
            "the numbers of a row do not keep their proportions: divide all of them by one number, "
            "the size of the row."
        )


def _without_sign(student, negative: Tensor) -> None:
    """Raise Slip for a measure that is below 0 in rows of negative numbers."""
    if _slope(negative, _normed(student, negative).detach()).min() < 0:
        raise Slip(
            "rows of negative numbers leave with their signs turned round: a size is not negative, "
            "so measure numbers without a sign (absolute values, or squares)."
        )


def _sizes_behind_relu(student) -> Tensor:
    """The size of each row that the first norm of the lesson's net hands on."""
    net = training.mlp(student, depth=30, residual=True, init="torch").double()
    with torch.no_grad():
        rows = _normed(student, net[:2](training.digits().validation_x))
    return rows.square().mean(1).sqrt()


def _behind_relu(student) -> str:
    """What is wrong with a measure that finds nothing in rows with many zeros, or nothing."""
    share = (~(_sizes_behind_relu(student) < MOST)).double().mean().item()
    if share == 0:
        return ""
    return (
        f"Behind a ReLU many numbers of a row are 0: there {share:.0%} of the rows leave with a "
        f"size above {MOST}, since by your measure they have a size of nearly 0. "
    )


def _trained(student, rate: float, *, seed: int = 0) -> float | None:
    """Accuracy of the lesson's net with the student's norm; None if its numbers overflowed."""
    net = training.mlp(student, depth=30, residual=True, init="torch", seed=seed).double()
    run = training.train(net, training.digits(), steps=STEPS, lr=rate)
    return None if run.diverged else run.validation_accuracy[-1]
