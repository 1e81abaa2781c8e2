"""Bounds and the best element-wise map against closed forms, quadrature and searches."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from normcourse import draw, measures
from normlib import functional, gradients, layers


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def test_slopes_of_a_layer_leave_nothing_behind():
    layer, x = layers.DyT(3, dtype=torch.float64), draw(5, 3)
    with torch.no_grad():
        got = measures.slopes(layer, x)
    assert_close(got, 0.5 * (1 - torch.tanh(0.5 * x).square()))
    assert not x.requires_grad and not got.requires_grad
    assert all(parameter.grad is None for parameter in layer.parameters())


# Bounds


def steepest(function, width):
    """Largest |f'| and |f''| on a grid that holds 0."""
    x = torch.linspace(-width, width, 20_001, dtype=torch.float64)
    second = torch.func.vmap(torch.func.grad(torch.func.grad(function)))
    return torch.func.vmap(torch.func.grad(function))(x).abs().max(), second(x).abs().max()


@pytest.mark.parametrize("scale", [1.0, 8.0, 0.3])
@pytest.mark.parametrize("parameter", [0.1, 1.7])
def test_bounds_on_a_grid(scale, parameter):  # [EQ-DYT-BOUNDS] [EQ-DYISRU-BOUNDS]
    cases = [
        (functional.dyt, measures.dyt_bounds, 4 * scale / parameter),
        (functional.dyisru, measures.dyisru_bounds, 4 * parameter**0.5),
    ]
    for function, bounds, width in cases:
        found = steepest(lambda x, f=function: -2 * f(x, number(parameter), scale=scale), width)
        for got, want in zip(found, bounds(parameter, scale, number([0.3, -2.0])), strict=True):
            # The peak lies within 2e-4 curve widths of a grid point, so its parabola drops by about
            # 1e-7.
            assert_close(got, number(float(want)), rtol=1e-6, atol=0)
            assert float(got) <= float(want) * (1 + 1e-12)


def test_bounds_in_the_articles_forms():  # A71, A73, A77: alpha = 2, D = 64
    root = 8.0
    lipschitz, smoothness = measures.dyt_bounds(2.0 * root, root)  # sqrt(D) tanh(alpha x)
    assert (lipschitz, round(smoothness, 2)) == (16.0, 24.63)
    assert measures.dyt_bounds(-2.0)[0] == 2.0
    lipschitz, smoothness = measures.dyisru_bounds(4.0, root)
    assert lipschitz == 4.0
    assert_close(smoothness, 1.5 * 0.8**2.5 * root / 4, rtol=1e-14, atol=0)


def test_bounds_hold_for_a_layer():
    layer = layers.DyT(4, 0.7, "sqrt_d", dtype=torch.float64).requires_grad_(False)
    layer.weight.copy_(draw(4))
    bound = measures.dyt_bounds(layer.alpha, layer.scale, layer.weight)[0]
    x = torch.cat([draw(200, 4), torch.zeros(1, 4).double()])
    jacobians = gradients.dyt_jacobian(x, layer.alpha, layer.weight, scale=layer.scale)
    assert_close(measures.spectral_norm(jacobians).max(), bound[0])


# The best element-wise map


def test_conditional_mean_of_a_function_is_the_function():  # [EQ-CONDITIONAL-MEAN]
    x = draw(200, 50)
    knots, values = measures.conditional_mean(x, 2 * x - 1, bins=100)
    assert knots.shape == values.shape == (100,)
    assert_close(values, 2 * knots - 1)  # linear: the mean of the values is the value at the mean
    inside = x.clamp(knots[0], knots[-1])
    assert_close(measures.piecewise_linear(x, knots, values), 2 * inside - 1)


def test_conditional_mean_by_hand():
    x, y = number([[3.0, 1.0], [2.0, 9.0]]), number([[1.0, 10.0], [20.0, 5.0]])
    knots, values = measures.conditional_mean(x, y, bins=2)
    assert_close((knots, values), (number([1.5, 6.0]), number([15.0, 3.0])))
    one = measures.conditional_mean(x, y, bins=1)
    assert_close(one, (number([3.75]), number([9.0])))
    assert_close(measures.piecewise_linear(x, *one), torch.full_like(x, 9.0))


def test_a_column_is_as_good_as_a_copy():  # torch warns of what is not contiguous
    x, y = draw(50, 3), draw(50, 3, seed=1)
    of_column = measures.conditional_mean(x[:, 1], y[:, 1], bins=5)
    of_copy = measures.conditional_mean(x[:, 1].clone(), y[:, 1].clone(), bins=5)
    assert_close(of_column, of_copy)


def test_repeated_values_share_a_bin():
    x = torch.cat([torch.zeros(60), torch.linspace(1, 2, 40)]).double()
    y = torch.arange(100).double()
    knots, values = measures.conditional_mean(x, y, bins=10)
    assert_close((knots[0], values[0]), (number(0.0), y[:60].mean()))
    assert len(knots) == 5 and bool((knots[1:] > knots[:-1]).all())
    everywhere = measures.conditional_mean(torch.ones(9).double(), y[:9], bins=3)
    assert_close(everywhere, (number([1.0]), number([4.0])))


def test_interpolation_by_hand():
    knots, values = number([0.0, 1.0, 3.0]), number([1.0, 3.0, -1.0])
    x = number([[-5.0, 0.0, 0.5], [1.0, 2.5, 4.0]]).T  # not contiguous
    want = number([[1.0, 1.0, 2.0], [3.0, 0.0, -1.0]]).T
    assert_close(measures.piecewise_linear(x, knots, values), want)


@pytest.mark.parametrize("law", ["normal", "outlier", "token scale"])
def test_no_curve_beats_the_conditional_mean(law):  # on data that neither has seen; A19
    def rows(seed):
        x = draw(4000, 16, seed=seed)
        if law == "outlier":
            x[:, 0] *= 30
        if law == "token scale":
            x *= draw(4000, 1, seed=seed + 10).exp()
        return x, functional.rms_norm(x, (16,), eps=0.0)

    (x, y), (x_new, y_new) = rows(0), rows(1)
    best = measures.piecewise_linear(x_new, *measures.conditional_mean(x, y, bins=200))

    def fitted(curve):
        """The error on new data of the multiple of curve(x / width) that fits best."""
        errors = {}
        for width in x.abs().median() * torch.logspace(-1, 2.5, 40):
            values = curve(x / width)
            factor = (values * y).sum() / values.square().sum()
            errors[measures.relative_error(factor * values, y).item()] = (width, factor)
        width, factor = errors[min(errors)]
        return measures.relative_error(factor * curve(x_new / width), y_new)

    for curve in (torch.tanh, functional.isru, F.softsign):
        # 200 knots cost variance
        assert measures.relative_error(best, y_new) < fitted(curve) * 1.005


@pytest.mark.parametrize("true_knee", [0.02, 0.7, 19.0])
def test_best_knee_finds_the_knee_that_made_the_data(true_knee):
    x = draw(400, 3)
    y = torch.tanh(x / true_knee)

    def loss(knee):
        return measures.relative_error(torch.tanh(x / knee), y)

    knee = measures.best_knee(loss, x)
    assert knee.shape == ()
    assert_close(knee.item(), true_knee, rtol=0.01, atol=0)


def test_relative_error_by_hand():  # [EQ-RELATIVE-ERROR]
    t = number([[3.0, 0.0], [0.0, 4.0]])
    assert_close(measures.relative_error(t + number([[0.0, 1.0], [0.0, 0.0]]), t), number(0.2))
    assert_close(measures.relative_error(0 * t, t), number(1.0))


def test_bad_pairs_are_refused():
    x = draw(4)
    for y, bins in ((draw(5), 2), (x, 0), (x, 5)):
        with pytest.raises(ValueError, match=rf"one shape with at least bins={bins} .* fewer bins"):
            measures.conditional_mean(x, y, bins)


# What no element-wise map copies


@pytest.mark.parametrize("dim", [2, 16, 256])
def test_the_off_diagonal_share_of_rms_norm(dim):  # [EQ-OFF-DIAGONAL] [EQ-OFF-DIAGONAL-RMS]
    x = draw(6, dim)
    share = measures.off_diagonal_share(gradients.rms_norm_jacobian(x, (dim,), eps=0.0))
    u = F.normalize(x, dim=-1)
    assert share.shape == (6,)
    assert_close(share, torch.sqrt((1 - u.pow(4).sum(-1)) / (dim - 1)))
    # largest when all coordinates weigh the same
    assert bool((share <= 1 / math.sqrt(dim) + 1e-12).all())


def test_the_off_diagonal_share_is_the_error_of_the_best_diagonal():
    jacobian = draw(5, 5)
    share = measures.off_diagonal_share(jacobian)
    assert_close(measures.relative_error(jacobian.diag().diag(), jacobian), share)
    for seed in range(20):
        other = torch.diag(jacobian.diag() + 0.1 * draw(5, seed=seed + 1))
        assert measures.relative_error(other, jacobian) > share
    assert measures.off_diagonal_share(torch.diag(draw(3))) == 0
    assert measures.off_diagonal_share(torch.zeros(2, 2)).isnan()
