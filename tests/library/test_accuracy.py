"""float32 results are never far behind torch's own float32 layers.

Both are compared with float64 results on the same numbers. An error is relative to the largest
magnitude of the true result; D = 2 is left out, where the true gradient of a centring norm cancels
to almost nothing and every float32 layer is far off in this measure.
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


def results_of(case):
    return ["output", *(f"gradient of {name}" for name in ["input", *case.parameters])]


def sizes(case, inputs, true):
    """Of each result its largest magnitude; of a single number's gradient that of its terms.

    It is a sum over the whole input, which may cancel: its terms are the gradients of the number's
    copies, one for each value.
    """
    found = [result.abs().max() for result in true]
    x, *parameters = (tensor.double() for tensor in inputs)
    grad_output = draw(*x.shape, seed=99, dtype=torch.float32).double()
    for k, parameter in enumerate(parameters):
        if parameter.numel() == 1:
            copies = parameter.expand(x.shape).clone().requires_grad_()
            output = case.formula(x, *parameters[:k], copies, *parameters[k + 1 :])
            found[k + 2] = torch.autograd.grad(output, copies, grad_output)[0].abs().sum()
    return found


def worst_error(function, samples):
    """Per result (output, input gradient, parameter gradients), the worst over the seeds."""
    errors = []
    for inputs, true, magnitudes in samples:
        got = results(function, torch.float32, inputs)
        triples = zip(got, true, magnitudes, strict=True)
        errors.append([((g.double() - t).abs().max() / size).item() for g, t, size in triples])
    return torch.tensor(errors).amax(0)


def excess_over_torch(case, size, mean, scale):
    """Our error over max(torch's, TWO_ULP), of output, input gradient and parameter gradients.

    Where torch has no such function, the formula in float32 takes its place.
    """
    inputs = [sample(case, size, mean, scale, seed) for seed in range(2)]
    truth = case.truths()[-1]
    samples = []
    for tensors in inputs:
        true = results(truth, torch.float64, tensors)
        samples.append((tensors, true, sizes(case, tensors, true)))
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
        excess = excess_over_torch(case, size, mean, scale).tolist()
        named = zip(results_of(case), excess, strict=True)
        worst = [f"{name} by {factor:.1f}" for name, factor in named if factor > 2]
        where = f"at mean {mean} and scale {scale} (float32's range ends at 1e38 and 1e-38)"
        assert not worst, f"{where} the error is above what it may be: {', '.join(worst)}"


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
    want = x.double().var(0)
    assert (var.double() - want).abs().max() <= TWO_ULP * want.abs().max()


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
