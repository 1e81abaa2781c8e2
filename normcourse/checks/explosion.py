"""Checks of lesson 00b: powers of a matrix, residual branches, a deep net without shortcuts.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from normcourse import measures, training
from normcourse.checks.probes import calls
from normcourse.checks.verdict import Slip, exercise, real

STEPS = 40

FIRST = {  # v: the matrix W, its powers' norms gains, its eigenvalues
    "first: the Frobenius norm is no gain; take the largest singular value.": lambda v: v.W.norm(),
    "first: an eigenvalue is the rate of the long run; one step can do more.": lambda v: (
        v.eigenvalues.abs().max()
    ),
    "first: the largest entry is no gain; take the largest singular value.": lambda v: (
        v.W.abs().max()
    ),
    "first: W^T W has squared singular values; a root is missing.": lambda v: v.gains[0] ** 2,
}
PEAK = {
    "peak: the bound sigma_max^steps, which nothing reaches; take the norm of W^t itself.": (
        lambda v: v.gains[0] ** v.steps
    ),
    "peak: that is the last step; take the largest over all steps.": lambda v: v.gains[-1],
    "peak: that is the first step; W^t goes on growing for a while.": lambda v: v.gains[0],
    "peak: W ** t is element-wise; use torch.linalg.matrix_power.": (
        lambda v: max(measures.spectral_norm(v.W**t) for t in range(1, v.steps + 1))
    ),
    "peak: eigenvalues do not see it; take singular values of W^t.": lambda v: (
        v.eigenvalues.abs().max()
    ),
    "peak: the Frobenius norm is no gain; take the largest singular value of W^t.": (
        lambda v: max(torch.linalg.matrix_power(v.W, t).norm() for t in range(1, v.steps + 1))
    ),
    "peak: the last step counts, too: t = 1..steps, and range(1, steps) ends before it.": (
        lambda v: v.gains[:-1].max()
    ),
    "peak: with steps = 2 only two steps count; yours looks beyond `steps`.": (
        lambda v: v.all_gains.max()
    ),
    "peak: W^0 is no step; t starts at 1, also where W only shrinks.": lambda v: (
        v.gains.max().clamp(min=1)
    ),
}
RATE = {
    "rate: singular values only bound it; the long run belongs to the eigenvalues.": lambda v: (
        v.gains[0]
    ),
    "rate: an eigenvalue may be complex; take abs, not the real part.": lambda v: (
        v.eigenvalues.real.max()
    ),
    "rate: eigvalsh reads one triangle as if W were symmetric; use eigvals.": (
        lambda v: torch.linalg.eigvalsh(v.W).abs().max()
    ),
    "rate: that is the gain of all steps together; the rate is per step.": lambda v: v.gains[-1],
    "rate: that is radius^steps; the rate is per step.": lambda v: (
        v.eigenvalues.abs().max() ** v.steps
    ),
    "rate: the root of the last gain comes near it after many more steps; "
    "take the largest eigenvalue.": lambda v: v.gains[-1] ** (1 / v.steps),
    "rate: the last two gains swing where the eigenvalues turn; take the largest eigenvalue.": (
        lambda v: v.gains[-1] / v.gains[-2]
    ),
    "rate: the eigenvalue with the largest ABSOLUTE value counts, not the one with the largest "
    "real part.": lambda v: v.eigenvalues[v.eigenvalues.real.argmax()].abs(),
    "rate: in the long run the LARGEST eigenvalue wins.": lambda v: v.eigenvalues.abs().min(),
}
LONGEST = 3
SMALLEST = 0.5  # of size times number of blocks: below, the branches are as good as switched off
BRANCHES = (10, 64, 1000)  # numbers of blocks
SIZES = {  # of the number of blocks
    "1 / sqrt(K) is for branches that point in random directions; "
    "here they may all point in one.": (lambda K: K**-0.5),
    "1 / K^2 switches the branches off: size times K has to be at least 0.5.": lambda K: K**-2,
    "0 switches the branches off: size times K has to be at least 0.5.": lambda K: 0.0,
    "1 is the full size: each block may double the gradient.": lambda K: 1.0,
    "3 / K: the K-th power of 1 + 3 / K is about 20; what grows is a power, not a sum.": lambda K: (
        3 / K
    ),
    "2 / K: the K-th power of 1 + 2 / K is about 7; what grows is a power, not a sum.": lambda K: (
        2 / K
    ),
    "1 / 3 is the share that must be left at the end, not the size of one branch.": lambda K: 1 / 3,
    "ln(3) / K keeps the growth below 3, but a shrinking gradient falls just below a third.": (
        lambda K: math.log(3) / K
    ),
}


@exercise("Exercise 1 (a matrix that grows first)", "three numbers", "any t from 1 to steps")
def growth(student) -> None:
    """student(W, steps) -> (gain of W, largest gain of W^t for t = 1..steps, rate for large t)."""
    cases = [
        {"W": _turning_shear(), "steps": STEPS},
        {"W": _turning_shear(), "steps": 2},  # where it still grows
        {"W": 0.3 * _turning_shear(), "steps": STEPS},  # which only shrinks
        {"W": _mirroring_ellipse(), "steps": 15},
    ]
    slips = {message: _growth(first=wrong) for message, wrong in FIRST.items()}
    slips |= {message: _growth(peak=wrong) for message, wrong in PEAK.items()}
    slips |= {message: _growth(rate=wrong) for message, wrong in RATE.items()}
    calls(student, _growth(), *cases, slips=slips, what=RESULTS)


def _growth(first: Callable | None = None, peak=None, rate=None) -> Callable:
    """The right answer, but for what is given: functions of v."""

    def answer(W: Tensor, steps: int) -> tuple[float, float, float]:
        gains = measures.power_norms(W, max(steps, STEPS))[1:]
        v = SimpleNamespace(
            W=W,
            steps=steps,
            all_gains=gains,
            gains=gains[:steps],
            eigenvalues=torch.linalg.eigvals(W),
        )
        return (
            float(v.gains[0] if first is None else first(v)),
            float(v.gains.max() if peak is None else peak(v)),
            float(measures.spectral_radius(W) if rate is None else rate(v)),
        )

    return answer


RESULTS = ("first", "peak", "rate")


@exercise(
    "Exercise 2 (the size of residual branches)",
    "spectral norm of at most 1",
    f"at least 1/{LONGEST} of its length",
    f"at most {LONGEST} times its length",
    f"s K has to be at least {SMALLEST}",
    "K = {}, {} and {}".format(*BRANCHES),
)
def branch_size(student) -> None:
    """student(K): a size s for which (1 + s)^K <= 3, (1 - s)^K >= 1/3 and s K >= 0.5."""
    sizes = [real(student(K), f"the size for K = {K}") for K in BRANCHES]
    if all(_fits(K, size) for K, size in zip(BRANCHES, sizes, strict=True)):
        return
    for message, wrong in SIZES.items():
        if all(math.isclose(wrong(K), size) for K, size in zip(BRANCHES, sizes, strict=True)):
            raise Slip(message)
    for K, size in zip(BRANCHES, sizes, strict=True):
        if not _fits(K, size):
            raise Slip(f"for K = {K} your size is {size:.3g}: {_reason(K, size)}")


def _fits(K: int, size: float) -> bool:
    return _reason(K, size) == ""


def _reason(K: int, size: float) -> str:
    """What a size does wrong in the worst case, or nothing."""
    if not math.isfinite(size) or size < 0:
        return "a size is a number from 0 on."
    if size * K < SMALLEST - 1e-12:
        return "size times K is below 0.5, so the branches are nearly switched off."
    if K * math.log1p(size) > math.log(LONGEST) + 1e-9:
        return "in the worst case the gradient grows to more than three times its length."
    if size >= 1 or K * math.log1p(-size) < -math.log(LONGEST) - 1e-9:
        return "in the worst case less than a third of the gradient is left."
    return ""


def _mirroring_ellipse() -> Tensor:
    """(3, 3): a pair on the left side, which turns on an ellipse, has the radius, 0.94.

    The eigenvalue with the largest real part is 0.85.
    """
    rows = [[-0.8, -1.5, 0.3], [1 / 6, -0.8, 0.2], [0.0, 0.0, 0.85]]
    return torch.tensor(rows, dtype=torch.float64)


def _turning_shear() -> Tensor:
    """(4, 4), not normal: radius 0.9 with complex eigenvalues, first gain 2.3, largest gain 5.6."""
    cos, sin = 0.9 * math.cos(1.0), 0.9 * math.sin(1.0)
    rows = [
        [cos, -sin, 2.0, 0.0],
        [sin, cos, 0.0, -1.0],
        [0.0, 0.0, 0.4, 1.5],
        [0.0, 0.0, 0.0, 0.4],
    ]
    return torch.tensor(rows, dtype=torch.float64)


DEPTH, WIDTH, WANTED = 30, 64, 0.5


@exercise(
    "Exercise 3 (thirty layers without a shortcut)",
    "thirty layers",
    "thirty Linear maps",
    f"at least {WANTED} on the validation pictures",
    f"{WIDTH} by {WIDTH}",
    "at most 400",
)
def deep(net) -> None:
    """net: a trained nn.Sequential of thirty layers that names half of the digits rightly."""
    if not isinstance(net, nn.Sequential):
        raise Slip(f"the check takes a trained nn.Sequential, got a {type(net).__name__}.")
    modules = [module for module in net.modules() if not isinstance(module, nn.Sequential)]
    linears = [m for m in modules if isinstance(m, nn.Linear) and m.weight.shape == (WIDTH, WIDTH)]
    activations = [m for m in modules if type(m).__module__ == "torch.nn.modules.activation"]
    if len(linears) >= DEPTH > len(activations):
        raise Slip(
            f"{len(activations)} activations for {len(linears)} Linear maps: "
            "without one in between, two Linear maps are one."
        )
    if len(linears) < DEPTH:
        raise Slip(
            f"{len(linears)} Linear maps of {WIDTH} by {WIDTH}, expected {DEPTH}: "
            "the depth is the difficulty."
        )
    for module in modules:
        home = type(module).__module__.partition(".")[0]
        if isinstance(module, training.Block):
            raise Slip("a training.Block has a shortcut; this exercise does without one.")
        if home not in ("torch", "normlib"):
            raise Slip(
                f"{type(module).__name__} is a class of your own, which may hide a shortcut; "
                "use layers of torch.nn and normlib.layers."
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
