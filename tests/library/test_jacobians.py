"""Closed-form Jacobians against autograd and against the backwards."""

import pytest
import torch
from torch.testing import assert_close

from normcourse import draw
from normlib import gradients
from tests.library.gradient_cases import EPS, batch_norm, standardized

JACOBIANS = {
    "layer_norm": (
        lambda x, w: gradients.layer_norm_jacobian(x, (5,), w, eps=EPS),
        lambda x, w: standardized(x, -1) * w,
    ),
    "rms_norm": (
        lambda x, w: gradients.rms_norm_jacobian(x, (5,), w, EPS),
        lambda x, w: standardized(x, -1, False) * w,
    ),
    "softmax": (lambda x, w: gradients.softmax_jacobian(x), lambda x, w: x.softmax(-1)),
    "dyt": (
        lambda x, w: gradients.dyt_jacobian(x, w[:1], w, scale=2.0),
        lambda x, w: w * 2 * torch.tanh(w[:1] * x / 2),
    ),
    "dyisru": (
        lambda x, w: gradients.dyisru_jacobian(x, w[:1] ** 2, w),
        lambda x, w: w * 5**0.5 * x / (x**2 + w[0] ** 2).sqrt(),
    ),
}


@pytest.mark.parametrize("name", JACOBIANS)
# [EQ-LN-JACOBIAN] [EQ-RMS-JACOBIAN] [EQ-SOFTMAX-JACOBIAN]
def test_jacobian_equals_autograd(name):
    x, w = draw(2, 3, 5), draw(5, seed=1)
    jacobian, formula = JACOBIANS[name]
    got = jacobian(x, w)
    assert got.shape == (2, 3, 5, 5)
    for at in [(0, 0), (1, 2)]:
        assert_close(
            got[at], torch.autograd.functional.jacobian(lambda row: formula(row, w), x[at])
        )


def test_batch_norm_jacobian_equals_autograd():  # [EQ-BN-JACOBIAN]
    x, w = draw(2, 3, 2), draw(3, seed=1)
    # (N, C, L, N, C, L)
    whole = torch.autograd.functional.jacobian(lambda x: batch_norm(x, w, w), x)
    for c in range(3):
        assert_close(
            gradients.batch_norm_jacobian(x, w, eps=EPS)[c], whole[:, c, :, :, c].reshape(4, 4)
        )
        assert float(whole[:, c, :, :, c - 1].abs().max()) == 0


def test_jacobian_transposed_times_gradient_is_the_backward():
    x, w, dy = draw(3, 5), draw(5, seed=1), draw(3, 5, seed=2)

    def product(jacobian):
        return (jacobian.mT @ dy[..., None])[..., 0]

    pairs = [
        (
            product(gradients.layer_norm_jacobian(x, (5,), w)),
            gradients.layer_norm_backward(dy, x, (5,), w),
        ),
        (
            product(gradients.rms_norm_jacobian(x, (5,), w)),
            gradients.rms_norm_backward(dy, x, (5,), w),
        ),
        (product(gradients.softmax_jacobian(x)), gradients.softmax_backward(dy, x)),
        (product(gradients.dyt_jacobian(x, w[:1], w)), gradients.dyt_backward(dy, x, w[:1], w)),
        (
            product(gradients.dyisru_jacobian(x, w[:1] ** 2, w)),
            gradients.dyisru_backward(dy, x, w[:1] ** 2, w),
        ),
    ]
    for got, (want, *_) in pairs:
        assert_close(got, want)
    columns = gradients.batch_norm_jacobian(x, w).mT @ dy.T[..., None]  # (C, N, 1)
    assert_close(columns[..., 0].T, gradients.batch_norm_backward(dy, x, w)[0])


def test_jacobians_keep_the_dtype_and_take_several_dimensions_as_one_row():
    x = draw(2, 3, 4)
    assert gradients.layer_norm_jacobian(x.bfloat16(), (4,)).dtype == torch.bfloat16
    assert gradients.rms_norm_jacobian(x, (3, 4), draw(3, 4)).shape == (2, 12, 12)
