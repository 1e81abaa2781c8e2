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
from tests.library.norm_cases import FUNCTIONS, draw, output_and_gradients
from tests.tolerances import TWO_ULP  # allowed whatever torch's own error happens to be

SIZES = (8, 64, 1000)
MEANS = (0, 1e2, 1e4, 1e6)  # in standard deviations
SCALES = (1e-6, 1, 1e6)
NEAR = ((1, 1e-6), (1, 1), (3, 1))  # of curves: they are flat far out, and odd


def sample(case, size, mean, scale, seed):
    """float32 input of standard deviation scale and mean `mean` standard deviations; parameters."""
    shape = case.wide(size)
    x = ((draw(*shape, seed=seed) - 1 + mean) * scale).float()
    return x, *case.draw_parameters(shape, torch.float32)


def results(function, dtype, inputs):
    grad_output = draw(*inputs[0].shape, seed=99, dtype=torch.float32)
    tensors = [t.to(dtype) for t in inputs]
    return output_and_gradients(function, grad_output.to(dtype), *tensors)


def relative_error(got, want):
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def worst_error(function, samples):
    """Per result (output, input gradient, parameter gradients), the worst over the seeds."""
    return torch.tensor(
        [
            [
                relative_error(*both)
                for both in zip(results(function, torch.float32, inputs), true, strict=True)
            ]
            for inputs, true in samples
        ]
    ).amax(0)


def excess_over_torch(case, size, mean, scale):
    """Our error over max(torch's, TWO_ULP), of output, input gradient and parameter gradients.

    Where torch has no such function, the formula in float32 takes its place.
    """
    inputs = [sample(case, size, mean, scale, seed) for seed in range(2)]
    truth = case.truths()[-1]
    samples = [(tensors, results(truth, torch.float64, tensors)) for tensors in inputs]
    ours, theirs = worst_error(case.call, samples), worst_error(truth, samples)
    # no credit here: one row's arithmetic loses nothing far from zero, as torch's own does
    theirs[:2] = 0.0
    return ours / theirs.clamp(min=TWO_ULP)


# [EQ-BN] [EQ-BN-EVAL] [EQ-LN] [EQ-RMS] [EQ-GN] [EQ-IN] [EQ-WN] [EQ-DYT] [EQ-DYISRU] [EQ-DERF]
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", FUNCTIONS, ids=str)
def test_output_and_every_gradient_are_within_twice_torchs_error(case, size):
    has_statistics = case.groups or case.forward_only(*case.tensors(case.small))
    for mean, scale in itertools.product(MEANS, SCALES) if has_statistics else NEAR:
        excess = excess_over_torch(case, size, mean, scale)
        assert excess.max() <= 2, f"{excess} at mean {mean} and scale {scale}"


@pytest.mark.parametrize("case", [c for c in FUNCTIONS if c.centred], ids=str)
def test_one_centring_would_miss_that(case, monkeypatch):
    def centred_once(x, dims, eps):
        mean = x.mean(dims, keepdim=True)
        var = (x - mean).square().mean(dims, keepdim=True)
        return (x - mean) * torch.rsqrt(var + eps), mean, var

    monkeypatch.setattr("normlib.functional.norms.standardize", centred_once)
    assert excess_over_torch(case, 1000, mean=1e4, scale=1)[0] > 10


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
