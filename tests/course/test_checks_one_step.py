"""The checks of lesson 00c name the slips people make."""

import math

import pytest
import torch

from normcourse.checks import one_step as check
from tests.course.solutions import wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def best(rate=None, share=None, of=None):
    """Exercise 1's answer; each argument replaces one part by a slip of m and M."""

    def student(X):
        matrix = of(X) if of else X.T @ X / len(X)
        curvatures = torch.linalg.eigvalsh(matrix)
        m = curvatures.min().item()
        M = curvatures.max().item()
        return (
            rate(m, M) if rate else 2 / (M + m),
            share(m, M) if share else (M - m) / (M + m),
        )

    return student


def of_singular_values(X):
    values = torch.linalg.svdvals(X) / math.sqrt(len(X))
    largest = values.max()
    smallest = values.min()
    return 2 / (largest + smallest), (largest - smallest) / (largest + smallest)


def of_the_mean(X):
    curvatures = torch.linalg.eigvalsh(X.T @ X / len(X))
    return 1 / curvatures.mean(), best()(X)[1]


def scaled_in_place(X):
    result = best()(X)
    X /= 2
    return result


RATES = {
    "rate: no N": (best(of=lambda X: X.T @ X), "N is missing"),
    "rate: cautious": (best(rate=lambda m, M: 1 / M), "1/M is the cautious rate"),
    "rate: edge": (best(rate=lambda m, M: 2 / M), "2/M is the edge"),
    "rate: N - 1": (best(of=lambda X: X.T @ X / (len(X) - 1)), "not by N - 1"),
    "rate: features": (best(of=lambda X: X.T @ X / X.shape[1]), "not by the number of features"),
    "exchanged": (lambda X: best()(X)[::-1], "the two parts are exchanged"),
    "variances": (best(of=lambda X: X.var(0).diag()), "those are variances"),
    "rate: mean": (of_the_mean, "not the mean of all"),
    "rows for columns": (best(of=lambda X: X @ X.T / len(X)), "X X^T has zeros"),
    "rate: 1/m": (best(rate=lambda m, M: 1 / m), "along the largest it explodes"),
    "rate: half": (best(rate=lambda m, M: 1 / (M + m)), "1/(M + m) is half of it"),
    "rate: difference": (best(rate=lambda m, M: 2 / (M - m)), "added, not subtracted"),
    "singular values": (of_singular_values, "the curvatures are their squares"),
    "centred": (best(of=lambda X: X.T.cov(correction=0)), "X^T X / N subtracts none"),
    "diagonal": (best(of=lambda X: X.square().mean(0).diag()), "not its diagonal"),
    "covariance": (best(of=lambda X: X.T.cov()), "torch.cov subtracts"),
    "columns of length 1": (lambda X: best()(X / X.norm(dim=0)), "divided by its length"),
    "standardized": (lambda X: best()((X - X.mean(0)) / X.std(0)), "standardized features"),
    "share: cautious": (best(share=lambda m, M: 1 - m / M), "1 - m/M belongs to"),
    "share: taken": (best(share=lambda m, M: 2 * m / (M + m)), "1 minus it"),
    "share: inverse": (best(share=lambda m, M: m / M), "one over the condition number"),
    "share: condition": (best(share=lambda m, M: M / m), "that is the condition number"),
    "share: loss": (best(share=lambda m, M: ((M - m) / (M + m)) ** 2), "that is for the loss"),
    "share: negative": (best(share=lambda m, M: (m - M) / (M + m)), "is not negative"),
    "a number": (lambda X: 1.0, "expected a tuple (rate, share)"),
    "in place": (scaled_in_place, "X was changed in place"),
}


def norm_of(gradients):
    return math.sqrt(sum(g.square().sum().item() for g in gradients))


def clipped(factor):
    """Exercise 2's answer with factor(gradients, limit) where the joint norm is too long."""

    def student(gradients, limit):
        f = factor(gradients, limit) if norm_of(gradients) > limit else 1.0
        return [g * f for g in gradients]

    return student


def each_by_its_own(gradients, limit):
    return [g * min(1.0, limit / max(g.norm().item(), 1e-30)) for g in gradients]


def always_stretched(gradients, limit):
    return [g * (limit / max(norm_of(gradients), 1e-30)) for g in gradients]


def by_mean_of_all(gradients, limit):
    entries = torch.cat([g.reshape(-1) for g in gradients])
    return limit / entries.square().mean().sqrt()


def by_mean_in_each(gradients, limit):
    return limit / math.sqrt(sum(g.square().mean().item() for g in gradients))


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
    "sum of norms": (
        clipped(lambda gs, limit: limit / sum(g.norm() for g in gs)),
        "SUM OF SQUARES",
    ),
    "norm squared": (clipped(lambda gs, limit: limit / norm_of(gs) ** 2), "not by its square"),
    "unit length": (clipped(lambda gs, limit: 1 / norm_of(gs)), "multiply by the limit"),
    "largest tensor": (
        clipped(lambda gs, limit: limit / max(g.norm() for g in gs)),
        "not over the largest",
    ),
    "largest entry": (
        clipped(lambda gs, limit: limit / max(g.abs().max() for g in gs)),
        "the norm is no largest entry",
    ),
    "mean norm": (
        clipped(lambda gs, limit: limit * len(gs) / norm_of(gs)),
        "no mean over the tensors",
    ),
    "torch's 1e-6": (clipped(lambda gs, limit: limit / (norm_of(gs) + 1e-6)), "torch adds 1e-6"),
    "nothing": (lambda gs, limit: list(gs), "nothing was clipped"),
    "inverse": (clipped(lambda gs, limit: norm_of(gs) / limit), "not by its inverse"),
    "dropped": (clipped(lambda gs, limit: 0.0), "shortened, not dropped"),
    "mean of all squares": (clipped(by_mean_of_all), "yours takes their mean"),
    "mean in each tensor": (clipped(by_mean_in_each), "a mean in each tensor"),
    "limit fixed": (clipped(lambda gs, limit: 2 / norm_of(gs)), "use `limit`"),
    "stretched": (always_stretched, "yours was stretched"),
    "zeros": (zero_over_zero, "yours divides 0 by 0"),
    "in place": (torch_in_place, "were changed in place"),
    "one vector": (lambda gs, limit: torch.cat([g.reshape(-1) for g in gs]), "a Tensor"),
    "flattened": (lambda gs, limit: [g.reshape(-1) for g in gs], "the shapes that came in"),
}
UNITS = {
    "unchanged": (lambda X: X.clone(), "nothing was changed"),
    "one size": (lambda X: (X - X.mean()) / X.std(), "take one a column"),
    "rows": (
        lambda X: (X - X.mean(1, keepdim=True)) / X.std(1, keepdim=True),
        "divides each ROW",
    ),
    "size without mean": (lambda X: X / X.square().mean(0).sqrt(), "nearly constant"),
    "std without mean": (lambda X: X / X.std(0), "by their standard deviations alone"),
    "mean alone": (lambda X: X - X.mean(0), "the units are not"),
    "variance": (lambda X: (X - X.mean(0)) / X.var(0), "not by the variance"),
    "largest": (lambda X: X / X.abs().amax(0), "divided by its largest value"),
    "from 0 to 1": (
        lambda X: (X - X.amin(0)) / (X.amax(0) - X.amin(0)),
        "from 0 to 1 each column keeps a mean",
    ),
    "by the mean": (lambda X: X / X.mean(0), "divided by its mean"),
    "size of all": (lambda X: X / X.std(), "by the size of all X"),
    "mean size": (lambda X: X / X.abs().mean(0), "by their mean sizes alone"),
    "order": (lambda X: X / X.std(0) - X.mean(0), "a mean of the wrong size"),
    "zeros": (lambda X: torch.zeros_like(X), "something is lost"),
    "signs": (lambda X: (X - X.mean(0)).sign(), "something is lost"),
    "one column for all": (lambda X: X[:, :1].expand_as(X), "something is lost"),
    "noise": (lambda X: torch.linspace(-1, 1, X.numel()).view_as(X), "something is lost"),
    "too few columns": (lambda X: X[:, :2], "a Tensor of shape"),
    "two parts": (lambda X: (X, X), "expected a tensor"),
    "constants of one data set": (
        lambda X: (X - X.mean(0)) / torch.tensor([10.0, 1.0, 1.0, 1.0]),
        "the condition number is",
    ),
}
WRONG = {
    check.best_rate: RATES,
    check.clip: CLIPS,
    check.units: UNITS,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


# so each slip above is its one change
def test_the_unchanged_answers_of_these_tests_are_accepted():
    assert check.best_rate(best()).startswith("[ok]")
    assert check.clip(clipped(lambda gs, limit: limit / norm_of(gs))).startswith("[ok]")


def whitened(X):
    centred = X - X.mean(0)
    U, _, _ = torch.linalg.svd(centred, full_matrices=False)
    return U * math.sqrt(len(X))


def test_other_right_answers_are_accepted():
    assert check.best_rate(lambda X: [torch.tensor(v) for v in best()(X)]).startswith("[ok]")
    assert check.clip(lambda gs, n: [g * n / max(norm_of(gs), n) for g in gs]).startswith("[ok]")
    as_tuple = clipped(lambda g, m: m / norm_of(g))
    assert check.clip(lambda gs, n: tuple(as_tuple(gs, n))).startswith("[ok]")
    assert check.units(lambda X: (X - X.mean(0)) / X.std(0, correction=0)).startswith("[ok]")
    assert check.units(lambda X: (X - X.mean(0)) / (X - X.mean(0)).abs().amax(0)).startswith("[ok]")
    assert check.units(whitened).startswith("[ok]")
