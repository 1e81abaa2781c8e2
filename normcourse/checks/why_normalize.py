"""Checks of lesson 00: one layer's factor,
He's rule for leaky ReLU, the profile, the block, a deep net.

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
}
VARIANCES = {  # of n inputs and the slope a
    "that is ReLU's: here the negative half is not lost, it comes through with the slope.": (
        lambda n, a: 2 / n
    ),
    "that is a linear layer's: the activation is missing.": lambda n, a: 1 / n,
    "square the slope: the negative half of the mean square is multiplied by a^2.": (
        lambda n, a: 2 / ((1 + a) * n)
    ),
    "the two halves never meet in one sample: 1 + a^2, not (1 + a)^2.": (
        lambda n, a: 2 / ((1 + a) ** 2 * n)
    ),
    "that is a standard deviation; the question asks for a variance.": (
        lambda n, a: math.sqrt(2 / ((1 + a**2) * n))
    ),
    "each half brings half of the mean square: a factor 2 is missing.": (
        lambda n, a: 1 / ((1 + a**2) * n)
    ),
    "that is what a layer of variance 1 does to the mean square; you need its inverse.": (
        lambda n, a: n * (1 + a**2) / 2
    ),
    "a slope lets more through, so the variance must get smaller.": lambda n, a: 2 * (1 + a**2) / n,
    "both halves add: 1 + a^2, not 1 - a^2.": lambda n, a: 2 / ((1 - a**2) * n),
    "that is torch's default for nn.Linear, which keeps nothing.": lambda n, a: 1 / (3 * n),
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
    "h is added twice.": lambda h, norm, linear: 2 * h + torch.relu(linear(norm(h))),
    "the branch is added, not multiplied.": lambda h, norm, linear: h * torch.relu(linear(norm(h))),
}
DEPTH = 30
WANTED = 0.5


@exercise("Exercise 1 (one layer's factor)")
def factor(student) -> None:
    """student(n, v): what Linear and ReLU multiply the size by, on average over random weights."""
    cases = [{"n": 64, "v": 0.01}, {"n": 9, "v": 0.7}]
    calls(student, lambda n, v: math.sqrt(n * v / 2), *cases, slips=FACTORS, what="the factor")


@exercise("Exercise 2 (He's variance for leaky ReLU)")
def variance(student) -> None:
    """student(n, a): the variance of the weights that keeps the mean square."""
    cases = [{"n": 50, "a": 0.6}, {"n": 8, "a": 0.0}, {"n": 7, "a": 1.5}]
    calls(student, lambda n, a: 2 / ((1 + a**2) * n), *cases, slips=VARIANCES, what="the variance")


@exercise("Exercise 3 (the profile of a net)")
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
            expect(value, want, slips, f"{name} at layer {layer + 1}")


def _profile(net, x, digits, ends, *, end=-1) -> dict[str, list[float]]:
    found = {name: [] for name in LISTS}
    h = x
    for part in net[:end]:
        h = part(h).detach()
        if isinstance(part, ends):
            size = h.square().mean().sqrt().item()
            found["sizes"].append(size)
            found["spreads"].append((h - h.mean(0)).square().mean().sqrt().item() / size)
            found["told apart"].append(_told_apart(h, digits))
    return found


def _told_apart(h: Tensor, digits: Tensor) -> float:
    averages = torch.stack([h[digits == digit].mean(0) for digit in range(10)])
    nearest = (h[:, None] - averages).square().sum(-1).argmin(1)
    return (nearest == digits).double().mean().item()


@exercise("Exercise 4 (the block)")
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


@exercise("Exercise 5 (thirty layers without a shortcut)")
def deep(net) -> None:
    """net: a trained nn.Sequential of thirty layers
    in a row that names half of the digits rightly.
    """
    if not isinstance(net, nn.Sequential):
        raise Slip(f"the check takes a trained nn.Sequential, got a {type(net).__name__}.")
    modules = [module for module in net.modules() if not isinstance(module, nn.Sequential)]
    linears = [m for m in modules if isinstance(m, nn.Linear) and m.weight.shape == (64, 64)]
    activations = [m for m in modules if type(m).__module__ == "torch.nn.modules.activation"]
    if len(linears) >= DEPTH > len(activations):
        raise Slip(
            f"{len(activations)} activations for {len(linears)} Linear maps: "
            "without one in between, two "
            "Linear maps are one."
        )
    if len(linears) < DEPTH:
        raise Slip(
            f"{len(linears)} Linear maps of 64 by 64, expected {DEPTH}: "
            "the depth is the difficulty."
        )
    for module in modules:
        home = type(module).__module__.partition(".")[0]
        if isinstance(module, training.Block):
            raise Slip("a training.Block has a shortcut; this exercise does without one.")
        if home not in ("torch", "normlib"):
            raise Slip(
                f"{type(module).__name__} is a class of your own, which may hide a shortcut; "
                "use layers of "
                "torch.nn and normlib.layers."
            )
    data = training.digits()
    reached = training.accuracy(net, data.validation_x, data.validation_y)
    if not reached >= WANTED:
        raise Slip(
            f"accuracy {reached:.2f} on the validation pictures, wanted {WANTED}. "
            "Write it down and try on."
        )
    on_test = training.accuracy(net, data.test_x, data.test_y)
    if on_test < reached - 0.2:
        raise Slip(
            f"{reached:.2f} on the validation pictures, {on_test:.2f} on others: "
            "train on data.train_x alone."
        )
