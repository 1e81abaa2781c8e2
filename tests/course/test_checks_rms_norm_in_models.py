"""The checks of lesson 03a name the slips people make with 16 bits, and accept rounded answers."""

import pytest
import torch

from normcourse.checks import rms_norm_in_models as check


def inverse_rms(x, eps):
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def upcast(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def normalized(x, eps):
    return upcast(x) * inverse_rms(upcast(x), eps)


def upcast_only_outside(x, weight, eps):  # jingyaogong/minimind #301
    return (weight * (upcast(x) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))).type_as(x)


def statistic_without_gradient(x, weight, eps):
    with torch.no_grad():
        rstd = inverse_rms(upcast(x), eps)
    return (upcast(x) * rstd * weight).to(x.dtype)


EVERY_TYPE = {
    "rounds nothing up": (lambda x, w, e: x * inverse_rms(x, e) * w, "256 squared overflows"),
    "upcast only outside": (upcast_only_outside, "256 squared overflows"),
    "Llama's order": (
        lambda x, w, e: (upcast(x) * inverse_rms(upcast(x), e)).to(x.dtype) * w,
        "(Llama's order) and the product again",
    ),
    "stays float32": (
        lambda x, w, e: upcast(x) * inverse_rms(upcast(x), e) * upcast(w),
        "comes out as torch.float32",
    ),
    "weight's dtype": (lambda x, w, e: (normalized(x, e) * w).to(w.dtype), "it has x's dtype"),
    "weight in x's dtype": (
        lambda x, w, e: (normalized(x, e) * upcast(w.to(x.dtype))).to(x.dtype),
        "weight was rounded",
    ),
    "eps outside": (
        lambda x, w, e: x / (x.square().mean(-1, keepdim=True).sqrt() + e) * w,
        "under the root",
    ),
    "no_grad statistic": (statistic_without_gradient, "is detached"),
}


@pytest.mark.parametrize("answer, message", EVERY_TYPE.values(), ids=EVERY_TYPE)
def test_a_wrong_type_is_named(answer, message):
    verdict = check.every_type(answer)
    assert verdict.startswith("[x]") and message in verdict


GEMMAS = {
    "no 1": (lambda x, s, e: (normalized(x, e) * upcast(s)).to(x.dtype), "the gain is 1 + stored"),
    "parentheses": (
        lambda x, s, e: (1 + upcast(s) * normalized(x, e)).to(x.dtype),
        "in parentheses",
    ),
    "a bias": (lambda x, s, e: (normalized(x, e) + upcast(s)).to(x.dtype), "not a bias"),
    "no gain": (lambda x, s, e: normalized(x, e).to(x.dtype), "gain is missing"),
    "1 - stored": (
        lambda x, s, e: (normalized(x, e) * (1 - upcast(s))).to(x.dtype),
        "not 1 - stored",
    ),
    "inside": (
        lambda x, s, e: normalized(upcast(x) * (1 + upcast(s)), e).to(x.dtype),
        "scale after the norm",
    ),
    "1 + stored in bf16": (
        lambda x, s, e: (normalized(x, e) * (1 + s)).to(x.dtype),
        "added in bfloat16",
    ),
    "rounds before the gain": (
        lambda x, s, e: (normalized(x, e).to(x.dtype) * (1 + upcast(s))).to(x.dtype),
        "before the gain",
    ),
    "stays float32": (
        lambda x, s, e: normalized(x, e) * (1 + upcast(s)),
        "comes out as torch.float32",
    ),
    "no upcast of x": (
        lambda x, s, e: (x * inverse_rms(x, e) * (1 + upcast(s))).to(x.dtype),
        "bfloat16 outputs differ",
    ),
}


@pytest.mark.parametrize("answer, message", GEMMAS.values(), ids=GEMMAS)
def test_wrong_gemma_is_named(answer, message):
    verdict = check.gemma_rms_norm(answer)
    assert verdict.startswith("[x]") and message in verdict


def test_gemma_without_upcast_of_the_square_overflows():
    def squares_in_half(x, stored, eps):
        rstd = inverse_rms(x, eps) if x.dtype == torch.float16 else inverse_rms(upcast(x), eps)
        return (upcast(x) * upcast(rstd) * (1 + upcast(stored))).to(x.dtype)

    assert "256 squared overflows" in check.gemma_rms_norm(squares_in_half)


def test_gemma_may_compute_in_float32_whatever_comes_in():
    def float32_inside(x, stored, eps):
        x32 = x.float()
        return (x32 * inverse_rms(x32, eps) * (1 + stored.float())).to(x.dtype)

    assert check.gemma_rms_norm(float32_inside).startswith("[ok]")


LOGITS = [
    (192.0, "the ROOT of D"),
    (16.0, "multiply by 1.5 as well"),
    (12.0, "multiply by 2 as well"),
    (8.0, "the gains are missing"),
    (28.0, "not added"),
    (3.0, "once too often"),
    (0.375, "do not divide"),
    (72.0, "not squared"),
    (25.0, "off by"),
    ("large", "expected a number"),
]


@pytest.mark.parametrize("value, message", LOGITS)
def test_a_wrong_bound_is_named(value, message):
    verdict = check.largest_logit(value)
    assert verdict.startswith("[x]") and message in verdict


def test_a_bound_may_be_a_tensor():
    assert check.largest_logit(torch.tensor(24)).startswith("[ok]")
