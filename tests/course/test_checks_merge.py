"""The merge of lesson 02: each wrong answer is named."""

import pytest

from normcourse.checks import layer_norm as check


def merged(count=None, mean=None, between=None, final=lambda m2, n: m2):
    """A merge with one thing to get wrong at a time."""

    def student(a, b):
        (na, ma, sa), (nb, mb, sb) = a, b
        n, d = na + nb, mb - ma
        joint = mean(na, ma, nb, mb) if mean else ma + d * nb / n
        apart = between(na, nb, d) if between else d**2 * na * nb / n
        return count(na, nb) if count else n, joint, final(sa + sb + apart, n)

    return student


def through_squares(a, b):
    (na, ma, sa), (nb, mb, sb) = a, b
    n, mean = na + nb, (na * ma + nb * mb) / (na + nb)
    return n, mean, sa + na * ma**2 + sb + nb * mb**2 - n * mean**2


MERGE = {
    "count of one side": (merged(count=lambda na, nb: na), "the counts add up"),
    "plain average": (merged(mean=lambda na, ma, nb, mb: (ma + mb) / 2), "plain average"),
    "weights exchanged": (merged(mean=lambda na, ma, nb, mb: (nb * ma + na * mb) / 5), "are exchanged"),
    "sum for the mean": (merged(mean=lambda na, ma, nb, mb: na * ma + nb * mb), "sum of the values"),
    "means added": (merged(mean=lambda na, ma, nb, mb: ma + mb), "added, not averaged"),
    "no distance": (merged(between=lambda na, nb, d: 0.0), "their distance adds"),
    "distance not squared": (merged(between=lambda na, nb, d: d * na * nb / (na + nb)), "comes in squared"),
    "no weight": (merged(between=lambda na, nb, d: d**2), "has a weight"),
    "weight not divided": (
        merged(between=lambda na, nb, d: d**2 * na * nb),
        "weight of the squared distance is too",
    ),
    "sum of the counts": (merged(between=lambda na, nb, d: d**2 * (na + nb)), "PRODUCT of the counts"),
    "one count": (merged(between=lambda na, nb, d: d**2 * na), "not with one"),
    "distance only": (lambda a, b: (5, 6.6, 43.2), "m2 of both sides is missing"),
    "variance": (merged(final=lambda m2, n: m2 / n), "that is the variance"),
    "unbiased variance": (merged(final=lambda m2, n: m2 / (n - 1)), "that is the unbiased variance"),
    "through squares": (through_squares, "lost at mean 1e9"),
    "two results": (lambda a, b: (6.6, 51.2), "expected a tuple (count, mean, m2)"),
}


@pytest.mark.parametrize("case", MERGE)
def test_a_wrong_merge_is_named(case):
    student, message = MERGE[case]
    verdict = check.merge(student)
    assert verdict.startswith("[x]") and message in verdict
