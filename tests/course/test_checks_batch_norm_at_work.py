"""The checks of lesson 01a name the slip of wrong answers."""

import pytest
import torch

from normcourse.checks import batch_norm_at_work as check
from tests.course.solutions import wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def weighted(values, counts):
    return (counts[:, None] * values).sum(0) / counts.sum()


def merged(variance):
    """The right mean, and variance(means, mean, variances, counts)."""

    def student(means, variances, counts):
        mean = weighted(means, counts)
        return mean, variance(means, mean, variances, counts)

    return student


def whole(means, mean, variances, counts):  # right
    return weighted(variances + means.square(), counts) - mean.square()


def in_the_dark(means, variances, counts):
    with torch.no_grad():
        return merged(whole)(means, variances, counts)


def deaf_variance(means, variances, counts):
    mean, var = merged(whole)(means, variances, counts)
    return mean, var.detach()


def equal_weights(means, variances, counts):
    mean = means.mean(0)
    return mean, (variances + (means - mean) ** 2).mean(0)


def summed(means, variances, counts):
    mean, var = merged(whole)(means, variances, counts)
    return counts.sum() * mean, counts.sum() * var


MERGE = {
    "average variance": (
        merged(lambda m, mean, v, n: weighted(v, n)),
        "the variances are averaged, and what lies between the GPUs is lost",
    ),
    "plain average variance": (
        merged(lambda m, mean, v, n: v.mean(0)),
        "the variances are averaged without weights",
    ),
    "equal weights": (equal_weights, "weight it by its number of images"),
    "equal weights in the variance": (
        merged(lambda m, mean, v, n: (v + (m - mean) ** 2).mean(0)),
        "the mean is weighted by the counts, the variance is not",
    ),
    "only between": (
        merged(lambda m, mean, v, n: weighted((m - mean) ** 2, n)),
        "add what lies within each of them",
    ),
    "not squared": (
        merged(lambda m, mean, v, n: weighted(v + (m - mean).abs(), n)),
        "the distance of the means is not squared",
    ),
    "unbiased": (
        merged(lambda *all_: whole(*all_) * all_[3].sum() / (all_[3].sum() - 1)),
        "yours divides by m - 1",
    ),
    "mean of squares": (
        merged(lambda m, mean, v, n: weighted(v + m**2, n)),
        "subtract the squared mean",
    ),
    "sums": (summed, "divide by their number"),
    "root": (merged(lambda *all_: whole(*all_).sqrt()), "that is the standard deviation"),
    "no grad": (in_the_dark, "no gradient comes back"),
    "variance detached": (deaf_variance, "the variance: no gradient comes back"),
    "swapped": (lambda *all_: merged(whole)(*all_)[::-1], "mean and variance are swapped"),
    "mean alone": (lambda means, variances, counts: weighted(means, counts), "expected a tuple"),
}

RESCUE = {
    "torch's eps": (1e-5, "try a larger one"),
    "huge": (100.0, "try a smaller one"),
    "zero": (0, "a number above 0"),
    "words": ("large", "expected a number"),
}


def folded(scale=lambda v, gain, eps: gain / torch.sqrt(v + eps), shifted=None):
    def student(weight, bias, mean, var, gain, shift, eps):
        factor = scale(var, gain, eps)
        new_bias = factor * (bias - mean) + shift
        if shifted is not None:
            new_bias = shifted(factor, bias, mean, shift)
        return factor[:, None] * weight, new_bias

    return student


def columns_scaled(weight, bias, mean, var, gain, shift, eps):
    factor = gain / torch.sqrt(var + eps)
    return weight * factor, factor * (bias - mean) + shift


def weight_kept(weight, *rest):
    return weight, folded()(weight, *rest)[1]


FOLD = {
    "weight kept": (weight_kept, "the weight is not scaled"),
    "columns scaled": (columns_scaled, "which are the ROWS"),
    "bias not scaled": (
        folded(shifted=lambda f, b, m, s: b - f * m + s),
        "own bias passes through",
    ),
    "bias forgotten": (folded(shifted=lambda f, b, m, s: s - f * m), "own bias is missing"),
    "mean forgotten": (folded(shifted=lambda f, b, m, s: f * b + s), "the mean is missing"),
    "mean not scaled": (
        folded(shifted=lambda f, b, m, s: f * b - m + s),
        "the mean is scaled, too",
    ),
    "mean added": (folded(shifted=lambda f, b, m, s: f * (b + m) + s), "the mean is subtracted"),
    "shift forgotten": (folded(shifted=lambda f, b, m, s: f * (b - m)), "(shift) is missing"),
    "shift scaled": (folded(shifted=lambda f, b, m, s: f * (b - m + s)), "it is not scaled"),
    "by the variance": (folded(lambda v, gain, eps: gain / (v + eps)), "not by the variance"),
    "multiplied": (folded(lambda v, gain, eps: gain * torch.sqrt(v + eps)), "multiply or divide"),
    "no gain": (folded(lambda v, gain, eps: 1 / torch.sqrt(v + eps)), "the gain is missing"),
    "no eps": (folded(lambda v, gain, eps: gain / torch.sqrt(v)), "eps is missing"),
    "eps outside": (folded(lambda v, gain, eps: gain / (torch.sqrt(v) + eps)), "inside the root"),
    "transposed": (
        lambda weight, *rest: (folded()(weight, *rest)[0].T, folded()(weight, *rest)[1]),
        "yours is transposed",
    ),
    "no gain in the bias": (
        lambda w, b, m, v, gain, shift, eps: (
            folded()(w, b, m, v, gain, shift, eps)[0],
            (b - m) / torch.sqrt(v + eps) + shift,
        ),
        "the gain is missing in the bias",
    ),
    "weight alone": (lambda weight, *rest: weight, "expected a tuple"),
}

WRONG = {
    check.merge: MERGE,
    check.rescue: RESCUE,
    check.fold: FOLD,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


def by_image(means, variances, counts):
    """One entry for each image, as if it were its GPU's mean."""
    repeated = means.repeat_interleave(counts, 0)
    within = variances.repeat_interleave(counts, 0).mean(0)
    return repeated.mean(0), within + repeated.var(0, correction=0)


UNUSUAL = {
    "mean of squares minus square": (check.merge, merged(whole)),
    "an entry for each image": (check.merge, by_image),
    "a tensor": (check.rescue, torch.tensor(0.5)),
    "a matrix": (
        check.fold,
        lambda weight, bias, mean, var, gain, shift, eps: (
            torch.diag(gain * (var + eps) ** -0.5) @ weight,
            shift + (bias - mean) * gain * (var + eps) ** -0.5,
        ),
    ),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_is_accepted(name):
    check_, answer = UNUSUAL[name]
    assert check_(answer).startswith("[ok]")
