"""The bug clinic of lesson 01a accepts a thorough test and says what another one overlooks."""

import pytest
import torch
import torch.nn.functional as F

from normcourse.checks import batch_norm_at_work as check
from normlib import functional

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def compare(parts, offsets=(0.0,), modes=(True, False), rtol=1e-6, atol=1e-8, gain=None, bias=None):
    """A test for the clinic that looks at these parts, offsets and modes only."""

    def student(layer):
        generator = torch.Generator().manual_seed(5)
        draws = torch.randn(4, 6, 3, generator=generator)
        weight = draws[1, 2] if gain is None else torch.full((3,), gain)
        shift = draws[1, 3] if bias is None else torch.full((3,), bias)
        for offset in offsets:
            for mode in modes:
                results = []
                for function in (layer, F.batch_norm):
                    x = (draws[0] + offset).requires_grad_()
                    mean, var = draws[1, 0].clone(), draws[1, 1].exp()
                    y = function(x, mean, var, weight, shift, mode, 0.1, 1e-5)
                    dx = torch.autograd.grad(y, x, draws[2])[0]
                    results.append({"y": y, "mean": mean, "var": var, "dx": dx})
                for part in parts:
                    got, want = results[0][part], results[1][part]
                    assert torch.allclose(got, want, rtol=rtol, atol=atol), part

    return student


ALL = ("y", "mean", "var", "dx")
CLINIC = {
    "looks at nothing": (lambda layer: None, "Compare y in training"),
    "rejects everything": (compare(("nothing",)), "your code raised KeyError"),
    "returns False": (lambda layer: False, "your test rejects torch's batch_norm"),
    "asserts exactly one layer": (
        compare(ALL, offsets=(1e12,)),
        "your test rejects normlib's batch_norm",
    ),
    "a wide tolerance": (compare(ALL, atol=1.0), "not with a wide tolerance"),
    "exact": (compare(ALL, rtol=0.0, atol=0.0), "Compare with a tolerance"),
    "evaluation only": (compare(ALL, modes=(False,)), "Compare y in training"),
    "outputs only": (compare(("y",)), "Compare BOTH buffers"),
    "running_mean alone, as published": (compare(("y", "mean")), "its running_var is biased"),
    "no gradient": (compare(("y", "mean", "var")), "Compare the gradient in x"),
    "training only": (compare(ALL, modes=(True,)), "it updates the buffers in evaluation"),
    "no large mean": (compare(ALL), "Try data with a mean of a million"),
    "gains of 1": (compare(ALL, offsets=(0.0, 1e6), gain=1.0), "it forgets the gain"),
    "biases of 0": (compare(ALL, offsets=(0.0, 1e6), bias=0.0), "it forgets the bias"),
    "no output": (compare(("mean", "var", "dx"), offsets=(0.0, 1e6)), "it forgets the bias"),
}


@pytest.mark.parametrize("case", CLINIC)
def test_what_a_test_overlooks_is_named(case):
    student, message = CLINIC[case]
    verdict = check.bug_clinic(student)
    assert verdict.startswith("[x]") and message in verdict


def test_the_clinic_accepts_a_test_of_everything():
    assert check.bug_clinic(compare(ALL, offsets=(0.0, 1e6))).startswith("[ok]")


def test_patients_differ_from_the_healthy_layer_only_in_their_bug():
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
    buffers = [(torch.zeros(3), torch.ones(3)) for _ in range(2)]
    ones, zeros = torch.ones(3), torch.zeros(3)
    results = [
        function(x, *buffer, ones, zeros, True)
        for function, buffer in zip((check._layer(), functional.batch_norm), buffers, strict=True)
    ]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*buffers)
