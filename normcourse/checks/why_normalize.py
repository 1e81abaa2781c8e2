"""Checks of lesson 00: one layer's factor, the profile, the block, a norm of one's own.

Each table maps what a check says to the wrong answer that earns it.
"""

import math

import torch
from torch import Tensor, nn

from normcourse import draw, training
from normcourse.checks.probes import calls, same_gradients
from normcourse.checks.verdict import Slip, exercise, expect, parts
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
    "squares add up, so n stands under the root as well.": lambda n, v: n * math.sqrt(v / 2),
    "that is one over the factor.": lambda n, v: math.sqrt(2 / (n * v)),
    "that is the variance for which the factor is 1; the question is the factor for any v.": (
        lambda n, v: 2 / n
    ),
    "ReLU keeps half of the mean square; it does not double it.": lambda n, v: math.sqrt(2 * n * v),
    "a third of 1/n is torch's own v; use the v that is given.": lambda n, v: math.sqrt(1 / 6),
    "that is the factor of thirty layers; the question is one layer.": lambda n, v: (
        (n * v / 2) ** 15
    ),
}
LISTS = ("sizes", "spreads", "told apart")
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
    "the norm is missing: the branch gets norm(h).": lambda h, norm, linear: (
        h + torch.relu(linear(h))
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
    "h is added twice.": lambda h, norm, linear: 2 * h + torch.relu(linear(norm(h))),
    "the branch is added, not multiplied.": lambda h, norm, linear: h * torch.relu(linear(norm(h))),
}


@exercise("Exercise 1 (one layer's factor)")
def factor(student) -> None:
    """student(n, v): what Linear and ReLU multiply the size by, on average over random weights."""
    cases = [{"n": 64, "v": 0.01}, {"n": 9, "v": 0.7}]
    calls(student, lambda n, v: math.sqrt(n * v / 2), *cases, slips=FACTORS, what="the factor")


@exercise("Exercise 2 (the profile of a net)")
def profile(student) -> None:
    """student(net, x, digits) -> (sizes, spreads, told apart), one number behind each layer."""
    for seed in (0, 1):
        net = _net(seed)
        x = 1 + draw(40 + 10 * seed, 6, seed=seed + 5)
        digits = torch.arange(len(x)) % 10
        before = [parameter.detach().clone() for parameter in net.parameters()]
        net.train(seed == 0)
        got = parts(student(net, x.clone(), digits.clone()), *LISTS)
        if net.training != (seed == 0) or not all(map(torch.equal, before, net.parameters())):
            raise Slip("the net was changed; only look at it.")
        _compare(got, net, x, digits)


def _net(seed: int) -> nn.Sequential:
    """Linear, ReLU, two Blocks, a norm, a head: what a measurement has to tell apart."""
    blocks = [
        training.Block(nn.Sequential(nn.Linear(5, 5), nn.ReLU()), layers.LayerNorm, 5)
        for _ in range(2)
    ]
    start = [nn.Linear(6, 5), nn.ReLU()]
    net = nn.Sequential(*start, *blocks, layers.LayerNorm(5), nn.Linear(5, 10)).double()
    with torch.no_grad():
        for place, parameter in enumerate(net.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=100 * seed + place))
    return net


def _compare(got, net, x, digits) -> None:
    wanted = _profile(net, x, digits, (nn.ReLU, training.Block))
    entering = _profile(net, x, digits, (nn.ReLU, training.Block), before=True)
    of_input = _measures(x, digits)
    counts = {
        "Block is missing: measure behind a ReLU AND behind a training.Block.": _profile(
            net, x, digits, nn.ReLU
        ),
        "ReLU is missing: measure behind a ReLU AND behind a training.Block.": (
            _profile(net, x, digits, training.Block)
        ),
        "you measure behind every part; only ReLU and training.Block end a layer.": (
            _profile(net, x, digits, nn.Module)
        ),
        "the head is the last part: leave it out.": _profile(net, x, digits, nn.Module, end=None),
    }
    for name, values in zip(LISTS, got, strict=True):
        if not isinstance(values, list | tuple):
            raise Slip(f"{name}: return a list with one number for each layer.")
        for message, other in counts.items():
            if len(values) == len(other[name]) != len(wanted[name]):
                raise Slip(message)
        if len(values) != len(wanted[name]):
            raise Slip(
                f"{name}: {len(values)} numbers, "
                f"expected one for each of {len(wanted[name])} layers."
            )
    for name, values in zip(LISTS, got, strict=True):
        for layer, (value, want) in enumerate(zip(values, wanted[name], strict=True)):
            slips = {
                f"that list holds the {other}; the order is {', '.join(LISTS)}.": wanted[other][
                    layer
                ]
                for other in LISTS
                if other != name
            }
            slips["that is what goes INTO the part; measure what comes out of it."] = entering[
                name
            ][layer]
            slips["that is x, what came into the net; measure h."] = of_input[name]
            if name == "spreads":
                slips |= _spread_slips(want, wanted["sizes"][layer], len(x))
            expect(value, want, slips, f"{name} at layer {layer + 1}")


def _spread_slips(spread: float, size: float, rows: int) -> dict[str, float]:
    return {
        "the spread is a share of the size: divide the differences by it.": spread * size,
        "divide by the size itself, not by its square.": spread / size,
        "that is the squared spread; the root is missing.": spread**2,
        "average the squares over all rows, not over all but one.": (
            spread * math.sqrt(rows / (rows - 1))
        ),
    }


def _profile(net, x, digits, ends, *, end=-1, before=False) -> dict[str, list[float]]:
    found = {name: [] for name in LISTS}
    h = x
    for part in net[:end]:
        entered = h
        h = part(h).detach()
        if isinstance(part, ends):
            for name, value in _measures(entered if before else h, digits).items():
                found[name].append(value)
    return found


def _measures(h: Tensor, digits: Tensor) -> dict[str, float]:
    size = h.square().mean().sqrt().item()
    differences = (h - h.mean(0)).square().mean().sqrt().item()
    values = (size, differences / size, _told_apart(h, digits))
    return dict(zip(LISTS, values, strict=True))


def _told_apart(h: Tensor, digits: Tensor) -> float:
    averages = torch.stack([h[digits == digit].mean(0) for digit in range(10)])
    nearest = (h[:, None] - averages).square().sum(-1).argmin(1)
    return (nearest == digits).double().mean().item()


@exercise("Exercise 3 (the block)")
def block(student) -> None:
    """student(norm, linear) makes a module with h -> h + relu(linear(norm(h)))."""
    norm = layers.LayerNorm(5, dtype=torch.float64)
    linear = nn.Linear(5, 5, dtype=torch.float64)
    with torch.no_grad():
        for place, parameter in enumerate([*norm.parameters(), *linear.parameters()]):
            parameter.copy_(1 + draw(*parameter.shape, seed=place))

    def forward(h):
        return student(norm, linear)(h)

    def bound(formula):
        return lambda h: formula(h, norm, linear)

    reference = bound(lambda h, norm, linear: h + torch.relu(linear(norm(h))))
    slips = {message: bound(formula) for message, formula in BLOCKS.items()}
    cases = [{"h": 1 + draw(3, 5, seed=8)}, {"h": 2 * draw(2, 4, 5, seed=9)}]
    calls(forward, reference, *cases, slips=slips)
    same_gradients(forward, reference, cases[0])


RATE, STEPS, WANTED = 0.1, 100, 0.7
KNOWN = {  # what a norm of one's own is not: (rows, width) -> rows
    "that is the root mean square, RMSNorm; find a size of your own.": layers.RMSNorm,
    "that is LayerNorm; find a size of your own.": layers.LayerNorm,
    "that is BatchNorm; find a size of your own.": layers.BatchNorm1d,
}


@exercise("Exercise 4 (a norm of your own)")
def own_norm(student) -> None:
    """student(width) makes a module; rows of every scale leave it with one size of about 1."""
    if isinstance(student, nn.Module):
        raise Slip("the check takes the class, MyNorm, and makes one for each layer itself.")
    rows = draw(40, 64, seed=11)
    leaf = rows.clone().requires_grad_()
    normed = _normed(student, leaf)
    if not normed.requires_grad:
        raise Slip("no gradient comes back through your norm: nothing below it would learn.")
    normed = normed.detach()
    for message, known in KNOWN.items():
        if torch.allclose(normed, known(64).double()(rows), rtol=1e-3, atol=1e-3):
            raise Slip(message)
    _one_scale(student, rows, normed)
    sizes = normed.square().mean(1).sqrt()
    if not 0.2 < sizes.min() <= sizes.max() < 5:
        raise Slip(
            f"rows leave with sizes from {sizes.min():.2g} to {sizes.max():.2g}, "
            "expected from 0.2 to 5: is the measure a mean, of numbers without a sign? "
            "A constant factor may help, too."
        )
    reached = _trained(student)
    if not reached >= WANTED:
        raise Slip(
            f"a norm it is, and the net reached {reached:.2f} with it, wanted {WANTED}. "
            "Write it down and try another measure."
        )


def _normed(student, rows: Tensor) -> Tensor:
    normed = student(64)(rows)
    if not isinstance(normed, Tensor):
        raise Slip(f"your norm returns a {type(normed).__name__}, expected a tensor.")
    if normed.shape != rows.shape:
        raise Slip(f"{tuple(rows.shape)} went in, {tuple(normed.shape)} came out.")
    return normed


def _one_scale(student, rows: Tensor, normed: Tensor) -> None:
    for factor in (100.0, 0.01):
        scaled = _normed(student, factor * rows).detach()
        if torch.allclose(scaled, factor * normed, rtol=1e-3):
            raise Slip("rows that are 100 times larger leave 100 times larger: divide by the size.")
        if not torch.allclose(scaled, normed, rtol=1e-2, atol=1e-2):
            raise Slip(
                f"rows times {factor:g} do not leave as the rows themselves do: "
                "divide by something that grows as the row does."
            )
    with_zeros = rows.index_fill(0, torch.tensor([3]), 0.0)
    if not _normed(student, with_zeros).isfinite().all():
        raise Slip("a row of zeros becomes NaN: add a small number to what you divide by.")


def _trained(student) -> float:
    """Accuracy of the lesson's net with the student's norm."""
    net = training.mlp(student, depth=30, shortcut=True, start="torch").double()
    run = training.train(net, training.digits(), steps=STEPS, lr=RATE)
    return 0.0 if run.diverged else run.validation_accuracy[-1]
