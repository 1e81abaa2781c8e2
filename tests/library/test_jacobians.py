"""Closed-form Jacobians against autograd and against the backwards."""

import pytest
import torch
from torch.testing import assert_close

from normlib import gradients
from tests.library.norm_cases import JACOBIANS, draw, rows

every_jacobian = pytest.mark.parametrize("case", JACOBIANS, ids=str)
FULL = [case for case in JACOBIANS if case.witness("backward")]


def blocks(case, whole, x):
    """Of the whole Jacobian (outputs, inputs) those of each group, and what is outside them."""
    groups = case.groups or rows(1)  # a curve's block is a row, and diagonal
    at = groups(torch.arange(x.numel()).reshape(x.shape))  # (groups, values)
    inside = torch.zeros_like(whole, dtype=torch.bool)
    for block in at:
        inside[block[:, None], block] = True
    return whole[at.unsqueeze(-1), at.unsqueeze(-2)], whole[~inside]


# [EQ-LN-JACOBIAN] [EQ-RMS-JACOBIAN] [EQ-SOFTMAX-JACOBIAN] [EQ-BN-JACOBIAN] [EQ-DYT-JACOBIAN]
# [EQ-DYISRU-JACOBIAN]
@every_jacobian
def test_jacobian_equals_autograd_on_the_formula(case):
    for shape in case.shapes:
        x, *parameters = case.tensors(shape)
        flat = lambda x, given=parameters: case.formula(x, *given).flatten()  # noqa: E731
        whole = torch.autograd.functional.jacobian(flat, x).flatten(1)
        want, outside = blocks(case, whole, x)
        got = case.jacobian(x, *parameters)
        assert got.shape[-2:] == want.shape[-2:]
        assert_close(got.reshape(want.shape), want, rtol=1e-11, atol=1e-11)
        assert outside.abs().sum() == 0
        if case.groups is not None and case.name != "batch_norm":
            leading = x.shape[: x.dim() - len(case.options(shape).get("normalized_shape", (1,)))]
            assert got.shape[:-2] == leading


@pytest.mark.parametrize("case", FULL, ids=str)
def test_jacobian_transposed_times_gradient_is_the_backward(case):
    x, *parameters = case.tensors(case.small)
    dy = draw(*case.small, seed=2)
    groups = case.groups or rows(1)
    jacobian = case.jacobian(x, *parameters)
    jacobian = jacobian.reshape(-1, *jacobian.shape[-2:])
    product = (jacobian.mT @ groups(dy).unsqueeze(-1)).squeeze(-1)
    assert_close(product, groups(case.backward(dy, x, *parameters)[0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@every_jacobian
def test_jacobians_are_computed_in_float32_and_rounded_once(case, dtype):
    tensors = case.tensors(case.small, dtype)
    wide = case.jacobian(*(tensor.float() for tensor in tensors))
    got = case.jacobian(*tensors)
    assert got.dtype == dtype
    assert torch.equal(got, wide.to(dtype))


def test_a_jacobian_takes_several_dimensions_as_one_row():
    x = draw(2, 3, 4)
    assert gradients.rms_norm_jacobian(x, (3, 4), draw(3, 4)).shape == (2, 12, 12)


def test_layer_norm_is_centring_then_rms_norm():  # [EQ-LN-JACOBIAN]
    """Its Jacobian is the product of theirs; it is another one even where the mean is 0 anyway."""
    centring = torch.eye(6, dtype=torch.float64) - 1 / 6
    centred = centring @ draw(6)
    of_layer_norm = gradients.layer_norm_jacobian(centred, (6,), eps=0.3)
    of_rms_norm = gradients.rms_norm_jacobian(centred, (6,), eps=0.3)
    assert_close(of_rms_norm @ centring, of_layer_norm)
    assert (of_rms_norm - of_layer_norm).norm() > 0.1 * of_layer_norm.norm()
