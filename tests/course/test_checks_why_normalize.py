"""The checks of lesson 00 name the slips people make."""

import math

import pytest
import torch

from normcourse.checks import why_normalize as check
from tests.course.solutions import every_slip

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def no_case(alpha, eps):
    return math.atanh(math.sqrt(1 - eps / alpha)) / alpha


def sigmoid_like(alpha, eps):
    s = (1 + math.sqrt(1 - 4 * eps)) / 2
    return math.log(s / (1 - s))


def minus_one_everywhere(alpha, eps):
    return -1.0 if eps > alpha else no_case(alpha, eps)


def by_torch(alpha, eps):
    return torch.tensor(1 - eps / alpha).sqrt().atanh().item() / alpha


THRESHOLDS = {
    "no alpha in the slope": (
        lambda a, e: math.atanh(math.sqrt(1 - e)) / a,
        "alpha is missing from the slope",
    ),
    "tanh(x)": (lambda a, e: math.atanh(math.sqrt(1 - e)), "that is the threshold of tanh(x)"),
    "output": (lambda a, e: math.atanh(1 - e) / a, "where the OUTPUT comes within eps"),
    "alpha x": (lambda a, e: math.atanh(math.sqrt(1 - e / a)), "that is alpha x"),
    "times alpha": (lambda a, e: math.atanh(math.sqrt(1 - e / a)) * a, "divide by alpha at the end"),
    "no root": (lambda a, e: math.atanh(1 - e / a) / a, "the square root is missing"),
    "eps times alpha": (lambda a, e: math.atanh(math.sqrt(1 - e * a)) / a, "eps / alpha, not eps alpha"),
    "sigmoid": (sigmoid_like, "the sigmoid's threshold"),
    "tail": (lambda a, e: math.log(4 * a / e) / (2 * a), "the tail's approximation"),
    "everywhere forgotten": (no_case, "no slope reaches 0.7"),
    "everywhere forgotten, in torch": (by_torch, "no slope reaches 0.7"),
    "everywhere as -1": (minus_one_everywhere, "off by up to 1"),
    "alpha fixed at 0.5": (lambda a, e: no_case(0.5, e) if e < 0.5 else 0.0, "alpha = 2, eps = 0.2"),
}
VARIANCES = {
    "ReLU": (lambda n, a: 2 / n, "that is ReLU's"),
    "linear": (lambda n, a: 1 / n, "that is a linear layer's"),
    "slope not squared": (lambda n, a: 2 / (1 + a) / n, "square the slope"),
    "halves meet": (lambda n, a: 2 / (1 + a) ** 2 / n, "never meet in one sample"),
    "standard deviation": (lambda n, a: math.sqrt(2 / (1 + a * a) / n), "that is a standard deviation"),
    "factor 2": (lambda n, a: 1 / (1 + a * a) / n, "a factor 2 is missing"),
    "not inverted": (lambda n, a: n * (1 + a * a) / 2, "you need its inverse"),
    "multiplied": (lambda n, a: 2 * (1 + a * a) / n, "the variance must get smaller"),
    "subtracted": (lambda n, a: 2 / (1 - a * a) / n, "both halves add"),
    "torch's default": (lambda n, a: 1 / (3 * n), "torch's default"),
    "a table for one slope": (lambda n, a: 2 / ((1 + 0.36) * n), "for slope 0, which is ReLU"),
}


def growth(first=None, peak=None, rate=None):
    """Exercise 3's answer; each argument replaces one part by a slip of W and the gains of its powers."""

    def student(W, steps):
        gains = [torch.linalg.matrix_norm(torch.linalg.matrix_power(W, t), 2) for t in range(1, steps + 1)]
        return (
            first(W, gains) if first else gains[0].item(),
            peak(W, gains) if peak else max(gains).item(),
            rate(W, gains) if rate else torch.linalg.eigvals(W).abs().max().item(),
        )

    return student


def grows_in_place(W, steps):
    result = growth()(W, steps)
    W *= 0
    return result


def radius(W, gains):
    return torch.linalg.eigvals(W).abs().max().item()


def largest_frobenius(W, gains):
    return max(torch.linalg.matrix_power(W, t).norm().item() for t in range(1, len(gains) + 1))


def largest_elementwise(W, gains):
    return max(torch.linalg.matrix_norm(W**t, 2).item() for t in range(1, len(gains) + 1))


GROWTHS = {
    "first: Frobenius": (growth(first=lambda W, g: torch.linalg.norm(W).item()), "first: the Frobenius norm"),
    "first: radius": (growth(first=radius), "first: an eigenvalue"),
    "first: entry": (growth(first=lambda W, g: W.abs().max().item()), "first: the largest entry"),
    "first: no root": (growth(first=lambda W, g: torch.linalg.eigvalsh(W.T @ W).max()), "a root is missing"),
    "peak: bound": (growth(peak=lambda W, g: g[0].item() ** len(g)), "peak: the bound sigma_max^steps"),
    "peak: last": (growth(peak=lambda W, g: g[-1].item()), "peak: that is the last step"),
    "peak: first": (growth(peak=lambda W, g: g[0].item()), "peak: that is the first step"),
    "peak: element-wise": (growth(peak=largest_elementwise), "W ** t is element-wise"),
    "peak: radius": (growth(peak=radius), "peak: eigenvalues do not see it"),
    "peak: Frobenius": (growth(peak=largest_frobenius), "peak: the Frobenius norm"),
    "peak: one step short": (lambda W, n: growth()(W, n - 1), "the last step counts, too"),
    "peak: steps ignored": (lambda W, n: growth()(W, 40), "yours looks beyond `steps`"),
    "rate: sigma": (growth(rate=lambda W, g: g[0].item()), "rate: singular values only bound it"),
    "rate: real part": (growth(rate=lambda W, g: torch.linalg.eigvals(W).real.max()), "not the real part"),
    "rate: eigvalsh": (
        growth(rate=lambda W, g: torch.linalg.eigvalsh(W).abs().max()),
        "as if W were symmetric",
    ),
    "rate: all steps": (growth(rate=lambda W, g: g[-1].item()), "the gain of all steps together"),
    "rate: radius^steps": (growth(rate=lambda W, g: radius(W, g) ** len(g)), "radius^steps"),
    "rate: smallest": (
        growth(rate=lambda W, g: torch.linalg.eigvals(W).abs().min()),
        "the LARGEST eigenvalue",
    ),
    "rate: complex": (growth(rate=lambda W, g: torch.linalg.eigvals(W)[0]), "expected a number"),
    "two parts": (lambda W, steps: growth()(W, steps)[:2], "expected a tuple (first, peak, rate)"),
    "in place": (grows_in_place, "W was changed in place"),
}


def by_moments(q, k):
    """A scale from d times what q(mean, std) and k(mean, std) give."""
    return lambda d, mq, sq, mk, sk: 1 / math.sqrt(d * (q(mq, sq) * k(mk, sk)))


def variance_of_logit(d, mq, sq, mk, sk):
    return d * (sq**2 * sk**2 + sq**2 * mk**2 + sk**2 * mq**2)


def exchanged(d, mq, sq, mk, sk):
    return 1 / math.sqrt(d * (sq**2 * sk**2 + sq**2 * mq**2 + sk**2 * mk**2))


def std_for_variance(d, mq, sq, mk, sk):
    return 1 / math.sqrt(d * (sq * sk + sq * mk**2 + sk * mq**2))


SCALES = {
    "1 / sqrt(d)": (lambda d, *moments: d**-0.5, "for means 0 and variances 1 only"),
    "1 / d": (lambda d, *moments: 1 / d, "1/d is for a mean"),
    "no means": (by_moments(lambda m, s: s**2, lambda m, s: s**2), "the means are missing"),
    "E q^2 E k^2": (by_moments(*[lambda m, s: s**2 + m**2] * 2), "that is E q^2 E k^2"),
    "exchanged": (exchanged, "the means are exchanged"),
    "by the variance": (lambda *m: 1 / variance_of_logit(*m), "not by its variance"),
    "standard deviation": (lambda *m: math.sqrt(variance_of_logit(*m)), "the factor is its inverse"),
    "variance": (variance_of_logit, "one over its root"),
    "std for variance": (std_for_variance, "square std_q and std_k"),
    "d forgotten": (lambda d, *m: variance_of_logit(1, *m) ** -0.5, "a sum of d terms"),
    "d fixed": (lambda d, *m: variance_of_logit(64, *m) ** -0.5, "the scale for d = 16"),
}


def norm_of(gradients):
    return math.sqrt(sum(g.square().sum().item() for g in gradients))


def clipped(factor):
    """Exercise 5's answer for a factor(gradients, limit) that is used where the joint norm is too long."""

    def student(gradients, limit):
        f = factor(gradients, limit) if norm_of(gradients) > limit else 1.0
        return [g * f for g in gradients]

    return student


def each_by_its_own(gradients, limit):
    return [g * min(1.0, limit / max(g.norm().item(), 1e-30)) for g in gradients]


def always_stretched(gradients, limit):
    return [g * (limit / max(norm_of(gradients), 1e-30)) for g in gradients]


def zero_over_zero(gradients, limit):
    norm = torch.stack([g.norm() for g in gradients]).norm()
    return [torch.where(norm > limit, g * limit, g * norm) / norm for g in gradients]


def torch_in_place(gradients, limit):
    parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = g
    torch.nn.utils.clip_grad_norm_(parameters, limit)
    return gradients


CLIPS = {
    "each tensor": (each_by_its_own, "by its own norm"),
    "by value": (lambda gs, limit: [g.clamp(-limit, limit) for g in gs], "clips by VALUE"),
    "sum of norms": (clipped(lambda gs, limit: limit / sum(g.norm() for g in gs)), "SUM OF SQUARES"),
    "norm squared": (clipped(lambda gs, limit: limit / norm_of(gs) ** 2), "not by its square"),
    "unit length": (clipped(lambda gs, limit: 1 / norm_of(gs)), "multiply by the limit"),
    "largest tensor": (clipped(lambda gs, limit: limit / max(g.norm() for g in gs)), "not over the largest"),
    "torch's 1e-6": (clipped(lambda gs, limit: limit / (norm_of(gs) + 1e-6)), "torch adds 1e-6"),
    "nothing": (lambda gs, limit: list(gs), "nothing was clipped"),
    "inverse": (clipped(lambda gs, limit: norm_of(gs) / limit), "not by its inverse"),
    "limit fixed": (clipped(lambda gs, limit: 2 / norm_of(gs)), "use `limit`"),
    "stretched": (always_stretched, "yours was stretched"),
    "zeros": (zero_over_zero, "yours divides 0 by 0"),
    "in place": (torch_in_place, "were changed in place"),
    "one vector": (lambda gs, limit: torch.cat([g.reshape(-1) for g in gs]), "a Tensor"),
    "flattened": (lambda gs, limit: [g.reshape(-1) for g in gs], "the shapes that came in"),
}
WRONG = {
    check.threshold: THRESHOLDS,
    check.variance: VARIANCES,
    check.growth: GROWTHS,
    check.scale: SCALES,
    check.clip: CLIPS,
}


@every_slip(WRONG)
def test_a_wrong_answer_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]")
    assert message in verdict


def test_the_unchanged_answers_of_these_tests_are_accepted():  # so each slip above is its one change
    assert check.growth(growth()).startswith("[ok]")
    assert check.clip(clipped(lambda gs, limit: limit / norm_of(gs))).startswith("[ok]")
    assert check.scale(lambda *m: variance_of_logit(*m) ** -0.5).startswith("[ok]")


def test_other_formulas_are_accepted():
    def inverse_cosh(a, e):
        return math.acosh(math.sqrt(a / e)) / a if e < a else 0

    assert check.threshold(inverse_cosh).startswith("[ok]")
    assert check.variance(lambda n, a: 1 / (n * (1 + a * a) / 2)).startswith("[ok]")
    assert check.clip(lambda gs, n: [g * n / max(norm_of(gs), n) for g in gs]).startswith("[ok]")


def test_tensors_and_tuples_are_welcome():
    assert check.growth(lambda W, n: [torch.tensor(v) for v in growth()(W, n)]).startswith("[ok]")
    assert check.clip(lambda gs, n: tuple(clipped(lambda g, m: m / norm_of(g))(gs, n))).startswith("[ok]")
