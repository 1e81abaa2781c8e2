"""Activation functions and saturation against autograd, quadrature and the audited table."""

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from normcourse import draw, measures
from normcourse.measures import ACTIVATIONS, Activation

SWISH = {
    f"swish {beta}": Activation(
        *(functools.partial(f, beta=beta) for f in (measures.swish, measures.swish_slope))
    )
    for beta in (-0.7, 0.3, 2.0)
}
TORCH = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "ReLU": F.relu,
    "leaky ReLU": F.leaky_relu,
    "ELU": F.elu,
    "GELU": F.gelu,
    "SiLU": F.silu,
}


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def phi(x):
    """Distribution function of N(0, 1)."""
    return (1 + math.erf(x / math.sqrt(2))) / 2


# Slopes


@pytest.mark.parametrize("name", [*ACTIVATIONS, *SWISH])
# [EQ-SIGMOID] [EQ-TANH] [EQ-RELU] [EQ-LEAKY-RELU] [EQ-ELU] ...
def test_slopes_are_those_of_autograd(name):
    activation = (ACTIVATIONS | SWISH)[name]
    x = torch.cat([3 * draw(200), number([0.0, 12.0, -12.0])])
    assert_close(
        activation.slope(x), measures.slopes(activation.function, x), rtol=1e-12, atol=1e-15
    )
    for dtype in (torch.float32, torch.bfloat16):
        assert activation.slope(x.to(dtype)).dtype == dtype


def test_the_table_holds_torchs_functions():
    x = 3 * draw(50)
    assert set(TORCH) == set(ACTIVATIONS)
    for name, function in TORCH.items():
        assert_close(ACTIVATIONS[name].function(x), function(x), rtol=1e-14, atol=0)


def test_small_slopes_keep_their_digits():  # s (1 - s) and 1 - tanh^2 as written would be 0 here
    x = number([-40.0, 40.0])
    assert_close(measures.sigmoid_slope(x), torch.exp(-x.abs()), rtol=1e-14, atol=0)
    assert_close(measures.tanh_slope(x / 2), 4 * torch.exp(-x.abs()), rtol=1e-14, atol=0)


def test_swish_between_a_line_and_relu():  # A240
    x = draw(20)
    assert_close(measures.swish(x, 0.0), x / 2)
    assert_close(measures.swish(x), F.silu(x))
    assert_close(measures.swish(x, 1e6), F.relu(x), rtol=0, atol=1e-7)  # at most 0.28 / beta apart


# Quadrature


@pytest.mark.parametrize(
    ("power", "moment"), [(0, 1), (1, 0), (2, 1), (4, 3), (8, 105), (12, 10395)]
)
def test_normal_moments(power, moment):
    got = measures.normal_expectation(lambda z: z**power)
    assert_close(got, number(float(moment)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "GELU", "SiLU"])
def test_smooth_expectations_are_those_of_gauss_hermite(name):
    nodes, weights = np.polynomial.hermite_e.hermegauss(250)
    for function in ACTIVATIONS[name]:
        want = (
            torch.from_numpy(weights)
            @ function(torch.from_numpy(nodes)).square()
            / math.sqrt(2 * math.pi)
        )
        got = measures.normal_expectation(lambda z, f=function: f(z).square())
        assert_close(got, want, rtol=1e-12, atol=0)


def test_kinks_are_split():
    half = number(0.5)
    assert_close(
        measures.normal_expectation(lambda z: F.relu(z).square()), half, rtol=1e-13, atol=0
    )
    assert_close(
        measures.normal_expectation(torch.abs), number(math.sqrt(2 / math.pi)), rtol=1e-13, atol=0
    )
    jump = measures.normal_expectation(lambda z: (z > 0.33).double(), breaks=(0.33,))
    assert_close(jump, number(1 - phi(0.33)), rtol=1e-13, atol=0)
    blind = measures.normal_expectation(lambda z: (z > 0.33).double(), breaks=())
    assert abs(blind - jump) > 1e-4
    # the tails count nothing
    outside = measures.normal_expectation(torch.cos, breaks=(-50.0, 50.0))
    assert_close(outside, number(math.exp(-0.5)), rtol=1e-13, atol=0)


# Thresholds


@pytest.mark.parametrize("epsilon", [0.2, 0.01, 1e-3, 1e-6])
def test_thresholds_of_the_sigmoid(epsilon):  # [EQ-SIGMOID-SETS], A174
    output, slope = measures.sigmoid_thresholds(epsilon)
    assert_close(torch.sigmoid(number(-output)), number(epsilon), rtol=1e-12, atol=0)
    assert_close(measures.sigmoid_slope(number(slope)), number(epsilon), rtol=1e-12, atol=0)


@pytest.mark.parametrize("epsilon", [0.9, 0.2, 0.01, 1e-3, 1e-6])
def test_thresholds_of_tanh(epsilon):  # [EQ-TANH-SETS], A177, A179
    output, slope = measures.tanh_thresholds(epsilon)
    # 1e-16 / epsilon
    assert_close(1 - torch.tanh(number(output)), number(epsilon), rtol=1e-9, atol=0)
    assert_close(measures.tanh_slope(number(slope)), number(epsilon), rtol=1e-9, atol=0)


def test_thresholds_to_four_digits():
    rounded = [round(x, 3) for e in (0.01, 0.001) for x in measures.sigmoid_thresholds(e)]
    assert rounded == [4.595, 4.585, 6.907, 6.906]
    assert [round(x, 3) for x in measures.tanh_thresholds(0.01)] == [2.647, 2.993]


def test_large_thresholds_saturate_everywhere():  # A175
    assert measures.sigmoid_thresholds(0.25).slope == measures.sigmoid_thresholds(0.5).output == 0.0
    assert measures.sigmoid_thresholds(0.4).output > 0
    assert measures.tanh_thresholds(1.0) == measures.tanh_thresholds(1.5) == (0.0, 0.0)
    assert measures.sigmoid_thresholds(0.7) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "x"), [("GELU", -0.751791524693564), ("SiLU", -1.278464542761074)]
)
def test_a_flat_slope_far_from_any_limit(name, x):  # A172: the minimum of GELU and SiLU
    function, slope = ACTIVATIONS[name]
    assert abs(slope(number(x))) < 1e-14
    assert function(number(x)) < -0.16  # the limit is 0


# Bad input


@pytest.mark.parametrize("solve", [measures.sigmoid_thresholds, measures.tanh_thresholds])
@pytest.mark.parametrize("epsilon", [0.0, -0.1, math.nan])
def test_a_threshold_is_positive(solve, epsilon):
    with pytest.raises(ValueError, match="must be above 0"):
        solve(epsilon)
