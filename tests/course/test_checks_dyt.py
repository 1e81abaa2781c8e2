"""The checks of lesson 05 name the slips people make, and accept answers written otherwise."""

import math

import pytest
import torch

from normcourse.checks import dyt as check

BEND = 4 / (3 * math.sqrt(3))


def in_place(first, *arguments):
    return first.mul_(2)


@pytest.mark.parametrize("name, argument", [("dyt_backward", "dy"), ("official", "weight")])
def test_writing_into_an_input_is_named(name, argument):
    assert f"{argument} was changed in place" in getattr(check, name)(in_place)


def test_attention_that_writes_into_q_is_named():
    assert "q was changed in place" in check.capped_attention(in_place)


BOUNDS = (16.0, 24.634, 64.0, 13.0)


def test_bounds_may_be_rounded_or_a_list_of_tensors():
    assert check.bounds(BOUNDS).startswith("[ok]")
    assert check.bounds((16, 24.6, 64, 13)).startswith("[ok]")
    assert check.bounds([torch.tensor(value) for value in BOUNDS]).startswith("[ok]")


WRONG_BOUNDS = [
    (0, 2.0, "not undone inside tanh"),
    (0, 8.0, "brings down an alpha"),
    (0, 128.0, "none inside"),
    (0, 0.0, "steepest at 0"),
    (1, 16.0, "that is the Lipschitz constant"),
    (1, 32.0, "4 / (3 sqrt(3)) is missing"),
    (1, 16 * BEND, "a factor 2 is missing"),
    (1, BEND / 2, "turn alpha into"),
    (1, 4 * BEND, "sqrt(D) is missing"),
    (1, 256 * BEND, "once, not squared"),
    (2, 10.0, "an article's alpha |w|"),
    (2, 80.0, "not |w|"),
    (2, 8.0, "sqrt(D) is missing"),
    (2, 32.0, "alpha is missing"),
    (2, 112.0, "not their sum"),
    (2, 16.0, "gain is missing"),
    (3, 40.0, "an article's sqrt(D) |w|"),
    (3, 5.0, "bias moves"),
    (3, 17.0, "different coordinates"),
    (3, math.hypot(40, 12), "has no sqrt(D)"),
    (3, math.hypot(10, 12), "whatever alpha is"),
    (3, 12.0, "bias alone"),
    (3, 14.0, "off by"),
]


@pytest.mark.parametrize("place, value, message", WRONG_BOUNDS)
def test_wrong_bound_is_named(place, value, message):
    answer = list(BOUNDS)
    answer[place] = value
    verdict = check.bounds(tuple(answer))
    assert verdict.startswith("[x]") and message in verdict


def backward(dy, x, alpha, weight, scale):
    t = torch.tanh(alpha * x / scale)
    g = weight * dy
    return {
        "dy": dy,
        "x": x,
        "alpha": alpha,
        "w": weight,
        "scale": scale,
        "t": t,
        "g": g,
        "slope": (1 - t**2),
    }


PARTS = {
    "dx": lambda v: v["alpha"] * v["g"] * v["slope"],
    "dalpha": lambda v: (v["g"] * v["x"] * v["slope"]).sum().reshape(1),
    "dweight": lambda v: (v["dy"] * v["scale"] * v["t"]).sum(0),
    "dbias": lambda v: v["dy"].sum(0),
}
WRONG_PARTS = {
    "no alpha": ("dx", lambda v: v["g"] * v["slope"], "factor alpha"),
    "no gain": ("dx", lambda v: v["dy"] * v["alpha"] * v["slope"], "gain is missing"),
    "1 - tanh": ("dx", lambda v: v["g"] * v["alpha"] * (1 - v["t"]), "not 1 - tanh"),
    "tanh": ("dx", lambda v: v["g"] * v["alpha"] * v["t"], "not tanh"),
    "tanh of x": ("dx", lambda v: v["g"] * v["alpha"] * (1 - v["x"].tanh() ** 2), "you gave it x"),
    "scale not inside": (
        "dx",
        lambda v: v["g"] * v["alpha"] * (1 - torch.tanh(v["alpha"] * v["x"]) ** 2),
        "scale is missing inside",
    ),
    "scale outside": ("dx", lambda v: PARTS["dx"](v) * v["scale"], "cancel"),
    "scale inside": ("dx", lambda v: PARTS["dx"](v) / v["scale"], "kept the one inside"),
    "alpha not summed": ("dalpha", lambda v: v["g"] * v["x"] * v["slope"], "every row and feature"),
    "alpha summed over rows": (
        "dalpha",
        lambda v: (v["g"] * v["x"] * v["slope"]).sum(0),
        "both axes",
    ),
    "alpha averaged": (
        "dalpha",
        lambda v: (v["g"] * v["x"] * v["slope"]).mean().reshape(1),
        "average",
    ),
    "alpha of shape ()": (
        "dalpha",
        lambda v: (v["g"] * v["x"] * v["slope"]).sum(),
        "shape is (1,)",
    ),
    "alpha for x": (
        "dalpha",
        lambda v: (v["alpha"] * v["g"] * v["slope"]).sum().reshape(1),
        "not alpha",
    ),
    "x forgotten": ("dalpha", lambda v: (v["g"] * v["slope"]).sum().reshape(1), "is x."),
    "alpha without gain": (
        "dalpha",
        lambda v: (v["dy"] * v["x"] * v["slope"]).sum().reshape(1),
        "gain is missing",
    ),
    "alpha with scale": ("dalpha", lambda v: PARTS["dalpha"](v) * v["scale"], "cancel"),
    "alpha over scale": (
        "dalpha",
        lambda v: PARTS["dalpha"](v) / v["scale"],
        "kept the one inside",
    ),
    "weight not summed": ("dweight", lambda v: v["dy"] * v["scale"] * v["t"], "one row a token"),
    "weight without scale": ("dweight", lambda v: (v["dy"] * v["t"]).sum(0), "scale stays"),
    "weight averaged": (
        "dweight",
        lambda v: (v["dy"] * v["scale"] * v["t"]).mean(0),
        "do not average",
    ),
    "weight from x": ("dweight", lambda v: (v["dy"] * v["x"]).sum(0), "not x"),
    "weight twice": ("dweight", lambda v: (v["g"] * v["scale"] * v["t"]).sum(0), "by itself"),
    "bias not summed": ("dbias", lambda v: v["dy"], "one row a token"),
    "bias averaged": ("dbias", lambda v: v["dy"].mean(0), "do not average"),
    "bias with gain": ("dbias", lambda v: v["g"].sum(0), "after the gain"),
}


@pytest.mark.parametrize("part, wrong, message", WRONG_PARTS.values(), ids=WRONG_PARTS)
def test_wrong_backward_is_named(part, wrong, message):
    formulas = PARTS | {part: wrong}
    verdict = check.dyt_backward(lambda *a: tuple(f(backward(*a)) for f in formulas.values()))
    assert verdict.startswith("[x]") and f"{part}: " in verdict and message in verdict


def test_backward_without_the_bias_is_told_its_parts():
    verdict = check.dyt_backward(
        lambda *a: tuple(f(backward(*a)) for f in list(PARTS.values())[:3])
    )
    assert "expected a tuple (dx, dalpha, dweight, dbias)" in verdict


def one(value):
    return torch.tensor([value], dtype=torch.float64)


WRONG_ALPHAS = {
    "scale not folded": (lambda w, rho: 1 / rho, "folded"),
    "multiplied": (lambda w, rho: 4 / rho, "divides alpha"),
    "upside down": (lambda w, rho: rho / 4, "smaller alpha"),
    "D for its root": (lambda w, rho: 1 / (rho * 16), "not D"),
    "the default": (lambda w, rho: 0.5, "official start"),
    "root of rho": (lambda w, rho: 1 / (rho**0.5 * 4), "no further root"),
    "rho squared": (lambda w, rho: 1 / (rho**2 * 4), "not squared"),
}


@pytest.mark.parametrize("wrong, message", WRONG_ALPHAS.values(), ids=WRONG_ALPHAS)
def test_wrong_official_alpha_is_named(wrong, message):
    verdict = check.official(lambda w, rho: (one(wrong(w, rho)), 4 * w))
    assert verdict.startswith("[x]") and "alpha: " in verdict and message in verdict


WRONG_WEIGHTS = {
    "not folded": (lambda w, rho: w, "level is |w| sqrt(D)"),
    "gain left behind": (lambda w, rho: torch.full_like(w, 4.0), "left behind; it"),
    "fresh gain": (lambda w, rho: torch.ones_like(w), "left behind, and"),
    "divided": (lambda w, rho: w / 4, "multiply by sqrt(D)"),
    "D for its root": (lambda w, rho: w * 16, "not D"),
    "with rho": (lambda w, rho: 4 * w / rho, "rho is in alpha"),
}


@pytest.mark.parametrize("wrong, message", WRONG_WEIGHTS.values(), ids=WRONG_WEIGHTS)
def test_wrong_official_weight_is_named(wrong, message):
    verdict = check.official(lambda w, rho: (one(1 / (4 * rho)), wrong(w, rho)))
    assert verdict.startswith("[x]") and "weight: " in verdict and message in verdict


def test_official_alpha_may_be_a_float():
    assert check.official(lambda w, rho: (1 / (4 * rho), 4 * w)).startswith("[ok]")


def cap_of(logits, cap):
    return cap * torch.tanh(logits / cap)


def masked(logits, diagonal=1):
    future = torch.ones(logits.shape, dtype=torch.bool).triu(diagonal)
    return logits.masked_fill(future, -math.inf)


ATTENTIONS = {  # of the logits before the division by sqrt(4) = 2, and the cap
    "mask first": (lambda raw, c: cap_of(masked(raw / 2), c).softmax(-1), "onnx #7865"),
    "no factor cap": (
        lambda raw, c: masked(torch.tanh(raw / 2 / c)).softmax(-1),
        "multiply by cap",
    ),
    "no division by cap": (
        lambda raw, c: masked(c * torch.tanh(raw / 2)).softmax(-1),
        "slope at 0",
    ),
    "times the logit": (
        lambda raw, c: masked(raw / 2 * torch.tanh(raw / 2 / c)).softmax(-1),
        "unsloth-zoo #593",
    ),
    "hard clip": (lambda raw, c: masked((raw / 2).clamp(-c, c)).softmax(-1), "hard clip"),
    "no cap": (lambda raw, c: masked(raw / 2).softmax(-1), "no cap"),
    "not scaled": (
        lambda raw, c: masked(cap_of(raw, c)).softmax(-1),
        "divide the logits by sqrt(d)",
    ),
    "scaled by d": (lambda raw, c: masked(cap_of(raw / 4, c)).softmax(-1), "not by d"),
    "scaled last": (lambda raw, c: masked(cap_of(raw, c) / 2).softmax(-1), "scale first"),
    "no mask": (lambda raw, c: cap_of(raw / 2, c).softmax(-1), "no causal mask"),
    "blind to itself": (lambda raw, c: masked(cap_of(raw / 2, c), 0).softmax(-1), "may see itself"),
    "masked last": (lambda raw, c: cap_of(raw / 2, c).softmax(-1).tril(), "no longer sum"),
    "masked with 0": (lambda raw, c: cap_of(raw / 2, c).tril().softmax(-1), "exp(0)"),
    "upside down": (lambda raw, c: masked(cap_of(raw / 2, c).T).T.softmax(-1), "upside down"),
    "softmax over rows": (lambda raw, c: masked(cap_of(raw / 2, c)).softmax(0), "last axis"),
    "cap last": (lambda raw, c: cap_of(masked(raw / 2).softmax(-1), c), "before the softmax"),
    "no softmax": (lambda raw, c: masked(cap_of(raw / 2, c)), "softmax is missing"),
    "transposed": (lambda raw, c: masked(cap_of(raw.T / 2, c)).softmax(-1), "not k @ q.T"),
    "halved again": (lambda raw, c: masked(cap_of(raw / 2, c) / 2).softmax(-1), "off by"),
}


@pytest.mark.parametrize("wrong, message", ATTENTIONS.values(), ids=ATTENTIONS)
def test_wrong_attention_is_named(wrong, message):
    verdict = check.capped_attention(lambda q, k, cap: wrong(q @ k.T, cap))
    assert verdict.startswith("[x]") and message in verdict


def test_the_numbers_of_the_bounds_check_are_those_of_the_layer():
    """Slope, change of slope and length on a fine grid:
    rounding moves the second difference by 1e-5.
    """
    x = torch.linspace(-3, 3, 600_001, dtype=torch.float64)
    f = 8 * torch.tanh(2 * x)
    slope = f.diff() / x.diff()
    bend = slope.diff().abs() / (x[1] - x[0])
    assert slope.max().item() == pytest.approx(16.0, rel=1e-6)
    assert bend.max().item() == pytest.approx(BOUNDS[1], rel=1e-4)
    assert (4 * slope).max().item() == pytest.approx(BOUNDS[2], rel=1e-6)
    assert BOUNDS[3] == math.hypot(3, 4, 12)
