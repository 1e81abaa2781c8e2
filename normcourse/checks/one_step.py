"""Checks of lesson 00c: the best rate, clipping, the scale of a logit, inputs without units.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import draw, measures
from normcourse.checks.probes import call
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, every_case, exercise, expect, parts

LIMIT = 2.0

RATE = {  # v: the inputs X, their number N, the smallest and the largest curvature m and M
    "rate: N is missing; the curvatures are eigenvalues of X^T X / N.": lambda v: (
        2 / (v.M + v.m) / v.N
    ),
    "rate: those are singular values of X / sqrt(N); the curvatures are their squares.": lambda v: (
        2 / (math.sqrt(v.M) + math.sqrt(v.m))
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
    "rate: the two parts are exchanged: first the rate, then the share.": lambda v: (
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
    "rate: 1/(M + m) is half of it; the loss has its own factor of a half.": lambda v: (
        1 / (v.M + v.m)
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
CLIPS = {  # gradients g, their joint norm n -> the clipped gradients
    "each tensor was clipped by its own norm, which turns the whole.": lambda g, n: [
        t * LIMIT / t.norm() for t in g
    ],
    "that clips by VALUE, entry by entry, which turns the whole.": lambda g, n: [
        t.clamp(-LIMIT, LIMIT) for t in g
    ],
    "the joint norm is the root of the SUM OF SQUARES of the norms, not the sum of the norms.": (
        lambda g, n: [t * LIMIT / sum(s.norm() for s in g) for t in g]
    ),
    "divide by the norm, not by its square.": lambda g, n: [t * LIMIT / n**2 for t in g],
    "that has length 1; multiply by the limit.": lambda g, n: [t / n for t in g],
    "the norm runs over ALL tensors, not over the largest one.": (
        lambda g, n: [t * LIMIT / max(s.norm() for s in g) for t in g]
    ),
    "the norm is no largest entry; take the root of the sum of all squares.": lambda g, n: [
        t * LIMIT / max(s.abs().max() for s in g) for t in g
    ],
    "the norm is no mean over the tensors: do not divide it by their number.": lambda g, n: [
        t * LIMIT * len(g) / n for t in g
    ],
    "torch adds 1e-6 to the norm; here the length is exactly the limit.": (
        lambda g, n: [t * LIMIT / (n + 1e-6) for t in g]
    ),
    "nothing was clipped, though the joint norm is above the limit.": lambda g, n: g,
    "multiply by limit / norm, not by its inverse.": lambda g, n: [t * n / LIMIT for t in g],
    "a gradient above the limit is shortened, not dropped.": lambda g, n: [0 * t for t in g],
    "a norm adds up the squares of all entries; yours takes their mean.": lambda g, n: [
        t * LIMIT * math.sqrt(len(_flat(g))) / n for t in g
    ],
    "a norm adds up the squares of all entries; yours takes a mean in each tensor.": (
        lambda g, n: [t * LIMIT / math.sqrt(sum(s.square().mean() for s in g)) for t in g]
    ),
}
LARGEST = 4.0  # condition number that exercise 4 allows
UNITS = {  # of the inputs X
    "nothing was changed: the columns still have their units.": lambda X: X,
    "one size for all columns leaves the units as they are; take one a column.": lambda X: (
        (X - X.mean()) / X.std()
    ),
    "that divides each ROW by its size; the units belong to the columns.": lambda X: (
        (X - X.mean(1, keepdim=True)) / X.std(1, keepdim=True)
    ),
    "the sizes of the columns are 1, but two of them are nearly constant and so nearly the same; "
    "subtract each column's mean first.": lambda X: X / X.square().mean(0).sqrt(),
    "divided by their standard deviations alone, columns with large means stay large; "
    "subtract each column's mean first.": lambda X: X / X.std(0),
    "the means are gone, the units are not: divide each column by its size.": lambda X: (
        X - X.mean(0)
    ),
    "divide by the standard deviation, not by the variance.": lambda X: (X - X.mean(0)) / X.var(0),
    "divided by its largest value, a column keeps its mean; subtract the mean first.": lambda X: (
        X / X.abs().amax(0)
    ),
    "from 0 to 1 each column keeps a mean, and columns with means are alike; "
    "subtract each column's mean.": lambda X: (X - X.amin(0)) / (X.amax(0) - X.amin(0)),
    "divided by its mean, a column has the mean 1, and all columns are alike; "
    "subtract the mean, and divide by the spread.": lambda X: X / X.mean(0),
    "one size for all columns leaves the units; so do not divide by the size of all X.": (
        lambda X: X / X.std()
    ),
    "divided by their mean sizes alone, columns with large means stay alike; "
    "subtract each column's mean first.": lambda X: X / X.abs().mean(0),
    "subtract the mean first: divided first, a column is moved by a mean of the wrong size.": (
        lambda X: X / X.std(0) - X.mean(0)
    ),
}


@exercise("Exercise 1 (the best rate)")
def best_rate(student) -> None:
    """student(X) -> (best learning rate, share of the distance that a step leaves at worst)."""
    with every_case():
        for X in (_features(40, 3, seed=1), _features(60, 5, seed=2)):
            got = parts(call(student, X=X), *RESULTS)
            curvatures = _curvatures(X)
            m = curvatures.min().item()
            M = curvatures.max().item()
            v = SimpleNamespace(X=X, N=len(X), m=m, M=M)
            truth = measures.best_step(m, M)
            for name, value, want, table in zip(RESULTS, got, truth, (RATE, SHARE), strict=True):
                slips = {message: float(wrong(v)) for message, wrong in table.items()}
                expect(value, want, slips, f"{name}, for {len(X)} rows of {X.shape[1]} features,")


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


@exercise(
    "Exercise 2 (clip by norm, all tensors together)", "nothing is written into those that came in"
)
def clip(student) -> None:
    """student(gradients, limit): new tensors with a joint norm of at most limit, direction kept."""
    long = [torch.tensor(v, dtype=torch.float64) for v in ([[3.0, -1.0], [0.5, 8.0]], [6.0, 0.0])]
    norm = _flat(long).norm()
    slips = {message: _flat(wrong(long, norm)) for message, wrong in CLIPS.items()}
    expect(
        _clipped(student, long),
        _flat(measures.clip_by_norm(long, LIMIT)),
        slips,
        "the clipped gradient",
    )
    short = [g / 100 for g in long]
    slips = {
        "a gradient shorter than the limit stays as it is; yours was stretched.": _flat(long)
        * LIMIT
        / norm
    }
    expect(_clipped(student, short), _flat(short), slips, "a gradient below the limit")
    expect(
        _clipped(student, long, 5.0),
        _flat(measures.clip_by_norm(long, 5.0)),
        {"with another limit the length is still 2: use `limit`.": _flat(long) * LIMIT / norm},
        "the gradient clipped at 5",
    )
    if not _clipped(student, [torch.zeros_like(g) for g in long]).eq(0).all():
        raise Slip("a gradient of zeros must stay zero; yours divides 0 by 0.")


@exercise("Exercise 4 (inputs without units)", f"at most {LARGEST:.0f}", "four features")
def units(student) -> None:
    """student(X): the inputs, shifted and scaled, with a condition number of at most 4."""
    given = (_in_units(300, seed=3), _in_units(500, seed=4))
    gots = [_transformed(student, X) for X in given]
    for message, wrong in UNITS.items():
        if all(
            torch.allclose(got, wrong(X), rtol=1e-6) for got, X in zip(gots, given, strict=True)
        ):
            raise Slip(message)
    for got, X in zip(gots, given, strict=True):
        if _lost(got, X) > 1e-3:
            raise Slip(
                "the inputs cannot be got back from your columns by shifts, scalings and mixtures: "
                "something is lost, so a linear layer would learn another task."
            )
        condition = measures.condition_number(got.T @ got / len(got)).item()
        if condition > LARGEST:
            raise Slip(f"the condition number is {condition:.3g}, wanted at most {LARGEST:.0f}.")


def _transformed(student, X: Tensor) -> Tensor:
    got = call(student, X=X)
    if not isinstance(got, Tensor) or got.shape != X.shape:
        shape = f" of shape {tuple(got.shape)}" if isinstance(got, Tensor) else ""
        raise Slip(f"the result is {describe(got)}{shape}, expected a tensor of {tuple(X.shape)}.")
    got = got.to(torch.float64)
    if not got.isfinite().all():
        raise Slip("the result holds NaN or infinity.")
    return got


def _in_units(rows: int, seed: int) -> Tensor:
    """(rows, 4): features in four units; the last two have a mean far from 0."""
    means = torch.tensor([0.0, 0.0, 50.0, 0.3])
    sizes = torch.tensor([1000.0, 0.01, 2.0, 0.01])
    return means + sizes * draw(rows, 4, seed=seed)


def _lost(got: Tensor, X: Tensor) -> float:
    """The largest share of a column of X that no mixture of got's columns and a constant gives."""
    constant = torch.ones(len(got), 1)
    basis = torch.cat([got / got.abs().amax().clamp(min=1e-300), constant], 1)
    standard = (X - X.mean(0)) / X.std(0)
    fitted = basis @ (torch.linalg.pinv(basis, rtol=1e-12) @ standard)
    return (standard - fitted).square().mean(0).sqrt().max().item()


def _flat(tensors) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


def _clipped(student, gradients: list[Tensor], limit: float = LIMIT) -> Tensor:
    """What the student makes, in one vector; Slip if it wrote into them or changed shapes."""
    given = [g.clone() for g in gradients]
    got = parts(student(given, limit), *(f"tensor {i + 1}" for i in range(len(gradients))))
    if len(given) != len(gradients) or not all(map(torch.equal, given, gradients)):
        raise Slip("the gradients that came in were changed in place; return new tensors.")
    if [getattr(t, "shape", None) for t in got] != [g.shape for g in gradients]:
        raise Slip("return a list of tensors with the shapes that came in.")
    return _flat(got)
