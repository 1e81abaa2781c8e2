"""Checks of lesson 00: saturation of tanh, He for leaky ReLU, powers of a matrix, logits, clipping.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import measures
from normcourse.checks.probes import call
from normcourse.checks.verdict import Slip, exercise, expect, parts

ALPHA, EPS = 0.5, 0.01  # a slope at 0 that is not 1
FAN_IN, SLOPE = 50, 0.6
MOMENTS = {"d": 64, "mean_q": 0.5, "std_q": 1.5, "mean_k": -2.0, "std_k": 0.7}
STEPS, LIMIT = 40, 2.0

THRESHOLDS = {  # of alpha a and eps e
    "alpha is missing from the slope: it is alpha (1 - tanh^2), so compare tanh^2 with 1 - eps / alpha.": (
        lambda a, e: math.atanh(math.sqrt(1 - e)) / a
    ),
    "alpha is missing: that is the threshold of tanh(x).": lambda a, e: math.atanh(math.sqrt(1 - e)),
    "that is where the OUTPUT comes within eps of its limit; the slope gets small elsewhere.": (
        lambda a, e: math.atanh(1 - e) / a
    ),
    "that is alpha x; divide by alpha to get x.": lambda a, e: math.atanh(math.sqrt(1 - e / a)),
    "divide by alpha at the end, do not multiply.": lambda a, e: math.atanh(math.sqrt(1 - e / a)) * a,
    "tanh^2 = 1 - eps / alpha: the square root is missing.": lambda a, e: math.atanh(1 - e / a) / a,
    "the slope at 0 is alpha: eps / alpha, not eps alpha.": lambda a, e: math.atanh(math.sqrt(1 - e * a)) / a,
    "that is the sigmoid's threshold.": lambda a, e: measures.sigmoid_thresholds(e).slope,
    "that is the tail's approximation 4 alpha exp(-2 alpha x) = eps; solve exactly.": (
        lambda a, e: math.log(4 * a / e) / (2 * a)
    ),
}
VARIANCES = {  # of fan-in n and slope a
    "that is ReLU's: here the negative half is not lost, it comes through with the slope.": lambda n, a: (
        2 / n
    ),
    "that is a linear layer's: the activation is missing.": lambda n, a: 1 / n,
    "square the slope: E h^2 gets slope^2 from the negative half.": lambda n, a: 2 / ((1 + a) * n),
    "the two halves never meet in one sample: 1 + slope^2, not (1 + slope)^2.": (
        lambda n, a: 2 / ((1 + a) ** 2 * n)
    ),
    "that is a standard deviation; the question asks for a variance.": (
        lambda n, a: math.sqrt(2 / ((1 + a**2) * n))
    ),
    "each half has probability 1/2: a factor 2 is missing.": lambda n, a: 1 / ((1 + a**2) * n),
    "that is what a layer of variance 1 does to E h^2; you need its inverse.": lambda n, a: (
        n * (1 + a**2) / 2
    ),
    "a slope makes E h^2 larger, so the variance must get smaller.": lambda n, a: 2 * (1 + a**2) / n,
    "both halves add to E h^2: 1 + slope^2, not 1 - slope^2.": lambda n, a: 2 / ((1 - a**2) * n),
    "that is torch's default for nn.Linear, which keeps nothing.": lambda n, a: 1 / (3 * n),
}
FIRST = {  # v: the matrix W, its powers' norms gains, its eigenvalues
    "first: the Frobenius norm is no gain; take the largest singular value.": lambda v: v.W.norm(),
    "first: an eigenvalue is the rate of the long run; one step can do more.": lambda v: (
        v.eigenvalues.abs().max()
    ),
    "first: the largest entry is no gain; take the largest singular value.": lambda v: v.W.abs().max(),
    "first: W^T W has squared singular values; a root is missing.": lambda v: v.gains[0] ** 2,
}
PEAK = {
    "peak: the bound sigma_max^steps, which nothing reaches; take the norm of W^t itself.": (
        lambda v: v.gains[0] ** STEPS
    ),
    "peak: that is the last step; take the largest over all steps.": lambda v: v.gains[-1],
    "peak: that is the first step; W^t goes on growing for a while.": lambda v: v.gains[0],
    "peak: W ** t is element-wise; use torch.linalg.matrix_power.": (
        lambda v: max(measures.spectral_norm(v.W**t) for t in range(1, STEPS + 1))
    ),
    "peak: eigenvalues do not see it; take singular values of W^t.": lambda v: v.eigenvalues.abs().max(),
    "peak: the Frobenius norm is no gain; take the largest singular value of W^t.": (
        lambda v: max(torch.linalg.matrix_power(v.W, t).norm() for t in range(1, STEPS + 1))
    ),
}
RATE = {
    "rate: singular values only bound it; the long run belongs to the eigenvalues.": lambda v: v.gains[0],
    "rate: an eigenvalue may be complex; take abs, not the real part.": lambda v: v.eigenvalues.real.max(),
    "rate: eigvalsh reads one triangle as if W were symmetric; use eigvals.": (
        lambda v: torch.linalg.eigvalsh(v.W).abs().max()
    ),
    "rate: that is the gain of all steps together; the rate is per step.": lambda v: v.gains[-1],
    "rate: that is radius^steps; the rate is per step.": lambda v: v.eigenvalues.abs().max() ** STEPS,
    "rate: in the long run the LARGEST eigenvalue wins.": lambda v: v.eigenvalues.abs().min(),
}
SCALES = {  # v: MOMENTS and the variance of the logit
    "1/sqrt(d) is right for means 0 and variances 1 only.": lambda v: v.d**-0.5,
    "1/d is for a mean of d terms; a sum of d independent ones has d times the variance.": lambda v: 1 / v.d,
    "the means are missing: where q's mean is not 0, k's variance passes through it.": (
        lambda v: 1 / (math.sqrt(v.d) * v.std_q * v.std_k)
    ),
    "that is E q^2 E k^2; take the squared mean of the product off it.": (
        lambda v: 1 / math.sqrt(v.d * (v.std_q**2 + v.mean_q**2) * (v.std_k**2 + v.mean_k**2))
    ),
    "the means are exchanged: q's variance goes with k's mean, and the reverse.": (
        lambda v: (
            1
            / math.sqrt(
                v.d * ((v.std_q * v.std_k) ** 2 + (v.std_q * v.mean_q) ** 2 + (v.std_k * v.mean_k) ** 2)
            )
        )
    ),
    "divide by the standard deviation of the logit, not by its variance.": lambda v: 1 / v.variance,
    "that is the standard deviation of the logit; the factor is its inverse.": lambda v: math.sqrt(
        v.variance
    ),
    "that is the variance of the logit; the factor is one over its root.": lambda v: v.variance,
    "a std is not a variance: square std_q and std_k.": (
        lambda v: 1 / math.sqrt(v.d * (v.std_q * v.std_k + v.std_q * v.mean_k**2 + v.std_k * v.mean_q**2))
    ),
    "d is missing: the logit is a sum of d terms.": lambda v: math.sqrt(v.d / v.variance),
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
    "torch adds 1e-6 to the norm; here the length is exactly the limit.": (
        lambda g, n: [t * LIMIT / (n + 1e-6) for t in g]
    ),
    "nothing was clipped, though the joint norm is above the limit.": lambda g, n: g,
    "multiply by limit / norm, not by its inverse.": lambda g, n: [t * n / LIMIT for t in g],
}


@exercise("Exercise 1 (where a tanh stops passing gradient)")
def threshold(student) -> None:
    """student(alpha, eps): the |x| beyond which the slope of tanh(alpha x) is below eps, else 0.0."""
    slips = {message: wrong(ALPHA, EPS) for message, wrong in THRESHOLDS.items()}
    want = measures.tanh_thresholds(EPS / ALPHA).slope / ALPHA
    expect(student(ALPHA, EPS), want, slips, "the threshold")
    want = measures.tanh_thresholds(0.1).slope / 2
    expect(student(2.0, 0.2), want, what="the threshold for alpha = 2, eps = 0.2")
    slips = {"at alpha = 0.5 no slope reaches 0.7: every x is beyond the threshold. Return 0.0.": math.nan}
    expect(_or_nan(student, 0.5, 0.7), 0.0, slips, "the threshold for alpha = 0.5, eps = 0.7")


@exercise("Exercise 2 (He's variance for leaky ReLU)")
def variance(student) -> None:
    """student(fan_in, slope): the variance of the weights that keeps E h^2."""
    slips = {message: wrong(FAN_IN, SLOPE) for message, wrong in VARIANCES.items()}
    expect(student(FAN_IN, SLOPE), 2 / ((1 + SLOPE**2) * FAN_IN), slips, "the variance")
    expect(student(8, 0.0), measures.he_variance(8), what="the variance for slope 0, which is ReLU")
    expect(student(8, 1.0), 1 / 8, what="the variance for slope 1, which is a linear layer")


@exercise("Exercise 3 (a matrix that grows first)")
def growth(student) -> None:
    """student(W, steps) -> (gain of W, largest gain of W^t for t = 1..steps, rate for large t)."""
    W = _turning_shear()
    got = parts(call(student, W=W, steps=STEPS), *RESULTS)
    gains = measures.power_norms(W, STEPS)[1:]
    v = SimpleNamespace(W=W, gains=gains, eigenvalues=torch.linalg.eigvals(W))
    truth = (gains[0], gains.max(), measures.spectral_radius(W))
    for name, value, want, table in zip(RESULTS, got, truth, (FIRST, PEAK, RATE), strict=True):
        slips = {message: float(wrong(v)) for message, wrong in table.items()}
        expect(value, want.item(), slips, name)
    peak = parts(call(student, W=W, steps=2), *RESULTS)[1]
    slips = {
        "peak: the last step counts, too: t = 1..steps, and range(1, steps) ends before it.": gains[0].item(),
        "peak: with steps = 2 only two steps count; yours looks beyond `steps`.": gains.max().item(),
    }
    expect(peak, gains[1].item(), slips, "peak for steps = 2, where it still grows,")


RESULTS = ("first", "peak", "rate")


@exercise("Exercise 4 (the scale of a logit)")
def scale(student) -> None:
    """student(d, mean_q, std_q, mean_k, std_k): what gives q.k, of independent entries, variance 1."""
    m = SimpleNamespace(**MOMENTS)
    m.variance = measures.logit_variance(m.d, m.std_q, m.std_k, m.mean_q, m.mean_k)
    slips = {message: wrong(m) for message, wrong in SCALES.items()}
    expect(student(*MOMENTS.values()), m.variance**-0.5, slips, "the scale")
    expect(student(16, 0.0, 1.0, 0.0, 1.0), 0.25, what="the scale for d = 16, means 0 and variances 1")


@exercise("Exercise 5 (clip by norm, all tensors together)")
def clip(student) -> None:
    """student(gradients, limit): new tensors with a joint norm of at most limit, direction kept."""
    long = [torch.tensor(v, dtype=torch.float64) for v in ([[3.0, -1.0], [0.5, 8.0]], [6.0, 0.0])]
    norm = _flat(long).norm()
    slips = {message: _flat(wrong(long, norm)) for message, wrong in CLIPS.items()}
    expect(_clipped(student, long), _flat(measures.clip_by_norm(long, LIMIT)), slips, "the clipped gradient")
    short = [g / 100 for g in long]
    slips = {
        "a gradient shorter than the limit stays as it is; yours was stretched.": _flat(long) * LIMIT / norm
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


def _or_nan(student, *arguments):
    """NaN where the student's formula takes the root of a negative number."""
    try:
        return student(*arguments)
    except (ValueError, TypeError):
        return math.nan


def _turning_shear() -> Tensor:
    """(4, 4), not normal: radius 0.9 with complex eigenvalues, first gain 2.3, largest gain 5.6."""
    cos, sin = 0.9 * math.cos(1.0), 0.9 * math.sin(1.0)
    rows = [[cos, -sin, 2.0, 0.0], [sin, cos, 0.0, -1.0], [0.0, 0.0, 0.4, 1.5], [0.0, 0.0, 0.0, 0.4]]
    return torch.tensor(rows, dtype=torch.float64)


def _flat(tensors) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


def _clipped(student, gradients: list[Tensor], limit: float = LIMIT) -> Tensor:
    """What the student makes of copies, in one vector; Slip if it wrote into them or changed shapes."""
    given = [g.clone() for g in gradients]
    got = parts(student(given, limit), *(f"tensor {i + 1}" for i in range(len(gradients))))
    if len(given) != len(gradients) or not all(map(torch.equal, given, gradients)):
        raise Slip("the gradients that came in were changed in place; return new tensors.")
    if [getattr(t, "shape", None) for t in got] != [g.shape for g in gradients]:
        raise Slip("return a list of tensors with the shapes that came in.")
    return _flat(got)
