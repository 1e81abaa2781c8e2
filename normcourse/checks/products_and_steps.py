"""Checks of lesson 00b: a constant for residual branches, the best learning rate.

Each table below maps what a check says to the wrong answer that earns it.
"""

import math
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import draw, measures
from normcourse.checks.probes import call
from normcourse.checks.verdict import Slip, every_case, exercise, parts, real

LONGEST = 3
SMALLEST = 0.5  # of constant times number of blocks: below, the branches are nearly switched off
BRANCHES = (10, 64, 1000)  # numbers of blocks
SIZES = {  # of the number of blocks
    "1 / sqrt(K) is for branches that point in random directions; "
    "here they may all point in one.": (lambda K: K**-0.5),
    "1 / K^2 switches the branches off: s times K has to be at least 0.5.": lambda K: K**-2,
    "0 switches the branches off: s times K has to be at least 0.5.": lambda K: 0.0,
    "1 leaves the branch as it is: each block may double the gradient.": lambda K: 1.0,
    "3 / K: the K-th power of 1 + 3 / K is about 20; what grows is a power, not a sum.": lambda K: (
        3 / K
    ),
    "2 / K: the K-th power of 1 + 2 / K is about 7; what grows is a power, not a sum.": lambda K: (
        2 / K
    ),
    "1 / 3 is the share that must be left at the end, not the constant of one branch.": lambda K: (
        1 / 3
    ),
    "ln(3) / K keeps the growth below 3, but a shrinking gradient falls just below a third.": (
        lambda K: math.log(3) / K
    ),
    "3^(1/K) - 1 lets a gradient grow to exactly 3 times its length, but a shrinking one falls "
    "just below a third.": lambda K: 3 ** (1 / K) - 1,
}
RATE = {  # v: the inputs X, their number N, the smallest and the largest curvature m and M
    "rate: N is missing; the curvatures are eigenvalues of X^T X / N.": lambda v: (
        2 / (v.M + v.m) / v.N
    ),
    "rate: those are singular values of X / sqrt(N); the curvatures are their squares.": lambda v: (
        2 / (math.sqrt(v.M) + math.sqrt(v.m))
    ),
    "rate: those are singular values of X; the curvatures are their squares over N.": lambda v: (
        2 / (math.sqrt(v.M * v.N) + math.sqrt(v.m * v.N))
    ),
    "rate: 1/M is the cautious rate; a larger one leaves less of the slowest direction.": (
        lambda v: 1 / v.M
    ),
    "rate: 2/M is the edge: along the largest curvature nothing is gained any more. "
    "(If your smallest curvature is 0: X X^T has zeros that X^T X has not.)": lambda v: 2 / v.M,
    "rate: divide by N, the number of rows, as the loss does; not by N - 1.": lambda v: (
        2 / (v.M + v.m) * (v.N - 1) / v.N
    ),
    "rate: divide by N, the number of rows, not by the number of features.": lambda v: (
        2 / (v.M + v.m) * v.X.shape[1] / v.N
    ),
    "rate: the two parts are swapped: first the rate, then the share.": lambda v: (
        (v.M - v.m) / (v.M + v.m)
    ),
    "rate: those are variances; the mean belongs to the inputs, and the features work together, so "
    "take eigenvalues of X^T X / N.": lambda v: _best(v.X.var(0))[0],
    "rate: take the middle of the smallest and the largest curvature, not the mean of all.": (
        lambda v: 1 / _curvatures(v.X).mean()
    ),
    "rate: 1/m is made for the smallest curvature; along the largest it explodes.": lambda v: (
        1 / v.m
    ),
    "rate: the factor 1/2 of the loss is already in X^T X / N: the rate is 2/(M + m).": (
        lambda v: 1 / (v.M + v.m)
    ),
    "rate: M and m are added, not subtracted: 1 - rate m = rate M - 1.": lambda v: 2 / (v.M - v.m),
    "rate: the mean belongs to the inputs; X^T X / N subtracts none.": lambda v: _best(
        _curvatures(v.X - v.X.mean(0))
    )[0],
    "rate: the features work together; take eigenvalues of X^T X / N, not its diagonal.": (
        lambda v: _best(v.X.square().mean(0))[0]
    ),
    "rate: torch.cov subtracts the means and divides by N - 1; X^T X / N does neither.": (
        lambda v: _best(torch.linalg.eigvalsh(v.X.T.cov()))[0]
    ),
    "rate: a feature divided by its length has another curvature; take X as it comes.": (
        lambda v: _best(_curvatures(v.X / v.X.norm(dim=0)))[0]
    ),
    "rate: standardized features have other curvatures; take X as it comes.": (
        lambda v: _best(_curvatures((v.X - v.X.mean(0)) / v.X.std(0)))[0]
    ),
}
SHARE = {
    "share: 1 - m/M belongs to the cautious rate 1/M.": lambda v: 1 - v.m / v.M,
    "share: that is the share that a step takes away; what is left is 1 minus it.": lambda v: (
        2 * v.m / (v.M + v.m)
    ),
    "share: m/M is one over the condition number.": lambda v: v.m / v.M,
    "share: that is the condition number, M/m.": lambda v: v.M / v.m,
    "share: that is for the loss; of the distance its root is left.": lambda v: (
        ((v.M - v.m) / (v.M + v.m)) ** 2
    ),
    "share: a share of a distance is not negative; take the absolute value.": lambda v: (
        (v.m - v.M) / (v.M + v.m)
    ),
    "share: those are singular values of X; the curvatures are their squares over N.": lambda v: (
        (math.sqrt(v.M) - math.sqrt(v.m)) / (math.sqrt(v.M) + math.sqrt(v.m))
    ),
    "share: the mean belongs to the inputs; X^T X / N subtracts none.": lambda v: _best(
        _curvatures(v.X - v.X.mean(0))
    )[1],
    "share: the features work together; take eigenvalues of X^T X / N, not its diagonal.": (
        lambda v: _best(v.X.square().mean(0))[1]
    ),
}


@exercise(
    "Exercise 1 (a constant for any depth)",
    "spectral norm of at most 1",
    f"at least 1/{LONGEST} of its length",
    f"at most {LONGEST} times its length",
    f"s K has to be at least {SMALLEST}",
    "K = {}, {} and {}".format(*BRANCHES),
)
def branch_size(student) -> None:
    """student(K): a constant s for which (1 + s)^K <= 3, (1 - s)^K >= 1/3 and s K >= 0.5."""
    sizes = [real(student(K), f"s for K = {K}") for K in BRANCHES]
    if all(_fits(K, size) for K, size in zip(BRANCHES, sizes, strict=True)):
        return
    for message, wrong in SIZES.items():
        if all(math.isclose(wrong(K), size) for K, size in zip(BRANCHES, sizes, strict=True)):
            raise Slip(message)
    for K, size in zip(BRANCHES, sizes, strict=True):
        if not _fits(K, size):
            raise Slip(f"for K = {K} your s is {size:.3g}: {_reason(K, size)}")


def _fits(K: int, size: float) -> bool:
    return _reason(K, size) == ""


def _reason(K: int, size: float) -> str:
    """What a constant does wrong in the worst case, or nothing."""
    if not math.isfinite(size) or size < 0:
        return "s must be finite and not negative."
    if size * K < SMALLEST - 1e-12:
        return "s times K is below 0.5, so the branches are nearly switched off."
    if K * math.log1p(size) > math.log(LONGEST) + 1e-9:
        return "in the worst case the gradient grows to more than three times its length."
    if size >= 1 or K * math.log1p(-size) < -math.log(LONGEST) - 1e-9:
        return "in the worst case less than a third of the gradient is left."
    return ""


@exercise("Exercise 2 (the best rate)")
def best_rate(student) -> None:
    """student(X) -> (best learning rate, share of the distance that a step leaves at worst)."""
    with every_case() as cases:
        for X in (_features(40, 3, seed=1), _features(60, 5, seed=2)):
            got = parts(call(student, X=X), *RESULTS)
            curvatures = _curvatures(X)
            m = curvatures.min().item()
            M = curvatures.max().item()
            v = SimpleNamespace(X=X, N=len(X), m=m, M=M)
            truth = measures.best_step(m, M)
            for name, value, want, table in zip(RESULTS, got, truth, (RATE, SHARE), strict=True):
                slips = {message: float(wrong(v)) for message, wrong in table.items()}
                what = f"{name}, for {len(X)} rows of {X.shape[1]} features,"
                cases.expect(value, want, slips, what)


RESULTS = ("rate", "share")


def _features(rows: int, columns: int, seed: int) -> Tensor:
    """(rows, columns): features of several sizes, with means that are not 0."""
    sizes = torch.linspace(0.5, 2.0, columns)
    means = torch.linspace(0.8, -0.4, columns)
    return means + sizes * draw(rows, columns, seed=seed)


def _curvatures(X: Tensor) -> Tensor:
    """The eigenvalues of X^T X / N, the smallest first."""
    return torch.linalg.eigvalsh(X.T @ X / len(X))


def _best(curvatures: Tensor) -> tuple[float, float]:
    return measures.best_step(curvatures.min().item(), curvatures.max().item())
