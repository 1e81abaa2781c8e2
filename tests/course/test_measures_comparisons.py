"""Intervals and corrections: against scipy's, and against what they promise."""

import importlib
import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from normcourse import draw, measures


@pytest.fixture(scope="module")
def stats():
    """Imported by the process that needs it: each one that collects would wait two seconds."""
    return importlib.import_module("scipy.stats")


def test_the_interval_and_p_are_scipys(stats):  # [EQ-PAIRED]
    for n, level in ((2, 0.95), (5, 0.9), (10, 0.95)):
        a = draw(n) + 0.5
        b = draw(n, seed=1)
        found = measures.paired(a, b, level)
        want = stats.ttest_rel(a.numpy(), b.numpy())
        low, high = want.confidence_interval(level)
        assert_close(list(found), [float((a - b).mean()), low, high, want.pvalue])


def test_welchs_p_is_scipys(stats):
    for n, m, shift in ((2, 5, 0.0), (10, 10, 1.0), (4, 9, -2.0)):
        a = draw(n) + shift
        b = 3 * draw(m, seed=1)
        want = stats.ttest_ind(a.numpy(), b.numpy(), equal_var=False)
        assert math.isclose(measures.welch(a, b), want.pvalue, rel_tol=1e-9)


def test_differences_that_are_all_the_same():
    a = torch.tensor([3.0, 4.0, 5.0])
    assert measures.paired(a, a) == (0, 0, 0, 1)
    assert measures.paired(a + 2, a) == (2, 2, 2, 0)


def test_five_seeds_hold_the_mean_in_95_of_100_trials():
    draws = torch.randn(4000, 5, generator=torch.Generator().manual_seed(0))
    held = [low < 0 < high for _, low, high, _ in (measures.paired(d, 0 * d) for d in draws)]
    assert abs(sum(held) / 4000 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 4000)


def test_the_quantile_is_scipys(stats):
    for n, level in ((2, 0.95), (5, 0.9), (10, 1 - 0.05 / 96)):
        want = stats.t.ppf((1 + level) / 2, n - 1)
        assert_close(measures.student_quantile(n, level), float(want))


@pytest.mark.parametrize(
    "d, share",
    [
        ([3, 1, 2], 2 / 8),  # all of one sign
        ([-3, 1, -2], 4 / 8),  # 4 is the size of ±(3 - 1 + 2), 6 that of ±(3 + 1 + 2)
        ([0.3, -0.1, -0.2], 1),  # its sum is 0, up to rounding
        ([0, 0], 1),
        ([5], 1),
    ],
)
def test_signs_by_hand(d, share):
    assert measures.sign_flip(torch.tensor(d, dtype=torch.float64)) == share


def test_signs_are_scipys_permutation_test(stats):
    for n in (4, 9, 12):
        d = draw(n, seed=n) + 0.4
        found = stats.permutation_test((d.numpy(),), sum, permutation_type="samples")
        assert_close(measures.sign_flip(d), float(found.pvalue))


def test_the_signs_promise_holds_for_every_symmetric_distribution():
    """Of all choices of signs at most a share x has p at most x: counted, for draws of any kind."""
    for d in (draw(6), draw(6) ** 3, torch.ones(6), torch.tensor([8.0, 4, 2, 1, 1, 1])):
        signs = itertools.product((1.0, -1.0), repeat=6)
        p = torch.tensor([measures.sign_flip(torch.tensor(s) * d) for s in signs])
        for x in p.unique():
            assert (p <= x).double().mean() <= x


CASES = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.5, 0.9], [0.2], [0.001] * 5 + [1.0, 0.02, 0.049]]


@pytest.mark.parametrize("p", CASES)
def test_the_corrections_are_those_of_their_definitions(p, stats):
    """Holm: the least level at which his step-down test rejects; the other by scipy."""
    p = torch.tensor(p, dtype=torch.float64)
    levels = [level / 20000 for level in range(20001)]
    for i, corrected in enumerate(measures.holm(p).tolist()):
        rejected = [level for level in levels if i in step_down(p.tolist(), level)]
        assert not rejected or abs(min(rejected) - corrected) < 1e-4
        assert rejected or corrected == 1
    assert_close(measures.benjamini_hochberg(p).numpy(), stats.false_discovery_control(p.numpy()))


def step_down(p, level):
    """The places that Holm's test rejects: from the smallest on, until one is too large."""
    rejected = []
    for i in sorted(range(len(p)), key=p.__getitem__):
        if p[i] > level / (len(p) - len(rejected)):
            break
        rejected.append(i)
    return rejected


def test_in_a_family_without_effects_holm_errs_in_at_most_5_of_100():
    p = torch.rand(2000, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    alone = sum((row < 0.05).any().item() for row in p) / 2000
    after = sum((measures.holm(row) < 0.05).any().item() for row in p) / 2000
    assert alone > 0.6
    assert after < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


BAD = {
    "lengths": (lambda: measures.paired(draw(3), draw(4)), "one result a seed"),
    "one seed": (lambda: measures.paired(draw(1), draw(1)), "at least 2"),
    "level": (lambda: measures.paired(draw(3), draw(3), 95), "level 95"),
    "one difference": (lambda: measures.student_quantile(1), "at least 2"),
    "percent": (lambda: measures.student_quantile(5, 95), "0 < level < 1"),
    "no differences": (lambda: measures.sign_flip(torch.zeros(0)), "1 to 20"),
    "too many": (lambda: measures.sign_flip(torch.zeros(21)), "1 to 20"),
    "a table": (lambda: measures.sign_flip(torch.zeros(2, 3)), "shape (2, 3)"),
    "not probabilities": (lambda: measures.holm(torch.tensor([0.1, 2.0])), "from 0 to 1"),
    "a matrix": (lambda: measures.benjamini_hochberg(torch.zeros(2, 2)), "shape (2, 2)"),
}


@pytest.mark.parametrize("wrong, message", BAD.values(), ids=BAD)
def test_bad_input_is_refused(wrong, message):
    with pytest.raises(ValueError) as refusal:
        wrong()
    assert message in str(refusal.value)
