"""Clipping and the measures of a run: against torch and by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from normcourse import draw, measures


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def as_gradients(parts):
    parameters = [torch.nn.Parameter(torch.zeros_like(part)) for part in parts]
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.clone()
    return parameters


# Clipping


@pytest.mark.parametrize("threshold", [0.1, 1.0, 100.0])
def test_clipping_is_torchs(threshold):  # [EQ-CLIP-NORM] [EQ-CLIP-VALUE], A200
    parts = [draw(3, 4), draw(5, seed=1), draw(2, seed=2)]
    for ours, theirs in (
        (measures.clip_by_norm, torch.nn.utils.clip_grad_norm_),
        (measures.clip_by_value, torch.nn.utils.clip_grad_value_),
    ):
        parameters = as_gradients(parts)
        theirs(parameters, threshold)
        want = [parameter.grad for parameter in parameters]
        # torch adds 1e-6 to a norm of about 4
        assert_close(ours(parts, threshold), want, rtol=1e-6, atol=0)
        assert_close(ours(parts[0], threshold), ours(parts[:1], threshold)[0])
    assert_close(parts, [draw(3, 4), draw(5, seed=1), draw(2, seed=2)])  # untouched


def test_one_norm_for_all_tensors():  # A200
    clipped = measures.clip_by_norm([number([3.0, 0.0]), number([0.0, 4.0])], 1.0)
    assert_close(clipped, [number([0.6, 0.0]), number([0.0, 0.8])])


def test_what_keeps_the_direction():  # A201
    g = number([30.0, 0.3, 0.3])
    by_norm, by_value = measures.clip_by_norm(g, 1.0), measures.clip_by_value(g, 1.0)
    assert_close(F.cosine_similarity(by_norm, g, dim=0), number(1.0))
    assert round(F.cosine_similarity(by_value, g, dim=0).item(), 3) == 0.926
    small = 0.01 * g
    assert_close(measures.clip_by_norm(small, 1.0), small, rtol=0, atol=0)
    assert_close(measures.clip_by_value(small, 1.0), small, rtol=0, atol=0)
    assert_close(measures.clip_by_norm(torch.zeros(3), 1.0), torch.zeros(3))


def test_a_threshold_by_its_share():  # [EQ-CLIP-QUANTILE]
    norms = number([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0, 10.0])
    shares = (0.05, 0.1, 0.11, 0.3, 0.7, 0.9, 1.0)
    found = [float(measures.clipping_threshold(norms, share)) for share in shares]
    assert found == [1.0, 1.0, 2.0, 3.0, 7.0, 9.0, 10.0]
    assert measures.clipping_threshold(norms) == 9.0
    # one spike does not count
    assert measures.clipping_threshold(number([math.inf, 1.0, 2.0]), 0.6) == 2.0
    # against a search, also where share N is a whole number but for rounding
    for n in range(1, 60):
        norms = draw(n).abs()
        for tenth in range(1, 11):
            fits = [c for c in norms.tolist() if (norms > c).sum() * 10 <= n * (10 - tenth)]
            assert measures.clipping_threshold(norms, tenth / 10) == min(fits)


# Runs


def test_run_stability():  # [EQ-RUN-STABILITY], A90
    assert measures.run_stability([2.0, 4.0, 1.0, 1.0]) == (1.0, 2.0)
    assert measures.run_stability(torch.tensor([2.0])) == (1.0, 1.0)
    for lost in (math.inf, math.nan):
        found = measures.run_stability([1.0, lost, 0.5])
        assert found.mean == found.peak == math.inf


def test_run_speed():  # [EQ-RUN-SPEED], A91
    accuracies, steps = [0.5, 0.9, 0.4, 0.95], [10, 20, 30, 40]
    # at least the level; later falls do not count
    assert measures.run_speed(accuracies, steps) == 1 / 20
    assert measures.run_speed(accuracies, steps, level=0.95) == 1 / 40
    assert measures.run_speed(accuracies, steps, level=0.96) == 0.0
    assert measures.run_speed([], []) == 0.0
    assert measures.run_speed([math.nan, 0.9], [1, 2]) == 0.5


# Bad input


def test_bad_input_is_named():
    g = draw(3)
    cases = [
        (lambda: measures.clip_by_norm(g, 0.0), "must be above 0, got 0.0"),
        (lambda: measures.clip_by_value(g, -1.0), "must be above 0, got -1.0"),
        (lambda: measures.clip_by_value(g, math.nan), "must be above 0, got nan"),
        (lambda: measures.clip_by_norm([], 1.0), "an empty list"),
        (lambda: measures.clipping_threshold(torch.ones(0)), r"got \(0,\)"),
        (lambda: measures.clipping_threshold(torch.ones(2, 2)), r"got \(2, 2\)"),
        (lambda: measures.clipping_threshold(g, 0.0), "and 0.0"),
        (lambda: measures.clipping_threshold(g, 1.1), "and 1.1"),
        (lambda: measures.run_stability([]), "no norms"),
        (lambda: measures.run_stability([0.0, 1.0]), r"got \[0.0\]"),
        (lambda: measures.run_stability([math.nan, 1.0]), r"got \[nan\]"),
        (lambda: measures.run_speed([0.1], [1, 2]), "one for each of 1 accuracies"),
        (lambda: measures.run_speed([0.1, 0.2], [2, 1]), "increasing steps"),
        (lambda: measures.run_speed([0.1, 0.2], [0, 1]), "from 1 on"),
    ]
    for call, said in cases:
        with pytest.raises(ValueError, match=said):
            call()
