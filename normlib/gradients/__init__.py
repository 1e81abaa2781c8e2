"""Closed-form gradients and Jacobians in plain arithmetic: the second witness.

Neither autograd nor a formula of functional is used, only its checks of arguments.

A backward takes grad_output (the gradient of the loss in the output, of the output's shape), then
the forward's arguments in their order. It returns a tuple: the gradients of input, (alpha, c or g,)
weight and bias, in this order, leaving out a weight or bias that is None, each of its argument's
shape and dtype. A Jacobian takes the forward's arguments; entry [..., i, j] is the derivative of
output i in input j.

Half types are computed in float32. What the forward refuses is refused here with the same errors;
so is a grad_output of another shape than the output. Differentiable once more: every result is made
of differentiable tensor operations.
"""

from normlib.gradients.jacobians import (
    batch_norm_jacobian,
    dyisru_jacobian,
    dyt_jacobian,
    layer_norm_jacobian,
    rms_norm_jacobian,
    softmax_jacobian,
)
from normlib.gradients.norms import (
    batch_norm_backward,
    group_norm_backward,
    instance_norm_backward,
    layer_norm_backward,
    rms_norm_backward,
    weight_norm_backward,
)
from normlib.gradients.pointwise import (
    derf_backward,
    dyisru_backward,
    dyt_backward,
    softcap_backward,
    softmax_backward,
)

__all__ = [
    "batch_norm_backward",
    "batch_norm_jacobian",
    "derf_backward",
    "dyisru_backward",
    "dyisru_jacobian",
    "dyt_backward",
    "dyt_jacobian",
    "group_norm_backward",
    "instance_norm_backward",
    "layer_norm_backward",
    "layer_norm_jacobian",
    "rms_norm_backward",
    "rms_norm_jacobian",
    "softcap_backward",
    "softmax_backward",
    "softmax_jacobian",
    "weight_norm_backward",
]
