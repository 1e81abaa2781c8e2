"""The checks of lesson 03a name the slips people make, and accept rounded or unusual answers."""

import copy

import pytest
import torch

from normcourse import training
from normcourse.checks import rms_norm_in_models as check
from normlib import functional, layers
from tests.course.solutions import load


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


def by_torch(x, weight, eps):
    accumulate = torch.promote_types(x.dtype, torch.float32)
    given = x.to(accumulate), weight.shape, weight.to(accumulate), eps
    return torch.nn.functional.rms_norm(*given).to(x.dtype)


EVERY_TYPE |= {
    "torch's own": (
        lambda x, w, e: torch.nn.functional.rms_norm(x, w.shape, w, e),
        "without rms_norm",
    ),
    "torch's own, upcast": (by_torch, "without rms_norm"),
    "ours": (lambda x, w, e: functional.rms_norm(x, w.shape, w, e), "without rms_norm"),
    "two dimensions at least": (
        lambda x, w, e: (normalized(x.flatten(0, -2), e) * w).to(x.dtype).view_as(x),
        "for x of shape (6,)",
    ),
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
    "no eps": (
        lambda x, s, e: (normalized(x, 0.0) * (1 + upcast(s))).to(x.dtype),
        "eps is missing",
    ),
    "no upcast of x": (
        lambda x, s, e: (x * inverse_rms(x, e) * (1 + upcast(s))).to(x.dtype),
        "bfloat16 outputs differ",
    ),
}


def gemma(x, stored, eps):
    return (normalized(x, eps) * (1 + upcast(stored))).to(x.dtype)


def gemma_without_gradient(x, stored, eps):
    with torch.no_grad():
        return gemma(x, stored, eps)


def gemma_writes_into_stored(x, stored, eps):
    return gemma(x, stored.data.add_(1).sub_(1) + 0 * stored.data.mul_(2), eps)


GEMMAS |= {
    "two dimensions": (
        lambda x, s, e: gemma(x[:, :], s, e),
        "for x of shape (6,), stored of shape (6,)",
    ),
    "the mean along dim 1": (
        lambda x, s, e: (
            upcast(x) * torch.rsqrt(upcast(x).square().mean(1, keepdim=True) + e) * (1 + upcast(s))
        ).to(x.dtype),
        "for x of shape (6,)",
    ),
    "in the gain's type": (
        lambda x, s, e: (normalized(x, e) * (1 + upcast(s))).to(s.dtype),
        "for x in bfloat16 and stored in float32 the output is torch.float32",
    ),
    "in the wider type": (
        lambda x, s, e: gemma(x, s, e).to(torch.promote_types(x.dtype, s.dtype)),
        "for x in bfloat16 and stored in float32 the output is torch.float32",
    ),
    "no gradient": (gemma_without_gradient, "no gradient comes back"),
    "statistic detached": (
        lambda x, s, e: (upcast(x) * inverse_rms(upcast(x), e).detach() * (1 + upcast(s))).to(
            x.dtype
        ),
        "the mean square is detached",
    ),
    "gain detached": (lambda x, s, e: gemma(x, s.detach(), e), "no gradient reaches stored"),
    "writes into stored": (gemma_writes_into_stored, "stored was changed in place"),
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


def gemma_by_exercise_1(x, stored, eps):
    return load("03a_rms_norm_in_models")["rms_norm"](x, 1 + upcast(stored), eps)


def gemma_by_addition(x, stored, eps):
    xhat = normalized(x, eps)
    return torch.addcmul(xhat, xhat, upcast(stored)).to(x)


def gemma_by_torch(x, stored, eps):
    gain = 1 + stored.float()
    return torch.nn.functional.rms_norm(x.float(), stored.shape, gain, eps).type_as(x)


@pytest.mark.usefixtures("float64_as_in_the_lessons")
@pytest.mark.parametrize("answer", [gemma, gemma_by_exercise_1, gemma_by_addition, gemma_by_torch])
def test_right_forms_of_gemma_are_accepted(answer):
    assert check.gemma_rms_norm(answer).startswith("[ok]")


def by_vector_norm(x, weight, eps):
    wide = upcast(x)
    mean_square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square() / x.shape[-1]
    return (wide / (mean_square + eps).sqrt()).mul(weight).to(x.dtype)


def always_double(x, weight, eps):
    return (x.double() * inverse_rms(x.double(), eps) * weight.double()).to(x.dtype)


def by_lesson_03(x, weight, eps):
    """The page's own two lines, in the wide type."""
    wide = upcast(x)
    mean_square = wide.square().mean(-1, keepdim=True)
    return (wide * torch.rsqrt(mean_square + eps) * upcast(weight)).to(x.dtype)


@pytest.mark.parametrize("answer", [by_vector_norm, always_double, by_lesson_03])
def test_right_norms_for_every_type_are_accepted(answer):
    assert check.every_type(answer).startswith("[ok]")


def folded(net):
    return load("03a_rms_norm_in_models")["to_rms_norm"](net)


def in_place_fold(net):
    with torch.no_grad():
        net[1].weight -= net[1].weight.mean(0)
    return folded(net)


@torch.no_grad()
def last_norm_stays(net):
    new = folded(net)
    new[-3] = copy.deepcopy(net[-3])
    return new


@torch.no_grad()
def embed_centred_along_its_inputs(net):
    net = copy.deepcopy(net)
    net[1].weight -= net[1].weight.mean(1, keepdim=True)
    return folded(net)


def another_eps(net):
    new = folded(net)
    for module in new.modules():
        if isinstance(module, layers.RMSNorm):
            module.eps = 1.0
    return new


def no_norm_at_all(net):
    new = folded(net)
    new[-3] = torch.nn.Identity()
    return new


def positions_as_columns(net):
    new = folded(net)
    with torch.no_grad():
        new[2].weight.copy_(net[2].weight - net[2].weight.mean(0))
    return new


def with_something_left_out(left_out):
    return lambda net: check._converted(net, **left_out)


NETWORKS = {
    text: (with_something_left_out(left_out), text)
    for text, left_out in check.NETWORK_SLIPS.items()
}


def shares_the_head(net):
    new = folded(net)
    new[-1].weight = net[-1].weight
    return new


NETWORKS |= {
    "shares a weight": (shares_the_head, "shares"),
    "returns the net": (lambda net: net, "LayerNorm left"),
    "returns nothing": (lambda net: [net], "expected a network"),
    "writes into the net": (in_place_fold, "has changed"),
    "leaves the last norm": (last_norm_stays, "1 LayerNorm left"),
    "one norm is gone": (no_norm_at_all, "expected 3 RMSNorm, found 2"),
    "embed along axis 1 first": (embed_centred_along_its_inputs, "the logits"),
    "another eps": (another_eps, "the logits"),
    "positions along axis 0": (positions_as_columns, "the row is the last axis"),
}


@pytest.mark.usefixtures("float64_as_in_the_lessons")
@pytest.mark.parametrize("answer, message", NETWORKS.values(), ids=range(len(NETWORKS)))
def test_wrong_network_is_named(answer, message):
    verdict = check.fold_network(answer)
    assert verdict.startswith("[x]") and message in verdict


def slow_but_right(net):
    """Numbers of its own, found by a matrix that centres."""
    new = folded(net)
    width = net[1].out_features
    centring = torch.eye(width) - 1 / width
    with torch.no_grad():
        new[1].weight.copy_(centring @ net[1].weight)
        new[2].weight.copy_(net[2].weight @ centring)
    return new


def eval_mode_and_torchs_norm(net):
    """torch's own class; half of the last norm's gain stands in the head."""
    new = folded(net).eval()
    last = torch.nn.RMSNorm(new[-3].normalized_shape, eps=new[-3].eps)
    with torch.no_grad():
        last.weight.copy_(new[-3].weight / 2)
        new[-1].weight *= 2
    new[-3] = last
    return new


@pytest.mark.usefixtures("float64_as_in_the_lessons")
@pytest.mark.parametrize("answer", [slow_but_right, eval_mode_and_torchs_norm])
def test_unusual_networks_are_right(answer):
    assert check.fold_network(answer).startswith("[ok]")


@pytest.mark.usefixtures("float64_as_in_the_lessons")
def test_the_random_net_of_the_check_has_nothing_at_its_start_value():
    net = check._restless(training.transformer(layers.LayerNorm, depth=1, width=8, heads=2), 0)
    assert all((parameter != 0).all() and (parameter != 1).all() for parameter in net.parameters())
