"""The checks of lesson 00b name the slips people make."""

import math

import pytest
import torch

from normcourse.checks import products_and_steps as check
from tests.course.solutions import wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


BRANCH_SIZES = {
    "1 / sqrt(K)": (lambda K: K**-0.5, "they may all point in one"),
    "1 / K^2": (lambda K: K**-2, "1 / K^2 switches the branches off"),
    "0": (lambda K: 0.0, "0 switches the branches off"),
    "1": (lambda K: 1.0, "each block may double"),
    "3 / K": (lambda K: 3 / K, "the K-th power of 1 + 3 / K"),
    "2 / K": (lambda K: 2 / K, "the K-th power of 1 + 2 / K"),
    "1 / 3": (lambda K: 1 / 3, "the share that must be left"),
    "ln(3) / K": (lambda K: math.log(3) / K, "just below a third"),
    "third root": (lambda K: 3 ** (1 / K) - 1, "grow to exactly 3 times"),
    "a constant": (lambda K: 0.1, "for K = 64"),
    "for one K only": (lambda K: 1 / 64, "for K = 10"),
    "negative": (lambda K: -1 / K, "not negative"),
    "text": (lambda K: "1 / K", "expected a number"),
}


def best(rate=None, share=None, of=None):
    """Exercise 2's answer; each argument replaces one part by a slip of m and M."""

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


def of_singular_values(X, rows=1):
    values = torch.linalg.svdvals(X) / math.sqrt(rows)
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
    "exchanged": (lambda X: best()(X)[::-1], "the two parts are swapped"),
    "variances": (best(of=lambda X: X.var(0).diag()), "those are variances"),
    "rate: mean": (of_the_mean, "not the mean of all"),
    "rows for columns": (best(of=lambda X: X @ X.T / len(X)), "X X^T has zeros"),
    "rate: 1/m": (best(rate=lambda m, M: 1 / m), "along the largest it explodes"),
    "rate: half": (best(rate=lambda m, M: 1 / (M + m)), "already in X^T X / N"),
    "rate: difference": (best(rate=lambda m, M: 2 / (M - m)), "added, not subtracted"),
    "singular values": (of_singular_values, "singular values of X; the curvatures are their"),
    "singular values over the root of N": (
        lambda X: of_singular_values(X, len(X)),
        "singular values of X / sqrt(N)",
    ),
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


WRONG = {
    check.branch_size: BRANCH_SIZES,
    check.best_rate: RATES,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


# so each slip above is its one change
def test_the_unchanged_answers_of_these_tests_are_accepted():
    assert check.best_rate(best()).startswith("[ok]")


def test_other_right_answers_are_accepted():
    assert check.best_rate(lambda X: [torch.tensor(v) for v in best()(X)]).startswith("[ok]")
    assert check.branch_size(lambda K: 0.5 / K).startswith("[ok]")
    assert check.branch_size(lambda K: 1 - 3 ** (-1 / K)).startswith("[ok]")
    assert check.branch_size(lambda K: torch.tensor(1 / (K + 1))).startswith("[ok]")
