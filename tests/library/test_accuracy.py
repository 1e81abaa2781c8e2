"""float32 results against float64 ones on the same numbers:
never far behind torch's own float32 layers.

An error is relative to the largest magnitude of the true result; D = 2 is left out, where the true
gradient of a centring norm cancels to almost nothing and every float32 layer is far off in this
measure.
"""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from normlib import functional, fused
from tests.library.norm_cases import apply, draw, output_and_gradients, parameters
from tests.tolerances import TWO_ULP  # allowed whatever torch's own error happens to be

SIZES = (8, 64, 1000)
MEANS = (0, 1e2, 1e4, 1e6)  # in standard deviations
SCALES = (1e-6, 1, 1e6)
SHAPES = {
    "batch_norm": lambda size: (size, 32),
    "batch_norm_eval": lambda size: (size, 32),
    "layer_norm": lambda size: (16, size),
    "rms_norm": lambda size: (16, size),
    "group_norm": lambda size: (8, size, 3),
    "instance_norm": lambda size: (3, 32, size),
    "weight_norm": lambda size: (16, size),
}


def sample(norm, size, mean, scale, seed):
    """float32 input of standard deviation scale and mean `mean` standard deviations,
    and parameters.
    """
    shape = SHAPES[norm](size)
    x = ((draw(*shape, seed=seed) - 1 + mean) * scale).float()
    if norm == "weight_norm":
        return x, draw(shape[0], 1, seed=1, dtype=torch.float32)
    return x, *parameters(norm, shape, torch.float32)


def call(library, norm, x, *params):
    if norm == "weight_norm":
        return (torch._weight_norm if library is F else functional.weight_norm)(x, *params, 0)
    if norm == "batch_norm_eval":  # statistics such as training on this input leaves
        var, mean = torch.var_mean(x.detach().float(), 0)
        return library.batch_norm(x, mean.to(x), var.to(x), *params)
    return apply(library, norm, x, *params, eps=1e-5)


def results(library, norm, dtype, inputs):
    grad_output = draw(*inputs[0].shape, seed=99, dtype=torch.float32)
    tensors = [t.to(dtype) for t in inputs]
    return output_and_gradients(lambda *t: call(library, norm, *t), grad_output.to(dtype), *tensors)


def relative_error(got, want):
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def worst_error(library, norm, samples):
    """Per result (output, input gradient, parameter gradients), the worst over the seeds."""
    return torch.tensor(
        [
            [
                relative_error(*both)
                for both in zip(results(library, norm, torch.float32, inputs), true, strict=True)
            ]
            for inputs, true in samples
        ]
    ).amax(0)


def excess_over_torch(norm, size, mean, scale):
    """Our error over max(torch's, TWO_ULP), of output, input gradient and parameter gradients."""
    inputs = [sample(norm, size, mean, scale, seed) for seed in range(2)]
    samples = [(tensors, results(F, norm, torch.float64, tensors)) for tensors in inputs]
    ours, theirs = (worst_error(library, norm, samples) for library in (functional, F))
    # no credit here: one row's arithmetic loses nothing far from zero, as torch's own does
    theirs[:2] = 0.0
    return ours / theirs.clamp(min=TWO_ULP)


# [EQ-BN] [EQ-BN-EVAL] [EQ-LN] [EQ-RMS] [EQ-GN] [EQ-IN] [EQ-WN]
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("norm", SHAPES)
def test_output_and_every_gradient_are_within_twice_torchs_error(norm, size):
    for mean, scale in itertools.product(MEANS, SCALES):
        excess = excess_over_torch(norm, size, mean, scale)
        assert excess.max() <= 2, f"{excess} at mean {mean} and scale {scale}"


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", "group_norm", "instance_norm"])
def test_one_centring_would_miss_that(norm, monkeypatch):
    def centred_once(x, dims, eps):
        mean = x.mean(dims, keepdim=True)
        var = (x - mean).square().mean(dims, keepdim=True)
        return (x - mean) * torch.rsqrt(var + eps), mean, var

    monkeypatch.setattr("normlib.functional.norms.standardize", centred_once)
    assert excess_over_torch(norm, 1000, mean=1e4, scale=1)[0] > 10


def test_running_statistics_are_the_true_ones_rounded_once():  # [EQ-BN-RUNNING]
    x = ((draw(1000, 50) - 1) + 1e4).float()
    mean, var = torch.zeros(50), torch.zeros(50)
    functional.batch_norm(x, mean, var, training=True, momentum=1.0)
    # 1% for the arithmetic before the rounding
    half_ulp = 1.01 * torch.finfo(torch.float32).eps / 2
    assert_close(mean.double(), x.double().mean(0), rtol=half_ulp, atol=0)
    assert relative_error(var, x.double().var(0)) <= TWO_ULP


@pytest.mark.parametrize("shape", [(4, 3), (4, 8), (2, 3, 16), (16, 64)], ids=str)
@pytest.mark.parametrize("norm", ["layer_norm", "group_norm"])
def test_a_variance_that_overflows_gives_nan_as_in_torch(norm, shape):
    x = 1e25 * draw(*shape, dtype=torch.float32)
    size = shape[-1:] if norm == "layer_norm" else 1
    want = getattr(F, norm)(x, size)
    assert want.isnan().all()
    assert getattr(functional, norm)(x, size).isnan().all()
    assert norm == "group_norm" or fused.layer_norm(x, size).isnan().all()
    assert functional.rms_norm(x, shape[-1:]).eq(0).all()  # as torch's
    assert F.rms_norm(x, shape[-1:]).eq(0).all()
